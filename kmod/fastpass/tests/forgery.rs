// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Packets that are not genuine change nothing, and excessive requests are refused.

use super::exchange::Wanted;
use weft_mechanisms::fastpass::endpoint::{self, Endpoint, Granted};
use weft_mechanisms::fastpass::frame::{
    encode, encode_report, Count, Entry, Frame, Head, Header, Kind, Run, Slot, ACK, ENTRIES,
    MAX_SIZE,
};
use weft_mechanisms::fastpass::session::{self, Secret, Session, FORGED_COST};
use weft_mechanisms::fastpass::MAX_OUTSTANDING;
use weft_mechanisms::heap::Heap;

const TIMEOUT: u64 = 1000;
/// How long an arbiter's acknowledgement waits for another packet, and how long an endpoint's does.
const PATIENCE: u64 = TIMEOUT / 4;
const ENDPOINTS_PATIENCE: u64 = TIMEOUT / 2;
const HEEDED: session::Received = session::Received::Heeded {
    refused: 0,
    is_first: false,
};
const BEGUN: session::Received = session::Received::Heeded {
    refused: 0,
    is_first: true,
};

struct Pair {
    endpoint: Endpoint<Heap>,
    session: Session<Heap>,
    wanted: Wanted,
    secret: Secret,
    /// The nonce of the session.
    nonce: u64,
}

fn said(poll: impl FnOnce(&mut [u8; MAX_SIZE]) -> Option<usize>) -> Option<Vec<u8>> {
    let mut bytes = [0; MAX_SIZE];
    let size = poll(&mut bytes)?;
    Some(bytes[..size].to_vec())
}

fn received(
    session: &mut Session<Heap>,
    now: u64,
    bytes: &[u8],
    secret: &Secret,
    wanted: &mut Wanted,
) -> session::Received {
    match Header::read(bytes) {
        Ok(header) => session.receive(now, header, secret, wanted),
        Err(_) => session::Received::Malformed,
    }
}

/// The counts of a packet: their destinations and totals.
fn counts(bytes: &[u8]) -> Vec<(u16, u32)> {
    let frame = Frame::decode(bytes).unwrap();
    let counts = frame.counts().map(|it| (it.destination, it.total));
    counts.collect()
}

/// The total after this many timeslots of a session.
fn total(slots: u32) -> u32 {
    slots.wrapping_sub(20)
}

fn is_forged(received: session::Received) -> bool {
    matches!(received, session::Received::Unsynchronised { .. })
}

impl Pair {
    /// An endpoint, 1 of 4, and the arbiter, in a session.
    fn new() -> Self {
        let mut new = Self {
            endpoint: Endpoint::new(1, 4, 0xc00c1e, TIMEOUT).unwrap(),
            session: Session::new(1, 4, TIMEOUT).unwrap(),
            wanted: Wanted::default(),
            secret: Secret([0x5eed, 0x5eed]),
            nonce: 0,
        };
        new.endpoint.ask(2, 5);
        let first = new.request(0);
        let reset = new.reset(0, &first);
        new.nonce = Frame::decode(&reset).unwrap().nonce();
        assert_eq!(new.at_endpoint(&reset), endpoint::Received::Reset);
        let second = new.request(0);
        assert_eq!(new.at_arbiter(0, &second), BEGUN);
        let ack = new.answer(0).unwrap();
        new.at_endpoint(&ack);
        assert_eq!(new.wanted.0[&2], 5);
        new
    }

    /// The endpoint's next message, now or a little later, if it waits for a request.
    fn request(&mut self, now: u64) -> Vec<u8> {
        let at_once = said(|bytes| self.endpoint.poll(now, bytes));
        let later = now + ENDPOINTS_PATIENCE;
        let said = at_once.or_else(|| said(|bytes| self.endpoint.poll(later, bytes)));
        said.expect("something to say")
    }

    /// The arbiter's next message, now or a little later.
    fn answer(&mut self, now: u64) -> Option<Vec<u8>> {
        let at_once = said(|bytes| self.session.poll(now, false, bytes));
        at_once.or_else(|| said(|bytes| self.session.poll(now + PATIENCE, false, bytes)))
    }

    fn at_arbiter(&mut self, now: u64, bytes: &[u8]) -> session::Received {
        received(
            &mut self.session,
            now,
            bytes,
            &self.secret,
            &mut self.wanted,
        )
    }

