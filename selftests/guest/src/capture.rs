// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP as a host's link sees it: what is sent, behind its qdisc, and what arrives; and the check
//! that only timeouts send anything again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::packets::{Frame, Receiver};
use weft_ktap::Namespace;

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// When, in ns of CLOCK_REALTIME.
    pub(crate) time: u64,
    /// The sender's address and port.
    pub(crate) from: ([u8; 4], u16),
    pub(crate) to: ([u8; 4], u16),
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// Payload in bytes.
    pub(crate) len: u32,
    /// The IPv4 header's second byte: code point and ECN.
    pub(crate) tos: u8,
    /// Whether it tells of a mark of congestion (ECE).
    pub(crate) ece: bool,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
}

impl Segment {
    fn parse(frame: &Frame) -> Option<Self> {
        const IPV4: [u8; 2] = [8, 0];
        const TCP: u8 = 6;
        let (ethernet, ip) = frame.start.split_first_chunk::<14>()?;
        if ethernet[12..] != IPV4 || ip.first() != Some(&0x45) || ip[9] != TCP {
            return None;
        }
        let (ip, tcp) = ip.split_first_chunk::<20>()?;
        let tcp: &[u8; 20] = tcp.first_chunk()?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let number = |at| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let address = |at: usize| [ip[at], ip[at + 1], ip[at + 2], ip[at + 3]];
        let headers = 20 + u32::from(tcp[12] >> 4) * 4;
        Some(Self {
            time: frame.time,
            from: (address(12), port(0)),
            to: (address(16), port(2)),
            seq: number(4),
            ack: number(8),
            len: u32::from(u16::from_be_bytes([ip[2], ip[3]])).checked_sub(headers)?,
            tos: ip[1],
            ece: tcp[13] & 0x40 != 0,
            syn: tcp[13] & 2 != 0,
            fin: tcp[13] & 1 != 0,
        })
    }

    /// The first sequence number after it.
    pub(crate) fn end(&self) -> u32 {
        self.seq
            .wrapping_add(self.len)
            .wrapping_add(self.syn.into())
            .wrapping_add(self.fin.into())
    }
}

/// All TCP segments of a namespace's links, from now on.
pub(crate) struct Capture(Receiver);

impl Capture {
    pub(crate) fn start(namespace: &Namespace) -> Result<Self> {
        Receiver::of_both_ways(namespace).map(Self)
    }

    /// Those since the last call.
    pub(crate) fn segments(&self) -> Result<Vec<Segment>> {
        let frames = self.0.frames()?;
        Ok(frames.iter().filter_map(Segment::parse).collect())
    }
}

/// Whether sequence number `a` comes before `b`.
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// What happened to one direction of one connection, as its sender's link saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Segments with data that were sent for the first time.
    pub(crate) first: usize,
    /// Segments with data that were retransmitted, by a timeout or after one.
    pub(crate) again: usize,
    /// When each timeout was, and how many bytes it sent.
    pub(crate) timeouts: Vec<(u64, u32)>,
    /// The most bytes that were sent and not acknowledged cumulatively.
    pub(crate) most_out: u32,
}

/// From when a timeout counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// The last cumulative acknowledgement, or the timeout before.
    Progress,
    /// When the first unacknowledged data was sent last.
    Sending,
}

