// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two arbiters that watch each other, over a network that loses and delays packets, while either
//! is killed, restarted, or stopped. One takes over from the other within slightly more than a
//! window, and no timeslot is allocated twice.

mod random;

use std::collections::HashMap;

use weft_arbiter::watch::{BEAT, Change, Watch};

use random::Random;

const WINDOW: u64 = 1_000_000;
/// How far ahead the start of an allocation is, at most.
const AHEAD: u64 = 60_000;
const STEP: u64 = 5_000;

/// Two arbiters.
struct World {
    random: Random,
    now: u64,
    loss: u64,
    /// Neither can receive from the other.
    is_cut: bool,
    arbiters: [Option<Watch>; 2],
    /// When each one's stop ends.
    stopped: [u64; 2],
    /// Time of arrival, receiver, content.
    network: Vec<(u64, usize, [u8; BEAT])>,
    /// The arbiter that allocated a time.
    given: HashMap<u64, usize>,
    twice: u64,
    active: [u64; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            now: 50_000_000,
            loss: 0,
            is_cut: false,
            arbiters: [None, None],
            stopped: [0; 2],
            network: Vec::new(),
            given: HashMap::new(),
            twice: 0,
            active: [0; 2],
        }
    }

    fn start(&mut self, which: usize) {
        let cookie = self.random.draw();
        self.arbiters[which] = Some(Watch::new(self.now, which == 1, WINDOW, cookie));
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        for which in 0..2 {
            if self.stopped[which] > now {
                continue;
            }
            let Some(arbiter) = &mut self.arbiters[which] else {
                self.network.retain(|(at, to, _)| *to != which || *at > now);
                continue;
            };
            self.network.retain(|(at, to, beat)| {
                let is_here = *to == which && *at <= now;
                if is_here {
                    arbiter.receive(now, beat);
                }
                !is_here
            });
            arbiter.tick(now);
            if arbiter.is_active() {
                self.active[which] += 1;
                let time = (now + AHEAD) / STEP;
                let other = self.given.insert(time, which);
                self.twice += u64::from(other.is_some_and(|other| other != which));
            }
            while let Some(beat) = arbiter.poll(now) {
                let delay = self.random.below(WINDOW / 20);
                if self.random.below(100) >= self.loss && !self.is_cut {
                    self.network.push((now + delay, 1 - which, beat));
                }
            }
        }
    }

    fn run(&mut self, ns: u64) {
        for _ in 0..ns / STEP {
            self.step();
        }
    }

    fn states(&self) -> [bool; 2] {
        [0, 1].map(|which| self.arbiters[which].as_ref().is_some_and(Watch::is_active))
    }
}

#[test]
fn the_first_arbiter_begins_and_the_second_takes_over_within_a_window() {
    let mut world = World::new(5);
    world.start(0);
    world.start(1);
    world.run(2 * WINDOW + 2 * STEP);
    assert_eq!(world.states(), [true, false]);
    world.run(20 * WINDOW);
    assert_eq!(world.states(), [true, false]);
    world.arbiters[0] = None;
    world.run(WINDOW * 3 / 4);
    assert_eq!(world.states(), [false, false]);
    // Its last beat was in transit for at most a twentieth.
    world.run(WINDOW * 3 / 10 + 2 * STEP);
    assert_eq!(world.states(), [false, true]);
    // It comes back, and changes nothing.
    world.start(0);
    world.run(20 * WINDOW);
    assert_eq!((world.states(), world.twice), ([false, true], 0));
}

#[test]
fn the_second_arbiter_alone_begins_later() {
    let mut world = World::new(6);
    world.start(1);
    world.run(3 * WINDOW - STEP);
    assert_eq!(world.states(), [false, false]);
    world.run(2 * STEP);
    assert_eq!(world.states(), [false, true]);
}

#[test]
fn an_arbiter_that_stalled_is_no_longer_active() {
    for which in 0..2 {
        let mut world = World::new(7);
        world.start(which);
        world.run(5 * WINDOW);
        world.start(1 - which);
        world.run(5 * WINDOW);
        assert!(world.states()[which]);
        world.stopped[which] = world.now + 3 * WINDOW;
        world.run(6 * WINDOW);
        assert!(!world.states()[which] && world.states()[1 - which]);
        assert_eq!(world.twice, 0);
    }
}

#[test]
fn nothing_is_allocated_twice_whatever_happens_to_the_arbiters() {
    let (mut takeovers, mut last) = (0, None);
    for seed in 1..40 {
        let mut world = World::new(seed);
        world.loss = world.random.below(3) * 10;
        world.start(0);
        world.start(1);
        world.run(4 * WINDOW);
        for _ in 0..100 {
            let which = world.random.below(2) as usize;
            match world.random.below(4) {
                0 => world.arbiters[which] = None,
                1 => world.stopped[which] = world.now + world.random.below(4 * WINDOW),
                _ => {}
            }
            let wait = world.random.below(4 * WINDOW);
            world.run(wait);
            for which in 0..2 {
                if world.arbiters[which].is_none() && world.random.below(2) == 0 {
                    world.start(which);
                }
            }
            let active = world.states().iter().position(|active| *active);
            takeovers += u32::from(active.is_some() && active != last);
            last = active.or(last);
        }
        assert_eq!(world.twice, 0, "seed {seed}");
        // Without disturbance, one arbiter is active.
        world.stopped = [0; 2];
        for which in 0..2 {
            if world.arbiters[which].is_none() {
                world.start(which);
            }
        }
        world.run(5 * WINDOW);
        let [a, b] = world.states();
        assert!(a != b, "seed {seed}: {a} {b}");
    }
    assert!(takeovers > 300, "{takeovers}");
}