    /// The RESET that answers a packet.
    fn reset(&mut self, now: u64, bytes: &[u8]) -> Vec<u8> {
        let received = self.at_arbiter(now, bytes);
        let session::Received::Unsynchronised { cookie } = received else {
            panic!("{received:?}")
        };
        said(|bytes| Some(self.session.reset(&self.secret, cookie, bytes))).unwrap()
    }

    /// Another arbiter, without state.
    fn replace(&mut self) {
        self.session = Session::new(1, 4, TIMEOUT).unwrap();
        self.wanted.0.clear();
        self.secret = Secret([0xbeef, 1]);
    }

    fn at_endpoint(&mut self, bytes: &[u8]) -> endpoint::Received {
        self.endpoint.receive(bytes, |_| ())
    }

    /// A request by a sender that knows the nonce, with this total of timeslots.
    fn crafted(&self, destination: u16, asked: u32) -> Vec<u8> {
        let total = asked.wrapping_sub(20);
        let head = Head {
            kind: Kind::Request,
            endpoint: 1,
            word: 0,
        };
        let count = [Count { destination, total }];
        said(|bytes| Some(encode(bytes, head, self.nonce, count.into_iter(), &[]))).unwrap()
    }
}

#[test]
fn an_arbiter_that_knows_nothing_learns_all_in_one_round_trip() {
    let mut pair = Pair::new();
    // Two timeslots arrived; another one is on its way when the arbiter is replaced.
    for timeslot in [10, 11] {
        assert!(pair.session.give(timeslot, 2, 0));
    }
    let alloc = pair.answer(0).unwrap();
    let mut came = Vec::new();
    let heeded = pair.endpoint.receive(&alloc, |granted| came.push(granted));
    assert_eq!(heeded, endpoint::Received::Heeded { lost: 0 });
    let expected = [10, 11].map(|timeslot| Granted {
        timeslot,
        destination: 2,
        path: 0,
    });
    assert_eq!(came, expected);
    assert!(pair.session.give(12, 2, 0));
    let late = pair.answer(0).unwrap();

    pair.replace();
    pair.endpoint.ask(3, 4);
    let there = pair.request(0);
    let back = pair.reset(0, &there);
    assert_eq!(pair.at_endpoint(&back), endpoint::Received::Reset);
    // The next request is accepted, and contains all that is owed.
    let request = pair.request(0);
    assert_eq!(pair.at_arbiter(0, &request), BEGUN);
    assert_eq!(pair.wanted.0, [(2, 3), (3, 4)].into());
    assert_eq!(pair.at_endpoint(&late), endpoint::Received::Foreign);
}

#[test]
fn no_bit_of_a_packet_can_be_changed() {
    let mut pair = Pair::new();
    pair.endpoint.ask(3, 1);
    let request = pair.request(0);
    for bit in 0..request.len() * 8 {
        let mut forged = request.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let received = pair.at_arbiter(0, &forged);
        assert!(
            !matches!(received, session::Received::Heeded { .. }),
            "{bit}"
        );
    }
    assert_eq!(pair.wanted.0, [(2, 5)].into());
    assert_eq!(pair.at_arbiter(0, &request), HEEDED);
    assert_eq!(pair.wanted.0, [(2, 5), (3, 1)].into());

    assert!(pair.session.give(7, 2, 0) && pair.session.give(8, 3, 1));
    let mut alloc = pair.answer(0).unwrap();
    while Frame::decode(&alloc).unwrap().head.kind != Kind::Alloc {
        alloc = pair.answer(0).unwrap();
    }
    for bit in 0..alloc.len() * 8 {
        let mut forged = alloc.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let received = pair.at_endpoint(&forged);
        assert!(
            !matches!(received, endpoint::Received::Heeded { .. }),
            "{bit}"
        );
        assert_ne!(received, endpoint::Received::Reset);
    }
    let mut came = 0;
    pair.endpoint.receive(&alloc, |_| came += 1);
    assert_eq!(came, 2);
    // A repeated packet has no effect.
    pair.endpoint.receive(&alloc, |_| panic!("twice"));
}