/// Replays a connection. What is retransmitted must be
///
/// - the first unacknowledged data, a timeout after `since`: this *is* a timeout; or
/// - data that was last sent before the last timeout: lost with all the rest, for the sender.
///
/// # Errors
///
/// If anything else is retransmitted. `least` is the shortest time that a timeout takes.
pub(crate) fn replay(
    segments: &[Segment],
    sender: ([u8; 4], u16),
    since: Since,
    least: Duration,
) -> Result<History> {
    let least = least.as_nanos() as u64;
    let mut history = History::default();
    // The last time each piece was sent, by its first number relative to the connection's first.
    let mut sent: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut start, mut una, mut next) = (None, 0, 0);
    // The last progress, and the last timeout.
    let (mut progress, mut timeout) = (0, 0);
    for segment in segments {
        if segment.to == sender {
            if start.is_some() && before(una, segment.ack) {
                una = segment.ack;
                progress = segment.time;
            }
            continue;
        }
        if segment.from != sender {
            continue;
        }
        if segment.syn {
            let first = segment.end();
            (start, una, next) = (Some(first), first, first);
            continue;
        }
        let Some(first) = start else {
            bail!("the capture does not begin with the connection")
        };
        if segment.len == 0 && !segment.fin {
            continue;
        }
        let place = segment.seq.wrapping_sub(first);
        if segment.seq == next {
            if una == next {
                progress = segment.time;
            }
            history.first += 1;
            next = segment.end();
            history.most_out = history.most_out.max(next.wrapping_sub(una));
            sent.insert(place, segment.time);
            continue;
        }
        let Some((_, &last)) = sent.range(..=place).next_back() else {
            bail!("{segment:?} has data from before the connection")
        };
        history.again += 1;
        let silence = segment.time.saturating_sub(match since {
            Since::Progress => progress,
            Since::Sending => last,
        });
        if segment.seq == una && silence >= least {
            history.timeouts.push((segment.time, segment.len));
            (progress, timeout) = (segment.time, segment.time);
        } else if last >= timeout {
            bail!(
                "byte {place} was retransmitted {} µs after it was sent, {} µs after the last progress \
                 and {} µs after the last timeout; first unacknowledged: {}",
                (segment.time - last) / 1000,
                (segment.time - progress) / 1000,
                (segment.time - timeout) / 1000,
                una.wrapping_sub(first),
            );
        }
        // Of a piece that was cut in two, the second is as old as it was.
        sent.entry(segment.end().wrapping_sub(first))
            .or_insert(last);
        sent.insert(place, segment.time);
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ([u8; 4], u16) = ([10, 0, 0, 1], 1);
    const B: ([u8; 4], u16) = ([10, 0, 0, 2], 2);
    const LEAST: Duration = Duration::from_millis(44);

    /// At a time in ms, A sends (piece, pieces) of 1000 bytes, or B acknowledges up to a piece.
    enum Event {
        Send(u64, u32, u32),
        Ack(u64, u32),
    }
    use Event::{Ack, Send};

    fn history(since: Since, events: &[Event]) -> Result<History> {
        let blank = Segment {
            time: 0,
            from: A,
            to: B,
            seq: u32::MAX - 5000, // it wraps
            ack: 7,
            len: 0,
            tos: 0,
            ece: false,
            syn: true,
            fin: false,
        };
        let first = blank.end();
        let segment = |event: &Event| match *event {
            Send(ms, piece, bytes) => Segment {
                time: ms * 1_000_000,
                seq: first.wrapping_add(piece * 1000),
                len: bytes,
                syn: false,
                ..blank
            },
            Ack(ms, piece) => Segment {
                time: ms * 1_000_000,
                from: B,
                to: A,
                seq: 7,
                ack: first.wrapping_add(piece * 1000),
                syn: false,
                ..blank
            },
        };
        let segments: Vec<Segment> = std::iter::once(blank)
            .chain(events.iter().map(segment))
            .collect();
        replay(&segments, A, since, LEAST)
    }

    #[test]
    fn a_timeout_and_its_retransmissions_are_recognized() {
        let history = history(
            Since::Progress,
            &[
                Send(100, 0, 1000),
                Send(100, 1, 1000),
                Send(100, 2, 1000),
                Ack(120, 1),
                Send(165, 1, 1000), // 45 ms after progress
                Ack(185, 2),
                Send(185, 2, 1000), // last sent before the timeout
                Send(233, 2, 1000), // and timed out, too
                Send(281, 2, 1),
            ],
        )
        .unwrap();
        assert_eq!((history.first, history.again), (3, 4));
        let times: Vec<_> = history.timeouts.iter().map(|it| it.0 / 1_000_000).collect();
        assert_eq!(times, [165, 233, 281]);
        assert_eq!(history.timeouts[2].1, 1);
        assert_eq!(history.most_out, 3000);
    }

    #[test]
    fn a_fast_retransmission_is_not_taken_for_a_timeout() {
        for events in [
            vec![Send(100, 0, 1000), Send(101, 1, 1000), Send(130, 0, 1000)],
            // Not the first unacknowledged one.
            vec![Send(100, 0, 1000), Send(101, 1, 1000), Send(190, 1, 1000)],
            // Lost again after the timeout, and not waited for.
            vec![
                Send(100, 0, 1000),
                Send(100, 1, 1000),
                Send(148, 0, 1000),
                Ack(168, 1),
                Send(168, 1, 1000),
                Send(188, 1, 1000),
            ],
        ] {
            assert!(history(Since::Progress, &events).is_err());
        }
    }

    #[test]
    fn a_timeout_may_count_from_sending() {
        let events = [
            Send(100, 0, 1000),
            Send(100, 1, 1000),
            Ack(120, 1),
            Send(148, 1, 1000),
        ];
        assert!(history(Since::Progress, &events).is_err());
        let history = history(Since::Sending, &events).unwrap();
        assert_eq!(history.timeouts.len(), 1);
    }
}
