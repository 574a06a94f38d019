// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Pause counters, and the messages to the upstream neighbour.

use super::rig::set;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_mechanisms::bfc::ingress::{Counters, Ingress, Tell, HOLD, QUIET};
use weft_mechanisms::bfc::queue_set::QueueSet;
use weft_mechanisms::heap::Heap;

const REFRESH: u64 = 20_000;

fn ingress() -> Ingress<Heap> {
    let Ok(counters) = Counters::new();
    let mut ingress = Ingress::new(counters);
    ingress.set_refresh(REFRESH);
    ingress
}

#[test]
fn a_pause_is_sent_when_the_counter_goes_from_0_to_1_and_a_resume_when_it_goes_from_1_to_0() {
    let mut port = ingress();
    assert_eq!(port.tell(0), None);
    assert!(port.count(7));
    assert!(port.has_news());
    assert_eq!(port.tell(0), Some(Tell::Pause(7)));
    assert!(port.count(7) && port.count(7));
    assert_eq!(port.counter(7), 3);
    assert!(!port.has_news());
    assert_eq!(port.tell(1), None);
    port.uncount(7);
    port.uncount(7);
    assert_eq!(port.tell(2), None);
    port.uncount(7);
    assert_eq!(port.tell(3), Some(Tell::Resume(7)));
    assert_eq!((port.counter(7), port.inside()), (0, 0));
}

#[test]
fn several_changes_at_once_are_one_bitmap() {
    let mut port = ingress();
    port.count(7);
    port.count(1023);
    port.count(1);
    assert_eq!(port.tell(0), Some(Tell::State(set(&[1, 7, 1023]))));
    port.uncount(7);
    port.count(64);
    assert_eq!(port.tell(1), Some(Tell::State(set(&[1, 64, 1023]))));
    assert_eq!(port.tell(2), None);
}

#[test]
fn a_pause_that_is_resumed_before_it_was_sent_is_never_sent() {
    let mut port = ingress();
    port.count(7);
    port.uncount(7);
    assert!(!port.has_news());
    assert_eq!(port.tell(0), None);
    port.count(7);
    port.tell(1);
    port.uncount(7);
    port.count(7);
    assert_eq!(port.tell(2), None, "the neighbour knows that it is paused");
}

#[test]
fn a_bitmap_is_sent_periodically_while_something_is_paused() {
    let mut port = ingress();
    assert_eq!(
        port.next_refresh(),
        None,
        "nothing to say, and no timer for it"
    );
    port.count(7);
    port.tell(1_000);
    for round in 1..10 {
        let due = 1_000 + round * REFRESH;
        assert_eq!(port.next_refresh(), Some(due));
        assert_eq!(port.tell(due - 1), None);
        assert_eq!(port.tell(due), Some(Tell::State(set(&[7]))));
    }
}

#[test]
fn a_change_does_not_delay_the_next_bitmap() {
    let mut port = ingress();
    port.count(7);
    port.tell(0);
    port.count(8);
    assert_eq!(port.tell(REFRESH / 2), Some(Tell::Pause(8)));
    assert_eq!(port.next_refresh(), Some(REFRESH));
    port.count(9);
    // A bitmap that was due anyway contains the change as well.
    assert_eq!(port.tell(REFRESH), Some(Tell::State(set(&[7, 8, 9]))));
    assert_eq!(port.next_refresh(), Some(2 * REFRESH));
}

#[test]
fn bitmaps_go_on_for_a_while_after_the_last_resume_in_case_it_was_lost() {
    let mut port = ingress();
    port.count(7);
    port.tell(0);
    port.uncount(7);
    assert_eq!(port.tell(10), Some(Tell::Resume(7)));
    let mut bitmaps = 0;
    while let Some(due) = port.next_refresh() {
        assert_eq!(port.tell(due), Some(Tell::State(QueueSet::EMPTY)));
        bitmaps += 1;
    }
    assert_eq!(bitmaps, QUIET);
    assert_eq!(port.tell(u64::MAX - 1), None);
}

#[test]
fn a_pause_holds_for_several_bitmaps() {
    assert_eq!(ingress().hold(), HOLD * REFRESH);
    let mut port = ingress();
    port.set_refresh(u64::MAX);
    assert_eq!(port.hold(), u64::MAX);
}