#[test]
fn forged_packets_end_no_session() {
    let mut pair = Pair::new();
    for number in 0..1000 {
        let mut forged = pair.crafted(2, 99);
        // A wrong proof, and a wrong check.
        forged[20 + number % 12] ^= 1;
        let reset = pair.reset(1, &forged);
        assert_eq!(pair.at_endpoint(&reset), endpoint::Received::Foreign);
    }
    pair.endpoint.ask(2, 1);
    let request = pair.request(0);
    assert_eq!(pair.at_arbiter(1, &request), HEEDED);
    assert_eq!(pair.wanted.0[&2], 6);
}

#[test]
fn work_for_a_forged_packet_is_bounded_whatever_its_length() {
    let mut pair = Pair::new();
    let entries = [Entry {
        peer: 2,
        ..Entry::default()
    }; ENTRIES];
    for number in 0..1000 {
        let head = Head {
            kind: Kind::Report,
            endpoint: 1,
            word: number,
        };
        let report = |bytes: &mut _| Some(encode_report(bytes, head, number, 5, &entries));
        let forged = said(report).unwrap();
        assert_eq!(forged.len(), 600);
        let before = pair.session.hashed();
        assert!(is_forged(pair.at_arbiter(number, &forged)));
        let hashed = pair.session.hashed() - before;
        assert_eq!(hashed, FORGED_COST as u64);
        assert!(hashed < 64, "{hashed} bytes were hashed");
    }
}

#[test]
fn a_new_session_voids_all_nonces_offered_before() {
    let mut pair = Pair::new();
    let mut offered = Vec::new();
    for cookie in 0..100 {
        let head = Head {
            kind: Kind::Request,
            endpoint: 1,
            word: cookie,
        };
        let request = |bytes: &mut _| Some(encode(bytes, head, 1, [].into_iter(), &[]));
        let reset = pair.reset(0, &said(request).unwrap());
        let nonce = Frame::decode(&reset).unwrap().nonce();
        let head = Head {
            word: cookie + 1,
            ..head
        };
        let taken = |bytes: &mut _| Some(encode(bytes, head, nonce, [].into_iter(), &[]));
        offered.push(said(taken).unwrap());
    }
    // The nonce of the session is void as soon as another one is used.
    let old = pair.crafted(2, 5);
    assert_eq!(pair.at_arbiter(0, &offered[40]), BEGUN);
    for (number, packet) in offered.iter().enumerate() {
        let received = pair.at_arbiter(0, packet);
        match number {
            40 => assert_eq!(received, HEEDED),
            _ => assert!(is_forged(received), "{number}"),
        }
    }
    assert!(is_forged(pair.at_arbiter(0, &old)));
}

#[test]
fn an_endpoint_without_outstanding_timeslots_accepts_a_new_session_too() {
    let mut pair = Pair::new();
    for timeslot in 0..5 {
        assert!(pair.session.give(timeslot, 2, 0));
    }
    let alloc = pair.answer(0).unwrap();
    pair.at_endpoint(&alloc);
    // One bit is wrong in the acknowledgement.
    let mut ack = pair.request(0);
    ack[37] ^= 1;
    let reset = pair.reset(0, &ack);
    assert_eq!(pair.at_endpoint(&reset), endpoint::Received::Reset);
    // It repeats the message until it is answered.
    pair.request(0);
    assert_eq!(pair.endpoint.next_poll(1), Some(TIMEOUT));
    let request = pair.request(TIMEOUT);
    assert_eq!(pair.at_arbiter(TIMEOUT, &request), BEGUN);
    let answer = pair.answer(TIMEOUT).unwrap();
    let heeded = endpoint::Received::Heeded { lost: 0 };
    assert_eq!(pair.at_endpoint(&answer), heeded);
    assert_eq!(pair.endpoint.next_poll(TIMEOUT), None);
    assert_eq!(pair.session.next_poll(TIMEOUT), None);
}

#[test]
fn allocations_of_the_old_session_are_not_sent_in_the_new_one() {
    let mut pair = Pair::new();
    assert!(pair.session.give(1, 2, 0));
    let mut endpoint = Endpoint::<Heap>::new(1, 4, 2, TIMEOUT).unwrap();
    endpoint.ask(3, 1);
    let garbage = said(|bytes| endpoint.poll(0, bytes)).unwrap();
    let reset = pair.reset(0, &garbage);
    endpoint.receive(&reset, |_| ());
    let request = said(|bytes| endpoint.poll(0, bytes)).unwrap();
    assert_eq!(pair.at_arbiter(0, &request), BEGUN);
    assert_eq!(pair.wanted.0, [(3, 1)].into());
    let answer = pair.answer(0).unwrap();
    let kind = Frame::decode(&answer).unwrap().head.kind;
    assert_eq!(kind, Kind::AckRequest);
    assert_eq!(pair.answer(0), None);
}

