// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The pause of a port: by the standard's sentences, and against a model that goes through time
//! ns by ns.

use proptest::prelude::*;
use weft_mechanisms::port::paused::Paused;

fn paused(watchdog: u64) -> Paused {
    let mut paused = Paused::default();
    paused.set_watchdog(watchdog);
    paused
}

#[test]
fn transmission_is_inhibited_for_the_time_in_the_frame() {
    let mut paused = paused(0);
    assert_eq!(paused.until(0), None);
    assert!(!paused.hear(100, 50));
    assert_eq!(paused.until(50), Some(150));
    assert_eq!(paused.until(149), Some(150));
    assert_eq!(paused.until(150), None);
    assert_eq!((paused.paused_ns(500), paused.lapsed()), (100, 1));
}

#[test]
fn a_later_frame_replaces_the_time() {
    let mut paused = paused(0);
    paused.hear(100, 0);
    paused.hear(200, 50);
    assert_eq!(paused.until(120), Some(250));
    paused.hear(10, 150);
    assert_eq!(paused.until(160), None, "also a shorter one");
    assert_eq!((paused.paused_ns(160), paused.lapsed()), (160, 1));
}

#[test]
fn a_time_of_zero_ends_a_pause() {
    let mut paused = paused(0);
    paused.hear(100, 0);
    assert!(paused.hear(0, 40));
    assert_eq!(paused.until(40), None);
    assert!(!paused.hear(0, 41), "it was not paused");
    assert_eq!((paused.paused_ns(99), paused.lapsed()), (40, 0));
}

#[test]
fn an_endless_pause_is_ignored_until_it_ends() {
    let mut paused = paused(250);
    for time in (0..=1000).step_by(50) {
        paused.hear(100, time);
    }
    assert_eq!(paused.until(1000), None);
    assert_eq!((paused.paused_ns(1000), paused.releases()), (250, 1));
    // Those at 250, 300, … 1000.
    assert_eq!(paused.ignored(), 16);
    // Its last pause ends at 1100.
    paused.hear(100, 1100);
    assert_eq!(paused.until(1100), Some(1200));
    assert_eq!(paused.lapsed(), 0);
}

#[test]
fn after_a_resume_the_watchdog_obeys_pauses_again() {
    let mut paused = paused(50);
    paused.hear(100, 0);
    assert_eq!(paused.until(60), None);
    assert!(!paused.hear(0, 60));
    paused.hear(100, 61);
    assert_eq!(paused.until(61), Some(111));
}

#[test]
fn a_link_that_goes_down_forgets_the_pause() {
    let mut paused = paused(0);
    paused.hear(100, 0);
    assert!(paused.forget(30));
    assert_eq!((paused.until(30), paused.paused_ns(90)), (None, 30));
}

/// A port that is asked each ns.
#[derive(Default)]
struct Naive {
    watchdog: u64,
    /// The pause's remaining ns, and how long it has lasted.
    left: u64,
    lasted: u64,
    released: bool,
    paused_ns: u64,
    releases: u64,
    ignored: u64,
}

impl Naive {
    fn is_paused(&self) -> bool {
        self.left > 0 && !self.released
    }

    /// One ns passes.
    fn pass(&mut self) {
        if self.is_paused() {
            self.paused_ns += 1;
            self.lasted += 1;
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.lasted = 0;
            self.released = false;
        } else if self.watchdog != 0 && !self.released && self.lasted == self.watchdog {
            self.released = true;
            self.releases += 1;
        }
    }

    fn hear(&mut self, time: u64) {
        if time != 0 && self.released {
            self.ignored += 1;
        }
        if time == 0 {
            self.released = false;
        }
        if time == 0 || !self.is_paused() {
            self.lasted = 0;
        }
        self.left = time;
    }
}

proptest! {
    #[test]
    fn it_matches_a_port_that_is_polled_every_ns(
        watchdog in prop::sample::select(vec![0_u64, 1, 7, 30, 1000]),
        events in prop::collection::vec((0..40_u64, prop::option::of(0..25_u64)), 0..200),
    ) {
        let (mut paused, mut naive, mut now) = (paused(watchdog), Naive { watchdog, ..Naive::default() }, 5);
        for (gap, time) in events {
            for _ in 0..gap {
                naive.pass();
            }
            // The law is asked only now, however late that is.
            now += gap;
            if let Some(time) = time {
                let was = naive.is_paused();
                let woken = paused.hear(time, now);
                naive.hear(time);
                prop_assert_eq!(woken, was && time == 0);
            } else {
                prop_assert_eq!(paused.until(now).is_some(), naive.is_paused());
            }
            prop_assert_eq!(paused.paused_ns(now), naive.paused_ns);
            prop_assert_eq!(paused.releases(), naive.releases);
            prop_assert_eq!(paused.ignored(), naive.ignored);
            if let Some(until) = paused.until(now) {
                prop_assert!(until > now, "it waits for a time that has passed");
            }
        }
    }
}
