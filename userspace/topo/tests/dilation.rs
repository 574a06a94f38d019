// SPDX-License-Identifier: MIT OR Apache-2.0

//! A dilated fabric is the same fabric in another unit of time.

use std::num::NonZeroU32;

use weft_topo::{Spec, Topology};

fn fabric(text: &str) -> Topology {
    text.parse::<Spec>().unwrap().topology()
}

fn factor(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

#[test]
fn every_time_is_multiplied_and_nothing_else_changes() {
    let fast = fabric("leaf-spine");
    let slow = fast.clone().dilated(factor(1000)).unwrap();
    let (h0, h143) = (fast.find("h0").unwrap(), fast.find("h143").unwrap());
    let round_trip = |fabric: &Topology| fabric.base_rtt_ns(h0, h143, 1500, 40).unwrap();
    assert_eq!(round_trip(&slow), 1000 * round_trip(&fast));
    let bdp = |fabric: &Topology| fabric.bdp_bytes(h0, h143, 1500, 40);
    assert_eq!(bdp(&slow), bdp(&fast));
    assert_eq!(slow.nodes(), fast.nodes());
    assert_eq!(slow.routes(), fast.routes());
    assert_eq!(slow.title(), fast.title());
    let ratio = |fabric: &Topology| fabric.bisection().unwrap().oversubscription();
    assert_eq!(ratio(&slow), ratio(&fast));
    assert_eq!(slow.bisection().unwrap().carried, 720_000_000);
}

#[test]
fn a_factor_of_1_changes_nothing() {
    assert_eq!(
        fabric("fat-tree:k=4").dilated(factor(1)),
        Ok(fabric("fat-tree:k=4"))
    );
}

#[test]
fn a_factor_that_needs_rounding_is_refused() {
    for (spec, n, rate) in [
        ("rack", 3, "1gbit"),
        ("rack", 2_000_000, "1gbit"),
        ("rack:rate=1008bit", 2, "1008bit"),
    ] {
        assert_eq!(
            fabric(spec).dilated(factor(n)).unwrap_err().to_string(),
            format!(
                "A rate of {rate} slowed {n} times is below 1kbit, or no whole number of bytes \
                 per second; choose another factor or rate"
            )
        );
    }
    assert_eq!(
        fabric("rack:delay=11ms")
            .dilated(factor(1000))
            .unwrap_err()
            .to_string(),
        "A delay of 11ms slowed 1000 times is above 10s; choose a smaller factor or delay"
    );
}