#[test]
fn an_alloc_with_inconsistent_totals_allocates_nothing() {
    let mut pair = Pair::new();
    let alloc = |asked: u32, slots: u8| {
        let head = Head {
            kind: Kind::Alloc,
            endpoint: 1,
            word: 0,
        };
        let count = Count {
            destination: 2,
            total: asked.wrapping_sub(20),
        };
        let slot = |offset| Slot {
            offset,
            count: 0,
            path: 0,
        };
        let slots: Vec<_> = (0..slots).map(slot).map(Run::from).collect();
        let nonce = pair.nonce;
        said(|bytes| Some(encode(bytes, head, nonce, [count].into_iter(), &slots))).unwrap()
    };
    let packets = [(1, 2, 1), (7, 1, 0), (1 << 31, 1, 0)];
    let packets = packets.map(|(total, slots, lost)| (total, alloc(total, slots), lost));
    // More slots than the total covers, and more than were requested.
    for (total, packet, lost) in packets {
        let heeded = pair.endpoint.receive(&packet, |_| panic!("{total}"));
        assert_eq!(heeded, endpoint::Received::Heeded { lost });
        assert_eq!(pair.endpoint.outstanding(2), 5);
    }
}

#[test]
fn an_endpoint_that_restarts_is_offered_another_nonce() {
    let mut pair = Pair::new();
    let mut restart = |seed| {
        pair.endpoint = Endpoint::new(1, 4, seed, TIMEOUT).unwrap();
        pair.endpoint.ask(2, 9);
        let garbage = pair.request(0);
        let reset = pair.reset(0, &garbage);
        assert_eq!(pair.at_endpoint(&reset), endpoint::Received::Reset);
        (pair.request(0), Frame::decode(&reset).unwrap().nonce())
    };
    // The first one restarts before its request arrives.
    let (first, nonce) = restart(1);
    let (second, other) = restart(2);
    assert_ne!(nonce, other);
    assert_eq!(pair.at_arbiter(0, &second), BEGUN);
    assert!(is_forged(pair.at_arbiter(0, &first)));
    assert_eq!(pair.wanted.0, [(2, 9)].into());
}

#[test]
fn an_endpoint_does_not_accept_its_own_packet_as_an_answer() {
    let mut pair = Pair::new();
    pair.replace();
    pair.endpoint.ask(2, 1);
    let there = pair.request(0);
    let reset = pair.reset(0, &there);
    pair.at_endpoint(&reset);
    let request = pair.request(0);
    assert_eq!(pair.at_endpoint(&request), endpoint::Received::Malformed);
    assert_eq!(pair.endpoint.next_poll(1), Some(TIMEOUT));
}

#[test]
fn a_reset_is_obeyed_once() {
    let mut pair = Pair::new();
    pair.replace();
    pair.endpoint.ask(2, 1);
    let request = pair.request(0);
    let reset = pair.reset(0, &request);
    assert_eq!(pair.at_endpoint(&reset), endpoint::Received::Reset);
    assert_eq!(pair.at_endpoint(&reset), endpoint::Received::Foreign);
}

#[test]
fn an_excessive_request_is_limited() {
    let mut pair = Pair::new();
    assert_eq!(pair.endpoint.ask(2, u32::MAX), MAX_OUTSTANDING - 5);
    assert_eq!(pair.endpoint.ask(2, 1), 0);
    assert_eq!(pair.endpoint.ask(4, 1), 0, "there is no such destination");
    // An endpoint that exceeds the limit.
    let refused = session::Received::Heeded {
        refused: 1,
        is_first: false,
    };
    for (destination, total) in [(2, MAX_OUTSTANDING + 1), (2, 1 << 30), (4, 1), (ACK - 1, 1)] {
        let packet = pair.crafted(destination, total);
        let received = pair.at_arbiter(0, &packet);
        assert_eq!(received, refused, "{destination} {total}");
    }
    assert_eq!(pair.wanted.0, [(2, 5)].into());
}

