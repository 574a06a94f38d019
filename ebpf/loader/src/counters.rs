// SPDX-License-Identifier: MIT OR Apache-2.0

//! Counters of the programs.

use anyhow::{Context as _, Result};
use aya::maps::{Map, MapData, PerCpuArray};
use weft_ebpf_common::counter::Counter;

/// The counters of one attachment, summed over all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters([u64; Counter::COUNT]);

impl Counters {
    pub(crate) fn read(map: MapData) -> Result<Self> {
        let map = Map::from_map_data(map)?;
        let map: PerCpuArray<MapData, u64> = map.try_into()?;
        let mut sums = [0; Counter::COUNT];
        for (index, sum) in (0..).zip(&mut sums) {
            let values = map.get(&index, 0).context("reading the counters")?;
            *sum = values.iter().sum();
        }
        Ok(Self(sums))
    }

    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// The counters of programs, in order. `programs` has the first parts of the counters' names
    /// (`tag`, `untag`, `read`, `flow_size`).
    pub fn of<'a>(&'a self, programs: &'a [&str]) -> impl Iterator<Item = (Counter, u64)> + 'a {
        Counter::ALL.into_iter().filter_map(move |counter| {
            let (program, _) = counter.name().split_once('.')?;
            programs
                .contains(&program)
                .then(|| (counter, self.get(counter)))
        })
    }
}
