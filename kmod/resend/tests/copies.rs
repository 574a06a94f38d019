// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The copies of a device against a naive model: a list, searched completely each time.

use super::packets::segment;
use proptest::prelude::*;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::resend::copies::{Copies, MAX_COPIES};
use weft_mechanisms::resend::segment::Segment;

fn copies(capacity: u32) -> Copies<Heap, u32> {
    let Ok(copies) = Copies::new(capacity);
    copies
}

/// The oldest copy first.
#[derive(Default)]
struct Naive(Vec<(Segment, u32, u32)>);

impl Naive {
    fn take(&mut self, segment: &Segment) -> Option<(Segment, u32, u32)> {
        let at = self.0.iter().position(|it| it.0 == *segment)?;
        Some(self.0.remove(at))
    }

    fn keep(&mut self, capacity: u32, segment: Segment, packet: u32, bytes: u32) -> Option<u32> {
        let mut replaced = self.take(&segment);
        if self.0.len() == capacity as usize {
            replaced = Some(self.0.remove(0));
        }
        self.0.push((segment, packet, bytes));
        replaced.map(|it| it.1)
    }

    fn renew(&mut self, segment: &Segment) -> Option<u32> {
        let content = self.take(segment)?;
        self.0.push(content);
        Some(content.1)
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|it| u64::from(it.2)).sum()
    }
}

#[test]
fn the_oldest_copy_makes_room_for_the_newest() {
    let mut copies = copies(3);
    for number in 0..3 {
        assert_eq!(copies.keep(segment(0, number), number, 1500), Ok(None));
    }
    assert_eq!(copies.keep(segment(0, 3), 3, 1500), Ok(Some(0)));
    assert_eq!(copies.renew(&segment(0, 0)), None);
    assert_eq!(copies.renew(&segment(0, 1)), Some(&1));
    assert_eq!((copies.len(), copies.bytes()), (3, 4500));
}

#[test]
fn a_copy_that_is_retransmitted_is_the_newest_because_it_can_be_dropped_again() {
    let mut copies = copies(2);
    assert_eq!(copies.keep(segment(0, 0), 0, 1), Ok(None));
    assert_eq!(copies.keep(segment(0, 1), 1, 1), Ok(None));
    for number in 2..10 {
        assert_eq!(copies.renew(&segment(0, 0)), Some(&0));
        assert_eq!(
            copies.keep(segment(0, number), number, 1),
            Ok(Some(number - 1))
        );
    }
}

#[test]
fn a_retransmission_by_tcp_replaces_the_copy_of_its_segment() {
    let mut copies = copies(8);
    assert_eq!(copies.keep(segment(0, 0), 10, 100), Ok(None));
    assert_eq!(copies.keep(segment(0, 0), 11, 104), Ok(Some(10)));
    assert_eq!(copies.renew(&segment(0, 0)), Some(&11));
    assert_eq!((copies.len(), copies.bytes()), (1, 104));
}

#[test]
fn a_segment_with_another_length_or_flow_is_another_one() {
    let mut copies = copies(8);
    assert_eq!(copies.keep(segment(0, 5), 1, 1), Ok(None));
    for other in [
        segment(1, 5),
        segment(0, 6),
        Segment {
            length: 999,
            ..segment(0, 5)
        },
        Segment {
            destination: 3,
            ..segment(0, 5)
        },
        Segment {
            destination_port: 81,
            ..segment(0, 5)
        },
        Segment {
            acknowledgement: 78,
            ..segment(0, 5)
        },
    ] {
        assert_eq!(copies.renew(&other), None);
    }
}

#[test]
fn sequence_numbers_wrap() {
    let mut copies = copies(100);
    // 1000 bytes each, across 2^32.
    let start = u32::MAX / 1000 - 20;
    for number in 0..50 {
        assert_eq!(copies.keep(segment(0, start + number), number, 1), Ok(None));
    }
    for number in 0..50 {
        assert_eq!(copies.renew(&segment(0, start + number)), Some(&number));
    }
}

#[test]
fn all_copies_of_full_room_are_found() {
    let mut copies = copies(MAX_COPIES);
    for number in 0..3 * MAX_COPIES {
        let replaced = number.checked_sub(MAX_COPIES);
        assert_eq!(copies.keep(segment(0, number), number, 1), Ok(replaced));
    }
    for number in 2 * MAX_COPIES..3 * MAX_COPIES {
        assert_eq!(copies.renew(&segment(0, number)), Some(&number));
    }
    let mut left = 0;
    while copies.pop().is_some() {
        left += 1;
    }
    assert_eq!(
        (left, copies.is_empty(), copies.bytes()),
        (MAX_COPIES, true, 0)
    );
}

#[test]
fn room_for_less_than_one_copy_or_more_than_the_most_is_clamped() {
    for (asked, room) in [(0, 1), (u32::MAX, MAX_COPIES)] {
        let mut copies = copies(asked);
        for number in 0..room {
            assert_eq!(copies.keep(segment(0, number), number, 1), Ok(None));
        }
        assert_eq!(copies.keep(segment(0, room), 0, 1), Ok(Some(0)));
    }
}

proptest! {
    #[test]
    fn copies_are_those_of_the_naive_model(
        capacity in 1..40_u32,
        start: u32,
        steps in prop::collection::vec((0..10_u8, 0..3_u16, 0..30_u32, 1..9000_u32), 1..400),
    ) {
        let (mut copies, mut naive) = (copies(capacity), Naive::default());
        let mut sent = 0_u32;
        for (step, (what, flow, number, bytes)) in (0..).zip(steps) {
            match what {
                // A burst of new segments.
                0..=3 => for _ in 0..=number / 4 {
                    let segment = segment(flow, start.wrapping_add(sent));
                    sent += 1;
                    let replaced = naive.keep(capacity, segment, step, bytes);
                    prop_assert_eq!(copies.keep(segment, step, bytes), Ok(replaced));
                }
                // TCP retransmits a segment, old or recent.
                4 | 5 => {
                    let segment = segment(flow, start.wrapping_add(sent.wrapping_sub(number)));
                    let replaced = naive.keep(capacity, segment, step, bytes);
                    prop_assert_eq!(copies.keep(segment, step, bytes), Ok(replaced));
                }
                // A notice: of a recent segment, a late one, or one that was never sent.
                6..=8 => {
                    let segment = segment(flow, start.wrapping_add(sent.wrapping_sub(2 * number)));
                    prop_assert_eq!(copies.renew(&segment).copied(), naive.renew(&segment));
                }
                _ => if number == 0 {
                    let oldest = (!naive.0.is_empty()).then(|| naive.0.remove(0).1);
                    prop_assert_eq!(copies.pop(), oldest);
                }
            }
            prop_assert_eq!(copies.len() as usize, naive.0.len());
            prop_assert_eq!(copies.bytes(), naive.bytes());
        }
        for (_, packet, _) in naive.0 {
            prop_assert_eq!(copies.pop(), Some(packet));
        }
        prop_assert_eq!(copies.pop(), None);
    }
}