#[test]
fn nothing_is_allocated_without_a_request() {
    let mut pair = Pair::new();
    assert!(!pair.session.give(1, 3, 0) && !pair.session.give(1, 4, 0));
    for timeslot in 0..5 {
        assert!(pair.session.give(timeslot, 2, 0));
    }
    assert!(!pair.session.give(5, 2, 0));
    // Too far from the first one.
    let mut pair = Pair::new();
    assert!(pair.session.give(1000, 2, 0) && pair.session.give(1255, 2, 0));
    assert!(!pair.session.give(1256, 2, 0) && !pair.session.give(999, 2, 0));
    pair.answer(0).unwrap();
    assert!(pair.session.give(1256, 2, 0));
}

#[test]
fn packets_with_the_wrong_direction_or_endpoint_are_ignored() {
    let mut pair = Pair::new();
    pair.endpoint.ask(2, 1);
    let request = pair.request(0);
    assert_eq!(pair.at_endpoint(&request), endpoint::Received::Malformed);
    assert!(pair.session.give(1, 2, 0));
    let alloc = pair.answer(0).unwrap();
    assert_eq!(pair.at_arbiter(0, &alloc), session::Received::Malformed);
    let mut other = Session::<Heap>::new(2, 4, TIMEOUT).unwrap();
    let received = received(&mut other, 0, &request, &pair.secret, &mut pair.wanted);
    assert_eq!(received, session::Received::Foreign);
}

#[test]
fn requests_and_allocations_carry_acknowledgements() {
    let mut pair = Pair::new();
    pair.endpoint.ask(3, 1);
    let request = pair.request(0);
    assert_eq!(pair.at_arbiter(0, &request), HEEDED);
    // The answer waits for an ALLOC.
    assert_eq!(said(|bytes| pair.session.poll(0, false, bytes)), None);
    assert!(pair.session.give(7, 2, 0));
    let alloc = pair.answer(0).unwrap();
    assert_eq!(counts(&alloc), [(2, total(1)), (3 | ACK, total(1))]);
    assert_eq!(
        said(|bytes| pair.session.poll(TIMEOUT / 2, false, bytes)),
        None
    );
    // And its acknowledgement for a request.
    pair.at_endpoint(&alloc);
    assert_eq!(said(|bytes| pair.endpoint.poll(0, bytes)), None);
    pair.endpoint.ask(3, 4);
    let request = pair.request(1);
    assert_eq!(counts(&request), [(3, total(5)), (2 | ACK, total(1))]);
    assert_eq!(pair.at_arbiter(1, &request), HEEDED);
    assert_eq!(pair.wanted.0, [(2, 5), (3, 5)].into());
    // Both have sent everything; only the request is repeated after a timeout, because it was not
    // answered.
    assert_eq!(said(|bytes| pair.endpoint.poll(TIMEOUT / 2, bytes)), None);
    assert_eq!(pair.endpoint.next_poll(1), Some(1 + TIMEOUT));
}

#[test]
fn an_acknowledgement_without_a_carrier_is_sent_alone() {
    let mut pair = Pair::new();
    pair.endpoint.ask(3, 1);
    let request = pair.request(0);
    pair.at_arbiter(0, &request);
    assert_eq!(pair.session.next_poll(0), Some(PATIENCE));
    assert_eq!(
        said(|bytes| pair.session.poll(PATIENCE - 1, false, bytes)),
        None
    );
    let ack = said(|bytes| pair.session.poll(PATIENCE, false, bytes)).unwrap();
    assert_eq!(Frame::decode(&ack).unwrap().head.kind, Kind::AckRequest);
    pair.at_endpoint(&ack);
    assert!(pair.session.give(7, 2, 0));
    let alloc = pair.answer(0).unwrap();
    pair.at_endpoint(&alloc);
    assert_eq!(pair.endpoint.next_poll(0), Some(0));
    assert_eq!(said(|bytes| pair.endpoint.poll(0, bytes)), None);
    assert_eq!(pair.endpoint.next_poll(0), Some(ENDPOINTS_PATIENCE));
    let ack = said(|bytes| pair.endpoint.poll(ENDPOINTS_PATIENCE, bytes)).unwrap();
    assert_eq!(Frame::decode(&ack).unwrap().head.kind, Kind::AckAlloc);
    // A query of the arbiter waits for nothing.
    pair.endpoint.enquire();
    let request = pair.request(PATIENCE);
    pair.at_arbiter(PATIENCE, &request);
    assert_eq!(pair.session.next_poll(PATIENCE), Some(PATIENCE));
}

