// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fat-tree with switches of four ports, and the settings of its arbiter.

use weft_arbiter::fabric::Ways;
use weft_arbiter::service::{Policy, Settings};
use weft_arbiter::{Lags, MAX_AHEAD};
use weft_mechanisms::fastpass::address::Addresses;

pub(crate) const TIMESLOT: u64 = 1000;
pub(crate) const LEAD: u64 = 20_000;
pub(crate) const TRAVEL: u64 = 5_000;
pub(crate) const TIMEOUT: u64 = 100_000;
pub(crate) const FAT_TREE: Addresses = Addresses {
    first: 0x0a00_0002,
    hosts: 2,
    racks: 2,
    pods: 4,
};
pub(crate) const WAYS: Ways = Ways { edge: 2, core: 2 };

pub(crate) const SETTINGS: Settings = Settings {
    addresses: FAT_TREE,
    ways: WAYS,
    policy: Policy::MaxMin,
    classes: 1,
    batch: 8,
    timeslot: TIMESLOT,
    lead: LEAD,
    travel: TRAVEL,
    ahead: MAX_AHEAD,
    timeout: TIMEOUT,
    lags: Lags { near: 0, far: 0 },
    own: None,
    any_port: false,
};
