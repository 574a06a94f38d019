// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The identity of the neighbour, its pauses, and how long they last.

use super::rig::set;
use weft_mechanisms::bfc::ingress::Tell;
use weft_mechanisms::bfc::neighbour::{Heard, Rules, Treatment};
use weft_mechanisms::bfc::queue_set::QueueSet;
use weft_mechanisms::bfc::times::Times;
use weft_mechanisms::heap::Heap;

type Neighbour = weft_mechanisms::bfc::neighbour::Neighbour<Heap>;

fn nobody() -> Neighbour {
    let Ok(times) = Times::new(100);
    Neighbour::new(times)
}

fn nobody_with(hold: u64, watchdog: u64) -> Neighbour {
    let mut neighbour = nobody();
    neighbour.set_rules(Rules { hold, watchdog });
    neighbour
}

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOLD: u64 = 80_000;

const CHANGED: Treatment = Treatment::Taken { changed: true };
const UNCHANGED: Treatment = Treatment::Taken { changed: false };

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
    let mut neighbour = nobody();
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
    let mut neighbour = nobody();
    assert_eq!(neighbour.hear(&heard(A, 10, Tell::Pause(1)), 0), CHANGED);
    assert_eq!(neighbour.hear(&heard(A, 12, Tell::Resume(1)), 0), CHANGED);
    for old in [10, 11, 12, 0] {
        let replay = heard(A, old, Tell::Pause(1));
        assert_eq!(neighbour.hear(&replay, 0), Treatment::Replayed, "{old}");
    }
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    let last = HOLD - 1;
    let replay = heard(A, 12, Tell::Pause(1));
    assert_eq!(neighbour.hear(&replay, last), Treatment::Replayed);
}

#[test]
fn the_highest_sequence_number_is_forgotten_after_the_hold_time() {
    let mut neighbour = nobody();
    neighbour.hear(&heard(A, u64::MAX, Tell::Pause(1)), 0);
    let honest = heard(A, 12, Tell::State(set(&[7])));
    assert_eq!(neighbour.hear(&honest, HOLD - 1), Treatment::Replayed);
    assert_eq!(neighbour.until(), Some(HOLD), "nor does it refresh a pause");
    assert_eq!(neighbour.hear(&honest, HOLD), CHANGED);
    assert_eq!((neighbour.paused(), neighbour.lapsed()), (&set(&[7]), 1));
    assert_eq!(neighbour.hear(&honest, HOLD), Treatment::Replayed);
}

#[test]
fn the_first_speaker_is_forgotten_when_its_hold_time_has_passed() {
    for tell in [Tell::Pause(1), Tell::Resume(1)] {
        let mut neighbour = nobody();
        neighbour.hear(&heard(A, 1000, tell), 0);
        let other = heard(B, 1, Tell::State(set(&[2])));
        assert_eq!(neighbour.hear(&other, HOLD - 1), Treatment::Foreign);
        assert_eq!(neighbour.hear(&other, HOLD), CHANGED);
        assert_eq!(neighbour.paused(), &set(&[2]));
        let back = heard(A, 1001, Tell::Pause(1));
        assert_eq!(neighbour.hear(&back, HOLD), Treatment::Foreign);
    }
}

#[test]
fn a_frame_from_another_sender_is_ignored() {
    let mut neighbour = nobody();
    assert_eq!(neighbour.hear(&heard(A, 10, Tell::Pause(1)), 0), CHANGED);
    let foreign = heard(B, 11, Tell::State(set(&[1, 2, 3])));
    assert_eq!(neighbour.hear(&foreign, 0), Treatment::Foreign);
    assert_eq!(neighbour.hear(&foreign, HOLD - 1), Treatment::Foreign);
    assert_eq!(neighbour.paused(), &set(&[1]));
    assert_eq!(neighbour.until(), Some(HOLD), "nor does it refresh a pause");
}

#[test]
fn after_the_link_goes_down_the_next_speaker_becomes_the_neighbour() {
    let mut neighbour = nobody();
    neighbour.hear(&heard(A, 10, Tell::Pause(1)), 0);
    let before = neighbour.version();
    neighbour.forget(10);
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    assert_ne!(
        neighbour.version(),
        before,
        "the port has to resume its queue"
    );
    assert_eq!(neighbour.hear(&heard(B, 1, Tell::Pause(2)), 0), CHANGED);
    assert_eq!(
        neighbour.hear(&heard(A, 11, Tell::Pause(1)), 0),
        Treatment::Foreign
    );
}

