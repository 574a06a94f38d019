// SPDX-License-Identifier: MIT OR Apache-2.0

//! One turn of the main loop: how much is read before due events are processed.
//!
//! The loop stops reading when the next event is due, when the time of a batch has passed, or when
//! there is an answer that must arrive before the next batch; that one is sent before due events
//! are processed. A datagram that is not genuine costs a bounded amount of work
//! ([`sessions`](weft_arbiter::service)), so a flood delays an event by no more than [`LEAST`]
//! datagrams take. That many are read in each turn, however late it is: requests are heard even if
//! allocation takes all the time.

use std::net::SocketAddrV4;

use anyhow::Result;

use super::arbiter::Arbiter;

/// The fewest datagrams of a socket that are read in a turn, if they have arrived. Those of two
/// sockets take less time than the shortest lead.
pub(crate) const LEAST: usize = 8;

/// A source and destination of datagrams.
pub(crate) trait Socket {
    /// The next received datagram, if there is one.
    fn next(&mut self) -> Result<Option<(SocketAddrV4, &[u8])>>;

    /// Sends a datagram, at the latest with the next [`flush`](Self::flush).
    fn send(&mut self, to: SocketAddrV4, bytes: &[u8]);

    /// Sends all unsent datagrams.
    fn flush(&mut self);
}

/// Receives datagrams, within bounds, and processes due events; returns whether there may be more
/// to receive.
pub(crate) fn turn<S: Socket>(
    arbiter: &mut Arbiter<'_>,
    beats: Option<&mut S>,
    endpoints: &mut S,
    until: u64,
    mut clock: impl FnMut() -> Result<u64>,
) -> Result<bool> {
    let mut is_behind = false;
    let begin = clock()?;
    if let Some(beats) = beats {
        is_behind |= read(arbiter, beats, begin, &mut clock)?;
    }
    let due = arbiter.next_event().min(until);
    let due = due.min(begin.saturating_add(arbiter.reading_time()));
    is_behind |= read(arbiter, endpoints, due, &mut clock)?;
    if arbiter.is_hurried() {
        // A batch takes long.
        arbiter.poll(clock()?, |to, bytes| endpoints.send(to, bytes));
        endpoints.flush();
    }
    arbiter.tick(clock()?, |to, bytes| endpoints.send(to, bytes))?;
    endpoints.flush();
    Ok(is_behind)
}