#[test]
fn a_destination_is_requested_again_only_when_less_than_plenty_is_outstanding() {
    const PLENTY: u32 = 4;
    let mut pair = Pair::new();
    pair.endpoint.set_plenty(PLENTY);
    pair.endpoint.ask(3, 10);
    let request = pair.request(0);
    assert_eq!(counts(&request), [(3, total(10))]);
    assert_eq!(pair.at_arbiter(0, &request), HEEDED);
    // Even if the arbiter has not answered.
    pair.endpoint.ask(3, 7);
    assert!(!pair.endpoint.is_asking());
    for given in 1..=10 {
        assert!(pair.session.give(given, 3, 0));
        let alloc = pair.answer(0).unwrap();
        pair.at_endpoint(&alloc);
        let is_due = given > u64::from(10 - PLENTY);
        assert_eq!(pair.endpoint.is_asking(), is_due, "{given} of 10 given");
    }
    let request = pair.request(0);
    assert_eq!(counts(&request), [(3, total(17)), (3 | ACK, total(10))]);
}

#[test]
fn a_lost_request_is_repeated_after_the_timeout() {
    let mut pair = Pair::new();
    pair.endpoint.set_plenty(4);
    pair.endpoint.ask(3, 10);
    pair.request(0);
    pair.endpoint.ask(3, 7);
    assert_eq!(pair.endpoint.next_poll(1), Some(TIMEOUT));
    assert_eq!(said(|bytes| pair.endpoint.poll(TIMEOUT - 1, bytes)), None);
    assert_eq!(counts(&pair.request(TIMEOUT)), [(3, total(17))]);
}

#[test]
fn one_acknowledgement_answers_allocations_that_follow_each_other() {
    let mut pair = Pair::new();
    pair.endpoint.ask(3, 1000);
    let request = pair.request(0);
    pair.at_arbiter(0, &request);
    let step = ENDPOINTS_PATIENCE / 2;
    let mut acknowledged = Vec::new();
    let mut repeated = 0;
    for now in (0..20 * TIMEOUT).step_by(step as usize) {
        assert!(pair.session.give(now, 3, 0));
        let alloc = said(|bytes| pair.session.poll(now, false, bytes)).unwrap();
        assert_eq!(said(|bytes| pair.session.poll(now, false, bytes)), None);
        let others = counts(&alloc).into_iter().filter(|it| it.0 & !ACK != 3);
        repeated += others.count();
        pair.at_endpoint(&alloc);
        assert!(pair.endpoint.next_poll(now).is_some_and(|at| at <= now));
        if let Some(ack) = said(|bytes| pair.endpoint.poll(now, bytes)) {
            acknowledged.push(now);
            pair.at_arbiter(now, &ack);
        }
    }
    // Four timeouts after the first allocation that it acknowledges.
    let each = 4 * TIMEOUT + step;
    assert_eq!(acknowledged, [1, 2, 3, 4].map(|n| n * each - step));
    assert_eq!(repeated, 0);
    // Nothing follows the last one.
    let end = 20 * TIMEOUT - step + ENDPOINTS_PATIENCE;
    assert_eq!(pair.endpoint.next_poll(0), Some(end));
}

#[test]
fn an_allocation_carries_the_totals_that_are_about_to_be_repeated() {
    let mut pair = Pair::new();
    pair.endpoint.ask(3, 2);
    let request = pair.request(0);
    pair.at_arbiter(0, &request);
    assert!(pair.session.give(7, 2, 0));
    pair.answer(0).unwrap();
    let now = TIMEOUT - TIMEOUT / 4;
    assert!(pair.session.give(8, 3, 0));
    let alloc = said(|bytes| pair.session.poll(now - 1, false, bytes)).unwrap();
    assert_eq!(counts(&alloc), [(3, total(1))]);
    assert!(pair.session.give(9, 3, 0));
    let alloc = said(|bytes| pair.session.poll(now, false, bytes)).unwrap();
    assert_eq!(counts(&alloc), [(3, total(2)), (2, total(1))]);
    assert_eq!(pair.session.next_poll(now), Some(now + TIMEOUT));
}