#[test]
fn a_pause_that_is_not_refreshed_lapses() {
    let mut neighbour = nobody();
    neighbour.hear(&heard(A, 1, Tell::State(set(&[1, 2]))), 100);
    assert_eq!(neighbour.until(), Some(100 + HOLD));
    neighbour.lapse(99 + HOLD);
    assert_eq!(neighbour.paused(), &set(&[1, 2]));
    let before = neighbour.version();
    neighbour.lapse(100 + HOLD);
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    assert_eq!((neighbour.lapsed(), neighbour.until()), (2, None));
    assert_ne!(neighbour.version(), before);
    // It is alive again: its new messages count, and no earlier ones.
    neighbour.hear(&heard(A, 2, Tell::Pause(3)), 1_000_000);
    assert_eq!(neighbour.paused(), &set(&[3]));
}

#[test]
fn any_frame_shows_that_the_neighbour_is_alive() {
    let mut neighbour = nobody();
    neighbour.hear(&heard(A, 1, Tell::Pause(1)), 0);
    for (sequence, tell) in (2..).zip([Tell::Pause(2), Tell::Resume(2), Tell::Resume(9)]) {
        let now = (sequence - 1) * HOLD / 2;
        neighbour.hear(&heard(A, sequence, tell), now);
        assert_eq!(neighbour.until(), Some(now + HOLD));
    }
    assert_eq!((neighbour.paused(), neighbour.lapsed()), (&set(&[1]), 0));
}

#[test]
fn no_frame_is_obeyed_for_longer_than_the_limit() {
    const LONGEST: u64 = 1_000_000;
    let mut neighbour = nobody_with(LONGEST, 0);
    let forever = Heard {
        hold: u64::MAX,
        ..heard(A, u64::MAX, Tell::Pause(1))
    };
    neighbour.hear(&forever, 5);
    assert_eq!(neighbour.until(), Some(5 + LONGEST));
    // And then there is no neighbour.
    let other = heard(B, 1, Tell::Resume(1));
    assert_eq!(neighbour.hear(&other, 5 + LONGEST), CHANGED);
    assert_eq!(neighbour.lapsed(), 1);
    // The frame's own hold time, if that is shorter.
    neighbour.hear(&heard(B, 2, Tell::Pause(1)), 2 * LONGEST);
    assert_eq!(neighbour.until(), Some(2 * LONGEST + HOLD));
}

#[test]
fn a_late_frame_does_not_revive_lapsed_pauses() {
    let mut neighbour = nobody();
    neighbour.hear(&heard(A, 1, Tell::Pause(1)), 0);
    // The port has something to do nevertheless.
    assert_eq!(neighbour.hear(&heard(A, 2, Tell::Resume(9)), HOLD), CHANGED);
    assert_eq!(neighbour.paused(), &QueueSet::EMPTY);
    assert_eq!(neighbour.lapsed(), 1);
}

#[test]
fn the_time_of_a_pause_does_not_depend_on_when_it_is_read() {
    let mut neighbour = nobody();
    let times = |neighbour: &Neighbour, now| {
        let time = |queue| neighbour.times().so_far(queue, now);
        (time(1), time(2))
    };
    neighbour.hear(&heard(A, 1, Tell::State(set(&[1, 2]))), 100);
    assert_eq!(times(&neighbour, 100), (0, 0));
    assert_eq!(times(&neighbour, 150), (50, 50), "so far");
    neighbour.hear(&heard(A, 2, Tell::Resume(1)), 300);
    assert_eq!(times(&neighbour, 1_000), (200, 900));
    // It lapses, which is noticed late.
    let lapses = 300 + HOLD;
    neighbour.lapse(lapses + 3_000_000);
    assert_eq!(times(&neighbour, u64::MAX), (200, lapses - 100));
    // Another pause, in addition.
    neighbour.hear(&heard(A, 3, Tell::Pause(2)), lapses + 10);
    neighbour.forget(lapses + 15);
    assert_eq!(times(&neighbour, u64::MAX), (200, lapses - 100 + 5));
    // The times of other queues are not recorded, but they are paused nevertheless.
    neighbour.hear(&heard(B, 1, Tell::State(set(&[99, 100, 1023]))), 0);
    assert_eq!(neighbour.paused(), &set(&[99, 100, 1023]));
    assert_eq!(neighbour.times().so_far(99, 7), 7);
    assert_eq!(neighbour.times().so_far(100, 7), 0);
}

const WATCHDOG: u64 = 1_000_000;

/// Sends a message every half of the hold time.
struct Alive {
    neighbour: Neighbour,
    sequence: u64,
    now: u64,
}

impl Alive {
    fn new() -> Self {
        Self {
            neighbour: nobody_with(u64::MAX, WATCHDOG),
            sequence: 0,
            now: 0,
        }
    }

    fn say(&mut self, tell: Tell) -> Treatment {
        self.sequence += 1;
        self.neighbour
            .hear(&heard(A, self.sequence, tell), self.now)
    }

    fn repeat(&mut self, tell: Tell, until: u64) {
        while self.now < until {
            self.say(tell);
            self.now += HOLD / 2;
        }
        self.now = until;
    }
}

