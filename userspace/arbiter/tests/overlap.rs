// SPDX-License-Identifier: MIT OR Apache-2.0

//! No two allocations overlap. `cargo run --release -p weft-arbiter --example overlap` makes a
//! thousand times as many trials.

mod fuzz;

#[test]
fn each_timeslot_is_a_maximal_matching_of_the_requests() {
    let tried = fuzz::run(1_000_000, 1);
    assert!(tried.packets > 500_000 && tried.arbiters > 10, "{tried:?}");
}