#[test]
fn an_impossible_queue_number_is_not_counted() {
    let mut port = ingress();
    assert!(!port.count(1024) && !port.count(u16::MAX));
    port.uncount(1024);
    port.uncount(5);
    assert_eq!((port.counter(5), port.inside()), (0, 0), "never below 0");
    let mut port = Ingress::<Heap>::new(Counters::none());
    assert!(!port.count(1));
}

#[test]
fn after_an_unsent_frame_the_neighbour_gets_a_full_bitmap() {
    let mut port = ingress();
    port.count(7);
    port.tell(0);
    port.tell_again(500);
    assert_eq!(port.next_refresh(), Some(500));
    assert_eq!(port.tell(500), Some(Tell::State(set(&[7]))));
    assert_eq!(port.after(500), 500 + REFRESH);
}

#[test]
fn an_unsent_frame_adds_no_bitmap_while_nothing_is_paused() {
    let mut port = ingress();
    port.count(7);
    port.tell(0);
    port.uncount(7);
    assert_eq!(port.tell(10), Some(Tell::Resume(7)));
    port.unsent(10);
    let mut waits = Vec::new();
    let mut now = 10;
    while let Some(due) = port.next_refresh() {
        waits.push((due - now) / REFRESH);
        now = due;
        assert_eq!(port.tell(now), Some(Tell::State(QueueSet::EMPTY)));
        port.unsent(now);
    }
    assert_eq!(waits, [1, 2, HOLD, HOLD]);
    assert_eq!(waits.len(), usize::from(QUIET));
}

#[test]
fn an_unsent_frame_is_made_up_for_one_refresh_later() {
    let mut port = ingress();
    port.count(7);
    port.tell(0);
    for failed in [5, 10].map(|rounds| rounds * REFRESH) {
        while port.next_refresh() != Some(failed) {
            let due = port.next_refresh().unwrap();
            assert_eq!(port.tell(due), Some(Tell::State(set(&[7]))));
        }
        assert_eq!(port.tell(failed), Some(Tell::State(set(&[7]))));
        port.unsent(failed);
        assert_eq!(port.next_refresh(), Some(failed + REFRESH));
    }
    // Also if no time is set between two.
    port.set_refresh(u64::MAX);
    port.unsent(1);
    assert_eq!(port.next_refresh(), None, "never");
}

proptest! {
    /// "The upstream queue is paused if and only if its Pause Counter at the downstream switch is
    /// non-zero", eventually: whatever frames are lost, one bitmap repairs it.
    #[test]
    fn the_neighbour_learns_which_queues_are_paused_however_many_frames_are_lost(
        operations in prop::collection::vec((0..4_u8, 1..6_u16, 0..2 * REFRESH, any::<bool>()), 0..200),
    ) {
        let mut port = ingress();
        let mut counters = BTreeMap::<u16, u32>::new();
        let mut known = QueueSet::EMPTY;
        let mut lost = false;
        let mut now = 0;
        let obey = |known: &mut QueueSet, tell: Tell| match tell {
            Tell::Pause(queue) => known.insert(queue),
            Tell::Resume(queue) => known.remove(queue),
            Tell::State(state) => *known = state,
        };
        for (operation, queue, time, loses) in operations {
            let counter = counters.entry(queue).or_default();
            match operation {
                0 => {
                    port.count(queue);
                    *counter += 1;
                }
                1 if *counter > 0 => {
                    port.uncount(queue);
                    *counter -= 1;
                }
                2 => now += time,
                _ => {
                    if let Some(tell) = port.tell(now) {
                        if loses {
                            lost = true;
                        } else {
                            obey(&mut known, tell);
                        }
                    }
                    if !lost {
                        prop_assert_eq!(&known, port.paused());
                    }
                }
            }
            for (queue, counter) in &counters {
                prop_assert_eq!(port.counter(*queue), *counter);
                prop_assert_eq!(port.paused().contains(*queue), *counter != 0);
            }
            prop_assert_eq!(port.inside(), counters.values().sum::<u32>());
        }
        // Then nothing happens, and nothing is lost.
        let mut frames = 0;
        while let Some(tell) = port.tell(now) {
            obey(&mut known, tell);
        }
        while let Some(due) = port.next_refresh().filter(|_| frames < 10) {
            obey(&mut known, port.tell(due).expect("it is due"));
            frames += 1;
        }
        prop_assert!(known == *port.paused() || frames == 0 && lost && port.paused().is_empty());
    }
}