#[test]
fn the_watchdog_releases_an_endlessly_paused_queue_and_no_other() {
    let mut alive = Alive::new();
    alive.say(Tell::Pause(1));
    alive.repeat(Tell::State(set(&[1])), 300_000);
    alive.repeat(Tell::State(set(&[1, 2])), WATCHDOG);
    let neighbour = &mut alive.neighbour;
    assert_eq!(neighbour.until(), Some(WATCHDOG));
    neighbour.lapse(WATCHDOG - 1);
    assert_eq!(neighbour.paused(), &set(&[1, 2]));
    let before = neighbour.version();
    neighbour.lapse(WATCHDOG);
    assert_eq!((neighbour.paused(), neighbour.releases()), (&set(&[2]), 1));
    assert_ne!(neighbour.version(), before);
    assert_eq!(neighbour.lapsed(), 0);
    assert_eq!(neighbour.times().so_far(1, u64::MAX), WATCHDOG);
    // Any message is ignored, until it resumes the queue.
    for tell in [Tell::Pause(1), Tell::State(set(&[1, 2])), Tell::Pause(1)] {
        assert_eq!(alive.say(tell), UNCHANGED);
    }
    alive.repeat(Tell::State(set(&[1, 2])), WATCHDOG + 300_000);
    alive.neighbour.lapse(alive.now);
    assert_eq!(alive.neighbour.paused(), &QueueSet::EMPTY);
    assert_eq!(alive.neighbour.releases(), 2);
    assert_eq!(alive.say(Tell::State(set(&[2]))), UNCHANGED);
    assert_eq!(alive.say(Tell::Pause(1)), CHANGED);
    assert_eq!(alive.say(Tell::Resume(2)), UNCHANGED);
    assert_eq!(alive.say(Tell::Pause(2)), CHANGED);
    assert_eq!(alive.neighbour.paused(), &set(&[1, 2]));
}

#[test]
fn the_watchdog_spares_a_queue_that_is_resumed_in_time_however_often_it_is_paused() {
    let mut alive = Alive::new();
    for round in 1..=20 {
        alive.repeat(Tell::Pause(1), round * (WATCHDOG - 1));
        alive.say(Tell::Resume(1));
    }
    assert_eq!(alive.neighbour.releases(), 0);
    assert_eq!(alive.neighbour.until(), None);
}

#[test]
fn released_queues_are_forgotten_with_their_neighbour() {
    let mut alive = Alive::new();
    alive.repeat(Tell::Pause(1), WATCHDOG);
    alive.neighbour.lapse(WATCHDOG);
    assert_eq!(alive.neighbour.paused(), &QueueSet::EMPTY);
    // Silent for its hold time.
    let now = WATCHDOG + 2 * HOLD;
    let pause = heard(A, 1, Tell::Pause(1));
    assert_eq!(alive.neighbour.hear(&pause, now), CHANGED);
    assert_eq!(alive.neighbour.paused(), &set(&[1]));
    assert_eq!(
        (alive.neighbour.lapsed(), alive.neighbour.releases()),
        (0, 1)
    );
    // The link goes down.
    alive.neighbour.forget(now);
    assert_eq!(alive.neighbour.hear(&pause, now), CHANGED);
}

#[test]
fn a_late_watchdog_ends_the_pause_at_the_time_when_it_was_due() {
    for late in [0, 1, HOLD] {
        let mut neighbour = nobody_with(u64::MAX, HOLD / 2);
        neighbour.hear(&heard(A, 1, Tell::State(set(&[1, 2]))), 0);
        neighbour.lapse(HOLD / 2 + late);
        assert_eq!(neighbour.times().so_far(1, u64::MAX), HOLD / 2);
        assert_eq!((neighbour.releases(), neighbour.lapsed()), (2, 0));
        assert_eq!(neighbour.until(), Some(HOLD).filter(|_| late < HOLD / 2));
    }
}

#[test]
fn the_watchdog_can_be_changed_while_queues_are_paused() {
    let mut neighbour = nobody();
    neighbour.hear(&heard(A, 1, Tell::Pause(1)), 0);
    assert_eq!(neighbour.until(), Some(HOLD));
    let rules = |watchdog| Rules {
        hold: u64::MAX,
        watchdog,
    };
    neighbour.set_rules(rules(10));
    assert_eq!(neighbour.until(), Some(10));
    neighbour.set_rules(rules(0));
    neighbour.lapse(HOLD - 1);
    assert_eq!(neighbour.paused(), &set(&[1]));
    neighbour.set_rules(rules(10));
    neighbour.lapse(HOLD - 1);
    assert_eq!(
        (neighbour.paused(), neighbour.releases()),
        (&QueueSet::EMPTY, 1)
    );
}
