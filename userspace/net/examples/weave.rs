// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long it takes to build and to remove a fabric with a shaper on every port.
//!
//! ```sh
//! cargo build --release --example weave && sudo target/release/examples/weave 'fat-tree:k=4' 20
//! ```

use std::time::Instant;

use weft_net::{Plan, Settings, qdisc};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let spec = words.next().unwrap_or_else(|| "fat-tree:k=4".to_owned());
    let rounds = words.next().map_or(Ok(10), |word| word.parse())?;
    let shaper = words
        .next()
        .unwrap_or_else(|| "tbf rate 10mbit burst 15k limit 30k".to_owned());
    let topology = spec.parse::<weft_topo::Spec>()?.topology();
    let mut totals = Vec::new();
    println!("{spec}: plan, up, down, all in ms");
    for _ in 0..rounds {
        let begun = Instant::now();
        let mut plan = Plan::new("weave", &topology, Settings::default())?;
        plan.set_qdiscs(|_, port, _| {
            let line = format!("qdisc add dev {} root handle 1: {shaper}", port.name);
            qdisc::parse("shaper", &line)
        })?;
        let planned = begun.elapsed();
        weft_net::up(&plan, None)?;
        let built = begun.elapsed();
        weft_net::down("weave")?;
        let all = begun.elapsed();
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        println!(
            "{:7.1} {:7.1} {:7.1} {:7.1}",
            ms(planned),
            ms(built - planned),
            ms(all - built),
            ms(all)
        );
        totals.push(ms(all));
    }
    totals.sort_by(f64::total_cmp);
    println!(
        "median {:.1} ms, least {:.1} ms",
        totals[totals.len() / 2],
        totals[0]
    );
    Ok(())
}