/// Reads until there is nothing, an event is due, or an answer is urgent; returns whether there may
/// be more.
fn read(
    arbiter: &mut Arbiter<'_>,
    socket: &mut impl Socket,
    due: u64,
    clock: &mut impl FnMut() -> Result<u64>,
) -> Result<bool> {
    for count in 1.. {
        let Some((from, bytes)) = socket.next()? else {
            break;
        };
        let now = clock()?;
        arbiter.receive(now, from, bytes);
        if count >= LEAST && (now >= due || arbiter.is_hurried()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::net::Ipv4Addr;

    use clap::Parser as _;
    use weft_mechanisms::fastpass::endpoint::Endpoint;
    use weft_mechanisms::fastpass::frame::{ENTRIES, Entry, Head, Kind, MAX_SIZE, encode_report};
    use weft_mechanisms::heap::Heap;

    use super::super::arguments::Arguments;
    use super::*;

    /// The arbiter's time for a hostile datagram, with its system call, in ns.
    const COST: u64 = 700;
    /// The longest time of a turn, in ns.
    const LONGEST: u64 = 32_500;

    /// An unlimited flood; one datagram in 32 is genuine, if there is one.
    struct Flood<'a> {
        clock: &'a Cell<u64>,
        hostile: Option<Vec<u8>>,
        read: usize,
        genuine: VecDeque<Vec<u8>>,
        now: Vec<u8>,
        sent: Vec<(SocketAddrV4, Vec<u8>)>,
        /// How many had been sent at each flush.
        flushed: Vec<usize>,
    }

    impl<'a> Flood<'a> {
        fn new(clock: &'a Cell<u64>, hostile: Option<Vec<u8>>) -> Self {
            Self {
                clock,
                hostile,
                read: 0,
                genuine: VecDeque::new(),
                now: Vec::new(),
                sent: Vec::new(),
                flushed: Vec::new(),
            }
        }
    }

    const ENDPOINT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 700);
    const HOSTILE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 600);

    impl Socket for Flood<'_> {
        fn next(&mut self) -> Result<Option<(SocketAddrV4, &[u8])>> {
            self.clock.set(self.clock.get() + COST);
            self.read += 1;
            let is_turn = self.read.is_multiple_of(32) || self.hostile.is_none();
            if let Some(genuine) = is_turn.then(|| self.genuine.pop_front()).flatten() {
                self.now = genuine;
                return Ok(Some((ENDPOINT, &self.now)));
            }
            Ok(self.hostile.as_deref().map(|bytes| (HOSTILE, bytes)))
        }

        fn send(&mut self, to: SocketAddrV4, bytes: &[u8]) {
            self.sent.push((to, bytes.to_vec()));
        }

        fn flush(&mut self) {
            self.flushed.push(self.sent.len());
        }
    }

    fn forged() -> Vec<u8> {
        let mut bytes = [0; MAX_SIZE];
        let head = Head {
            kind: Kind::Report,
            endpoint: 0,
            word: 7,
        };
        let len = encode_report(&mut bytes, head, 1, 5, &[Entry::default(); ENTRIES]);
        bytes[..len].to_vec()
    }

    /// Allocations are not late, and the active one of two arbiters does not yield as if it had
    /// stalled.
    #[test]
    fn a_flood_delays_no_allocation_and_ends_no_turn() {
        let arguments = "weft-arbiter --first 10.0.0.2 --hosts 4 --peer 10.0.0.9";
        let arguments = Arguments::parse_from(arguments.split(' '));
        let clock = Cell::new(1_000_000_000);
        let time = || Ok(clock.get());
        let mut arbiter = Arbiter::new(&arguments, None, clock.get()).unwrap();
        let socket = |hostile| Flood::new(&clock, hostile);
        let mut sockets = [None, Some(forged())].map(socket);
        let [beats, endpoints] = &mut sockets;
        // Until it is active all others are silent.
        let mut quiet = socket(None);
        while !arbiter.is_active() {
            clock.set(clock.get() + 50_000);
            turn(&mut arbiter, Some(beats), &mut quiet, u64::MAX, time).unwrap();
        }
        let Ok(mut endpoint) = Endpoint::<Heap>::new(0, 4, 77, 315_000);
        let (mut asked, mut given) = (0, 0);
        for _ in 0..5000 {
            // There is always demand, so that a batch is always due.
            if endpoint.outstanding(1) < 500 {
                asked += endpoint.ask(1, 500);
            }
            let mut bytes = [0; MAX_SIZE];
            while let Some(len) = endpoint.poll(clock.get(), &mut bytes) {
                endpoints.genuine.push_back(bytes[..len].to_vec());
            }
            let begin = clock.get();
            let is_behind = turn(&mut arbiter, Some(beats), endpoints, u64::MAX, time).unwrap();
            assert!(is_behind, "a flood has no end");
            let late = clock.get() - begin;
            assert!(late < LONGEST, "a turn took {late} ns");
            assert!(arbiter.is_active(), "it has yielded");
            for (to, bytes) in endpoints.sent.drain(..).filter(|(to, _)| *to == ENDPOINT) {
                assert_eq!(to, ENDPOINT);
                endpoint.receive(&bytes, |_| given += 1);
            }
        }
        let counters = arbiter.line(clock.get()).counters;
        assert!(
            given > 10_000 && given + 1000 >= asked,
            "{given} of {asked}"
        );
        assert_eq!(counters.sessions, 1);
        assert_eq!(counters.skipped_timeslots, 0, "{counters:?}");
    }

    #[test]
    fn requests_are_read_even_if_a_batch_is_always_due() {
        let arguments = "weft-arbiter --first 10.0.0.2 --hosts 4";
        let arguments = Arguments::parse_from(arguments.split(' '));
        let clock = Cell::new(1_000_000_000);
        let mut arbiter = Arbiter::new(&arguments, None, clock.get()).unwrap();
        let mut endpoints = Flood::new(&clock, Some(forged()));
        let none: Option<&mut Flood<'_>> = None;
        turn(&mut arbiter, none, &mut endpoints, 0, || Ok(clock.get())).unwrap();
        assert_eq!(endpoints.read, LEAST);
    }

    #[test]
    fn an_answer_with_leftovers_ends_the_reading_and_leaves_at_once() {
        let arguments = "weft-arbiter --first 10.0.0.2 --hosts 4 --lead 60us --travel 15us";
        let arguments = Arguments::parse_from(arguments.split(' '));
        let clock = Cell::new(1_000_000_000);
        let time = || Ok(clock.get());
        let mut arbiter = Arbiter::new(&arguments, None, clock.get()).unwrap();
        let mut endpoints = Flood::new(&clock, None);
        let none: Option<&mut Flood<'_>> = None;
        let Ok(mut endpoint) = Endpoint::<Heap>::new(0, 4, 77, 315_000);
        let (mut bytes, mut given) = ([0; MAX_SIZE], 0);
        // A session, and a first batch.
        endpoint.ask(1, 1);
        while given == 0 {
            while let Some(len) = endpoint.poll(clock.get(), &mut bytes) {
                endpoints.genuine.push_back(bytes[..len].to_vec());
            }
            clock.set(clock.get() + 10_000);
            turn(&mut arbiter, None, &mut endpoints, u64::MAX, time).unwrap();
            for (_, bytes) in endpoints.sent.drain(..) {
                endpoint.receive(&bytes, |_| given += 1);
            }
        }
        // A late request, at the beginning of a flood.
        clock.set(clock.get() + 1_000_000);
        turn(&mut arbiter, None, &mut endpoints, u64::MAX, time).unwrap();
        endpoint.ask(2, 1);
        let len = endpoint.poll(clock.get(), &mut bytes).unwrap();
        endpoints.genuine.push_back(bytes[..len].to_vec());
        endpoints.hostile = Some(forged());
        endpoints.read = 31;
        endpoints.sent.clear();
        endpoints.flushed.clear();
        assert!(turn(&mut arbiter, none, &mut endpoints, u64::MAX, time).unwrap());
        assert_eq!(endpoints.read, 31 + LEAST);
        let first = endpoints.flushed[0];
        for (to, bytes) in endpoints.sent.drain(..first) {
            if to == ENDPOINT {
                endpoint.receive(&bytes, |granted| {
                    given += u32::from(granted.destination == 2)
                });
            }
        }
        assert_eq!((given, endpoints.flushed.len()), (2, 2));
    }
}
