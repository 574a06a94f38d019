// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests, one file per part.

mod balance;
mod deadlines;
mod doctor;
mod fastpass;
mod foreign;
mod idle;
mod incast;
mod kill;
mod lab;
mod memory;
mod order;
mod pase;
mod rate;
mod refusals;
mod results;
mod rootless;
mod sharing;
mod sizes;
mod surroundings;
mod testbeds;
mod tutorial;
mod window;

/// All parts, in the order in which they run.
pub(crate) const PARTS: &[weft_ktap::Part] = weft_ktap::parts![
    #[exact = "judges what weft measures"]
    idle,
    #[exact = "judges what weft measures"]
    rate,
    #[exact = "judges what weft measures"]
    sharing,
    #[exact = "judges what weft measures"]
    balance,
    #[exact = "judges what weft measures"]
    fastpass,
    #[exact = "judges what weft measures"]
    incast,
    #[exact = "judges what weft measures"]
    window,
    #[exact = "judges what weft measures"]
    order,
    #[exact = "judges what weft measures"]
    results,
    refusals,
    doctor,
    foreign,
    #[exact = "judges what weft measures"]
    pase,
    #[exact = "judges what weft measures"]
    deadlines,
    #[exact = "judges what weft measures"]
    sizes,
    testbeds,
    surroundings,
    lab,
    rootless,
    tutorial,
    kill,
    memory,
];
