// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who asks for what, as in the authors' stress test: each source begins to ask at exponential
//! intervals, for a destination that is drawn evenly from the others, for a number of timeslots
//! that is exponential, too, with the same mean of 10 at full load.

/// A pair asks for timeslots.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) slots: u16,
}

/// A source's mean number of timeslots for which it asks, and between two times that it asks, at
/// full load.
const MEAN: f64 = 10.0;

/// xorshift64* (Marsaglia 2003, Vigna 2016).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0 to 1, without 0.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

/// The requests of `nodes` at `load` in each of a number of timeslots.
pub(crate) fn draw(nodes: usize, load: f64, timeslots: usize, seed: u64) -> Vec<Vec<Request>> {
    let mut random = Random(seed);
    let mut requests = vec![Vec::new(); timeslots];
    let between = MEAN / load / nodes as f64;
    let (mut time, mut fraction) = (0.0, 0.0);
    loop {
        time += random.exponential(between);
        let Some(timeslot) = requests.get_mut(time as usize) else {
            return requests;
        };
        let source = random.below(nodes);
        let other = random.below(nodes - 1);
        let slots = random.exponential(MEAN) + fraction;
        fraction = slots.fract();
        if slots >= 1.0 {
            timeslot.push(Request {
                source: source as u16,
                destination: (other + usize::from(other >= source)) as u16,
                slots: slots as u16,
            });
        }
    }
}
