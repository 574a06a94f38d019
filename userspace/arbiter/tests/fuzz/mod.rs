// SPDX-License-Identifier: MIT OR Apache-2.0

//! Arbiters of all kinds with random demands, timeslot by timeslot. Checks that no endpoint sends
//! twice, that no receiver's link carries two packets, that every pair has requested its timeslots,
//! and that no further packet could be added.

use weft_arbiter::max_min::MaxMin;
use weft_arbiter::min_fct::MinFct;
use weft_arbiter::{Allocator, Free, Lags, MAX_BATCH};
use weft_mechanisms::fastpass::address::Addresses;

/// Statistics of the trials.
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

/// Tries at least this many timeslots, and a few more.
///
/// # Panics
/// If an allocation is not a matching, is not maximal, or has a pair that has not requested it.
pub(crate) fn run(timeslots: u64, seed: u64) -> Tried {
    let mut random = Random(seed | 1 << 63);
    let mut tried = Tried::default();
    while tried.timeslots < timeslots {
        session(&mut random, &mut tried);
        tried.arbiters += 1;
    }
    tried
}

/// A fabric of endpoints, and the lag between sending and arrival of its packets.
struct LaggedFabric {
    addresses: Addresses,
    lags: Lags,
}

impl LaggedFabric {
    /// With at least a few endpoints, or with none: then no packet has a lag.
    fn new(random: &mut Random) -> Self {
        let [hosts, racks, pods] = [4, 4, 4].map(|most| 1 + random.below(most) as u32);
        let near = random.below(6) as u32;
        let lags = Lags {
            near,
            far: near + random.below(6) as u32,
        };
        let addresses = Addresses {
            first: 1,
            hosts: hosts.max(2),
            racks,
            pods,
        };
        Self { addresses, lags }
    }

    fn lag(&self, from: usize, to: usize) -> usize {
        let rack = |it: usize| it / self.addresses.hosts as usize;
        let pod = |it: usize| rack(it) / self.addresses.racks as usize;
        let lag = match (rack(from) == rack(to), pod(from) == pod(to)) {
            (true, _) => 0,
            (_, true) => self.lags.near,
            _ => self.lags.far,
        };
        lag as usize
    }
}

/// The lifetime of an arbiter.
fn session(random: &mut Random, tried: &mut Tried) {
    let fabric = (random.below(3) == 0).then(|| LaggedFabric::new(random));
    // Small ones are faster, and their endpoints collide more often.
    let endpoints = match (&fabric, random.below(8)) {
        (Some(fabric), _) => fabric.addresses.count().into(),
        (_, 0) => 2 + random.below(MOST - 1),
        _ => 2 + random.below(9),
    };
    let longest = fabric.as_ref().map_or(0, |fabric| fabric.lags.far as usize);
    let batch = match random.below(3) {
        0 => 1 + random.below((MAX_BATCH - longest) as u64) as usize,
        _ => MAX_BATCH - longest,
    };
    let mut arbiter: Box<dyn Allocator> = match random.below(2) {
        0 => Box::new(MaxMin::new(endpoints as usize, batch).expect("valid")),
        _ => Box::new(MinFct::new(endpoints as usize, batch).expect("valid")),
    };
    let mut free = Free::new(endpoints as usize, batch).expect("valid");
    if let Some(fabric) = &fabric {
        let set = free.set_lags(&fabric.addresses, fabric.lags);
        set.expect("they fit a batch");
    }
    let lag = |from, to| fabric.as_ref().map_or(0, |fabric| fabric.lag(from, to));
    // The senders in the timeslots of a batch; the receivers' busy links in these, and in later
    // ones.
    let mut sends = vec![0_u64; batch];
    let mut receives = vec![0_u64; batch + longest];
    // Timeslots reserved at an endpoint, for sending and for receiving.
    let mut reserved = None;
    // Reserved timeslots for receiving that found no room.
    let mut owed = 0;
    let mut left = vec![[0_u32; MOST as usize]; endpoints as usize];
    let mut bursts = 0;
    for _ in 0..1000 {
        // Overload, idle gaps and everything between.
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
        if random.below(50) == 0 {
            let bits =
                [0; 2].map(|_| random.0 >> random.below(64) & u64::MAX >> (MAX_BATCH - batch));
            let endpoint = random.below(endpoints) as u16;
            free.reserve(endpoint, bits[0], bits[1]);
            if reserved.is_some_and(|(before, _)| before != endpoint) {
                owed = 0;
            }
            reserved = Some((endpoint, bits));
        }
        if random.below(20) == 0 {
            let gap = random.below(2 * longest as u64 + 70);
            free.skip(gap);
            for _ in 0..gap.min(receives.len() as u64) {
                receives.remove(0);
                receives.push(0);
            }
        }
        sends.fill(0);
        if let Some((endpoint, bits)) = reserved {
            let taken: Vec<bool> = receives[..batch]
                .iter()
                .map(|it| it >> endpoint & 1 != 0)
                .collect();
            let wanted = |slot: usize| bits[1] >> slot & 1 != 0;
            for slot in 0..batch {
                sends[slot] |= (bits[0] >> slot & 1) << endpoint;
                receives[slot] |= u64::from(wanted(slot)) << endpoint;
            }
            let moved = (0..batch).filter(|slot| wanted(*slot) && taken[*slot]);
            let mut homeless = Vec::new();
            for slot in moved {
                let mut others = (slot..batch).chain(0..slot);
                match others.find(|it| receives[*it] >> endpoint & 1 == 0) {
                    Some(other) => receives[other] |= 1 << endpoint,
                    None => homeless.push(slot),
                }
            }
            owed += homeless.len();
            for receives in &mut receives[..batch] {
                if owed > 0 && *receives >> endpoint & 1 == 0 {
                    *receives |= 1 << endpoint;
                    owed -= 1;
                }
            }
            owed = owed.min(batch);
        }
        free.allocate(&mut *arbiter);
        let is_free = |sends: &[u64], receives: &[u64], slot: usize, from: usize, to: usize| {
            sends[slot] >> from & 1 == 0 && receives[slot + lag(from, to)] >> to & 1 == 0
        };
        for index in 0..batch {
            for packet in arbiter.timeslot(index) {
                let [from, to] = [packet.source(), packet.destination()].map(usize::from);
                let left = &mut left[from][to];
                let is_asked = *left > 0 && is_free(&sends, &receives, index, from, to);
                assert!(is_asked, "{from} {to}");
                *left -= 1;
                sends[index] |= 1 << from;
                receives[index + lag(from, to)] |= 1 << to;
                tried.packets += 1;
            }
        }
        let look = random.below(1000) as usize;
        if look < batch {
            for (from, left) in left.iter().enumerate() {
                for (to, _) in left.iter().enumerate().filter(|(_, left)| **left > 0) {
                    let more = is_free(&sends, &receives, look, from, to);
                    assert!(!more, "{from} could have sent to {to}");
                }
            }
        }
        receives.drain(..batch);
        receives.resize(batch + longest, 0);
        tried.timeslots += batch as u64;
    }
}
