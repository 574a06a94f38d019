// SPDX-License-Identifier: MIT OR Apache-2.0

//! Arbiters of all kinds under demands of all kinds, timeslot by timeslot: is each a matching, of pairs that
//! have asked, and a maximal one?

use weft_arbiter::max_min::MaxMin;
use weft_arbiter::min_fct::MinFct;
use weft_arbiter::{Allocator, MAX_BATCH};

/// What was tried.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    pub(crate) timeslots: u64,
    pub(crate) packets: u64,
    pub(crate) arbiters: u64,
}

/// xorshift64* (Marsaglia 2003, Vigna 2016).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * u128::from(end)) >> 64) as u64
    }
}

/// Endpoints are bits of a word.
const MOST: u64 = 64;

/// As many timeslots as that, and a few more.
///
/// # Panics
/// If one is no matching, no maximal one, or given to a pair that has not asked for it.
pub(crate) fn run(timeslots: u64, seed: u64) -> Tried {
    let mut random = Random(seed | 1 << 63);
    let mut tried = Tried::default();
    while tried.timeslots < timeslots {
        session(&mut random, &mut tried);
        tried.arbiters += 1;
    }
    tried
}

/// An arbiter's life.
fn session(random: &mut Random, tried: &mut Tried) {
    // Small ones are quicker, and their ends meet more often.
    let endpoints = match random.below(8) {
        0 => 2 + random.below(MOST - 1),
        _ => 2 + random.below(9),
    };
    let batch = match random.below(3) {
        0 => 1 + random.below(MAX_BATCH as u64) as usize,
        _ => MAX_BATCH,
    };
    let mut arbiter: Box<dyn Allocator> = match random.below(2) {
        0 => Box::new(MaxMin::new(endpoints as usize, batch).expect("valid")),
        _ => Box::new(MinFct::new(endpoints as usize, batch).expect("valid")),
    };
    let mut left = vec![[0_u32; MOST as usize]; endpoints as usize];
    let mut bursts = 0;
    for _ in 0..1000 {
        // Overload, idle gaps and all between.
        if random.below(50) == 0 {
            bursts = random.below(3) * random.below(20 * endpoints);
        }
        for _ in 0..random.below(bursts + 1) {
            let [from, to] = [0; 2].map(|_| random.below(endpoints + 1) as u16);
            let slots = match random.below(60) {
                0 => random.below(1 << 16) as u16,
                _ => random.below(20) as u16,
            };
            if arbiter.request(from, to, slots).is_ok() {
                left[usize::from(from)][usize::from(to)] += u32::from(slots);
            }
        }
        if random.below(100) == 0 {
            let gone = random.below(endpoints) as u16;
            arbiter.forget(gone);
            left[usize::from(gone)].fill(0);
        }
        arbiter.allocate();
        let look = random.below(1000);
        for index in 0..batch {
            let (mut sends, mut receives) = (0_u64, 0_u64);
            let is_asked = |left: &u32, from: usize, to: usize, sends: u64, receives: u64| {
                *left > 0 && sends >> from & 1 == 0 && receives >> to & 1 == 0
            };
            for packet in arbiter.timeslot(index) {
                let [from, to] = [packet.source(), packet.destination()].map(usize::from);
                let left = &mut left[from][to];
                assert!(is_asked(left, from, to, sends, receives), "{from} {to}");
                *left -= 1;
                sends |= 1 << from;
                receives |= 1 << to;
                tried.packets += 1;
            }
            if look == index as u64 {
                for (from, left) in left.iter().enumerate() {
                    for (to, left) in left.iter().enumerate() {
                        let more = is_asked(left, from, to, sends, receives);
                        assert!(!more, "{from} could have sent to {to}");
                    }
                }
            }
        }
        tried.timeslots += batch as u64;
    }
}
