// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Who is the neighbour, what it wants, and for how long.

use super::rig::set;
use weft_core::bfc::ingress::Tell;
use weft_core::bfc::neighbour::{Heard, Neighbour, Verdict, MAX_HOLD};
use weft_core::bfc::queue_set::QueueSet;

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOLD: u64 = 80_000;

const CHANGED: Verdict = Verdict::Taken { changed: true };
const UNCHANGED: Verdict = Verdict::Taken { changed: false };

fn heard(from: [u8; 6], sequence: u64, tell: Tell) -> Heard {
    Heard {
        from,
        sequence,
        hold: HOLD,
        tell,
    }
}

#[test]
fn pause_and_resume_state_is_maintained_idempotently() {
    let mut neighbour = Neighbour::new();
    let mut sequence = 0;
    let mut say = |neighbour: &mut Neighbour, tell| {
        sequence += 1;
        neighbour.hear(&heard(A, sequence, tell), 0)
    };
    assert_eq!(say(&mut neighbour, Tell::Pause(3)), CHANGED);
    assert_eq!(say(&mut neighbour, Tell::Pause(3)), UNCHANGED);
    assert_eq!(neighbour.paused(), &set(&[3]));
    assert_eq!(say(&mut neighbour, Tell::Resume(4)), UNCHANGED);
    assert_eq!(say(&mut neighbour, Tell::Resume(3)), CHANGED);
    assert_eq!(say(&mut neighbour, Tell::Resume(3)), UNCHANGED);
    assert_eq!(say(&mut neighbour, Tell::State(set(&[1, 9]))), CHANGED);
    assert_eq!(say(&mut neighbour, Tell::State(set(&[1, 9]))), UNCHANGED);
    assert_eq!(neighbour.paused(), &set(&[1, 9]));
    assert_eq!(neighbour.version(), 3);
}

#[test]
fn a_frame_that_was_received_before_is_ignored() {
    let mut neighbour = Neighbour::new();
    assert_eq!(neighbour.hear(&heard(A, 10, Tell::Pause(1)), 0), CHANGED);
    assert_eq!(neighbour.hear(&heard(A, 12, Tell::Resume(1)), 0), CHANGED);
    for old in [10, 11, 12, 0] {
        let replay = heard(A, old, Tell::Pause(1));
        assert_eq!(neighbour.hear(&replay, 0), Verdict::Replayed, "{old}");
    }
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    // Silence does not make it any newer.
    let replay = heard(A, 12, Tell::Pause(1));
    assert_eq!(neighbour.hear(&replay, 1 << 60), Verdict::Replayed);
}

#[test]
fn a_frame_of_somebody_else_is_ignored() {
    let mut neighbour = Neighbour::new();
    assert_eq!(neighbour.hear(&heard(A, 10, Tell::Pause(1)), 0), CHANGED);
    let foreign = heard(B, 11, Tell::State(set(&[1, 2, 3])));
    assert_eq!(neighbour.hear(&foreign, 0), Verdict::Foreign);
    assert_eq!(neighbour.hear(&foreign, 1 << 60), Verdict::Foreign);
    assert_eq!(neighbour.paused(), &set(&[1]));
    assert_eq!(neighbour.until(), Some(HOLD), "nor does it refresh a pause");
}

#[test]
fn the_link_goes_down_and_whoever_speaks_first_then_is_the_neighbour() {
    let mut neighbour = Neighbour::new();
    neighbour.hear(&heard(A, 10, Tell::Pause(1)), 0);
    let before = neighbour.version();
    neighbour.forget();
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    assert_ne!(
        neighbour.version(),
        before,
        "the port has to resume its queue"
    );
    assert_eq!(neighbour.hear(&heard(B, 1, Tell::Pause(2)), 0), CHANGED);
    assert_eq!(
        neighbour.hear(&heard(A, 11, Tell::Pause(1)), 0),
        Verdict::Foreign
    );
}

#[test]
fn a_pause_that_is_not_refreshed_lapses() {
    let mut neighbour = Neighbour::new();
    neighbour.hear(&heard(A, 1, Tell::State(set(&[1, 2]))), 100);
    assert_eq!(neighbour.until(), Some(100 + HOLD));
    neighbour.lapse(99 + HOLD);
    assert_eq!(neighbour.paused(), &set(&[1, 2]));
    let before = neighbour.version();
    neighbour.lapse(100 + HOLD);
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    assert_eq!((neighbour.lapsed(), neighbour.until()), (2, None));
    assert_ne!(neighbour.version(), before);
    // It is alive again: what it says holds, and nothing of before.
    neighbour.hear(&heard(A, 2, Tell::Pause(3)), 1_000_000);
    assert_eq!(neighbour.paused(), &set(&[3]));
}

#[test]
fn whatever_the_neighbour_says_shows_that_it_is_alive() {
    let mut neighbour = Neighbour::new();
    neighbour.hear(&heard(A, 1, Tell::Pause(1)), 0);
    for (sequence, tell) in (2..).zip([Tell::Pause(2), Tell::Resume(2), Tell::Resume(9)]) {
        let now = (sequence - 1) * HOLD / 2;
        neighbour.hear(&heard(A, sequence, tell), now);
        assert_eq!(neighbour.until(), Some(now + HOLD));
    }
    assert_eq!((neighbour.paused(), neighbour.lapsed()), (&set(&[1]), 0));
}

#[test]
fn nobody_is_obeyed_for_longer_than_a_minute() {
    let mut neighbour = Neighbour::new();
    let forever = Heard {
        hold: u64::MAX,
        ..heard(A, 1, Tell::Pause(1))
    };
    neighbour.hear(&forever, 5);
    assert_eq!(neighbour.until(), Some(5 + MAX_HOLD));
}

#[test]
fn a_frame_that_comes_after_the_pauses_lapsed_does_not_revive_them() {
    let mut neighbour = Neighbour::new();
    neighbour.hear(&heard(A, 1, Tell::Pause(1)), 0);
    // The port has something to do all the same.
    assert_eq!(neighbour.hear(&heard(A, 2, Tell::Resume(9)), HOLD), CHANGED);
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    assert_eq!(neighbour.lapsed(), 1);
}