/// It never runs for a whole window, but sends a beat whenever it runs.
#[test]
fn the_second_arbiter_does_not_wait_for_a_first_one_that_stalls_repeatedly() {
    for (seed, loss) in [(11, 0), (12, 20)] {
        for [runs, stands] in [[600_000, 300_000], [900_000, 255_000], [5_000, 900_000]] {
            let mut world = World::new(seed);
            world.loss = loss;
            world.start(0);
            world.start(1);
            let mut until_active = None;
            for round in 0..500 {
                world.run(runs);
                world.stopped[0] = world.now + stands;
                world.run(stands);
                if world.states()[1] {
                    until_active.get_or_insert(round * (runs + stands));
                }
            }
            let which = format!("{runs} {stands}, loss {loss}");
            assert!(
                until_active.is_some_and(|ns| ns <= 8 * WINDOW),
                "{which}: {until_active:?}"
            );
            assert!(world.active[0] == 0 && world.twice == 0, "{which}");
            // It continues when the first one is stopped again.
            world.run(5 * WINDOW);
            assert_eq!((world.states(), world.twice), ([false, true], 0), "{which}");
        }
    }
}

/// Also if one stops just before it would become active, or not quite long enough to notice.
#[test]
fn two_arbiters_that_often_stall_allocate_nothing_twice() {
    let (mut seconds, mut steps) = (0, 0);
    for seed in 1..60 {
        let mut world = World::new(seed);
        world.loss = world.random.below(3) * 10;
        world.start(0);
        world.start(1);
        for _ in 0..200 {
            // The second one stops rarely.
            let which = usize::from(world.random.below(20) == 0);
            world.stopped[which] = world.now + world.random.below(WINDOW / 2);
            let wait = world.random.below(WINDOW * 5 / 4);
            world.run(wait);
            steps += wait / STEP;
        }
        assert_eq!(world.twice, 0, "seed {seed}");
        seconds += world.active[1];
    }
    assert!(seconds > steps / 10, "{seconds} of {steps}");
}

#[test]
fn after_a_partition_heals_one_arbiter_is_active() {
    let mut world = World::new(8);
    world.start(0);
    world.start(1);
    world.is_cut = true;
    world.run(5 * WINDOW);
    assert_eq!(world.states(), [true, true]);
    world.is_cut = false;
    world.run(WINDOW);
    assert_eq!(world.states(), [true, false]);
}

#[test]
fn blind_forgeries_change_nothing() {
    let mut world = World::new(9);
    world.start(0);
    world.start(1);
    world.run(5 * WINDOW);
    let mut answers = 0;
    for round in 0..2000_u64 {
        for which in 0..2 {
            let now = world.now;
            let arbiter = world.arbiters[which].as_mut().unwrap();
            // In the other's name: active, with a number of its own, and a guessed value.
            let mut beat = [0; BEAT];
            beat[..4].copy_from_slice(b"FCB\x01");
            beat[4] = 1 - which as u8;
            beat[5] = (round % 2) as u8;
            beat[8..16].copy_from_slice(&(round + 1).to_be_bytes());
            beat[16..].copy_from_slice(&(round % 7).to_be_bytes());
            assert!(!arbiter.receive(now, &beat));
            for length in 0..BEAT {
                assert!(!arbiter.receive(now, &beat[..length]));
            }
            for (at, value) in [(0, 0), (3, 2), (4, which as u8), (4, 2), (5, 3), (6, 1)] {
                let mut wrong = beat;
                wrong[at] = value;
                assert!(!arbiter.receive(now, &wrong), "{at}");
            }
            let before = world.network.len();
            world.step();
            answers += world.network.len().saturating_sub(before);
        }
        assert_eq!(world.states(), [true, false]);
    }
    // At most ten beats and forty answers of each per window.
    let windows = 4000 * STEP / WINDOW;
    assert!(answers as u64 <= 2 * 50 * windows + 10, "{answers}");
    // Once the first one is gone, it must not seem alive.
    world.arbiters[0] = None;
    for _ in 0..2 * WINDOW / STEP {
        let now = world.now;
        let mut beat = [0; BEAT];
        beat[..6].copy_from_slice(b"FCB\x01\x00\x01");
        beat[8] = 1;
        world.arbiters[1].as_mut().unwrap().receive(now, &beat);
        world.step();
    }
    assert_eq!(world.states(), [false, true]);
}

#[test]
fn a_change_is_reported_once() {
    let mut watch = Watch::new(0, false, WINDOW, 5);
    let mut changes = Vec::new();
    for now in (0..10 * WINDOW).step_by(1000) {
        // It is stopped for a while.
        if (5 * WINDOW..6 * WINDOW).contains(&now) {
            continue;
        }
        changes.extend(watch.tick(now).map(|change| (now / WINDOW, change)));
        while watch.poll(now).is_some() {}
        assert!(watch.next_event() > now);
    }
    let expected = [
        (2, Change::Active),
        (6, Change::Standby),
        (7, Change::Active),
    ];
    assert_eq!(changes, expected);
}
