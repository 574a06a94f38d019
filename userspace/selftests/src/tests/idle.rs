// SPDX-License-Identifier: MIT OR Apache-2.0

//! One flow at a time: only the wires delay it.

use anyhow::{Result, ensure};
use weft_ktap::{Context, tests};
use weft_load::record::Flow;

use crate::folder::Folder;
use crate::weft;

tests![
    an_idle_fat_tree_reaches_the_best_possible_times,
    an_idle_fat_tree_with_tags_and_spraying_reaches_the_best_possible_times,
    an_idle_fat_tree_over_ipv6_reaches_the_best_possible_times,
    an_idle_leaf_spine_with_a_faster_core_reaches_the_best_possible_times,
    an_idle_slow_rack_reaches_the_best_possible_times,
    an_idle_fat_tree_with_persistent_connections_reaches_the_best_possible_times,
];

/// In bytes: 1 packet, 2, the first window and its next packet, many.
const SIZES: [u64; 7] = [1, 1_448, 1_460, 17_000, 30_000, 100_000, 1_000_000];
/// Maximum deviation from the best possible time. The processor's time for the packets of a
/// handshake and of one byte is a hundredth of their time on a fabric with dilation 1000; so these
/// fabrics have a larger one.
const TOLERANCE: f64 = 0.01;
/// Time per byte of a flow of `SIZES` at 1 Gbit/s in ns, as an upper bound.
const SPACING_PER_BYTE: u64 = 9;
const SPACING: u64 = 100_000;

/// The flows of a trace with every size between each pair, one after the other.
fn idle(cx: &Context, words: &str, pairs: &[(u32, u32)]) -> Result<Vec<Flow>> {
    let (mut trace, mut start) = (String::new(), 0);
    for (from, to) in pairs {
        for size in SIZES {
            trace += &format!("{start} {from} {to} {size}\n");
            start += SPACING + size * SPACING_PER_BYTE;
        }
    }
    let folder = Folder::new()?;
    let trace = folder.write("trace", &trace)?;
    let words = format!(
        "{words} --trace {} --warm-up 0 --sample 0ns",
        trace.display()
    );
    let run = weft::run(&words)?;
    ensure!(
        run.flows.len() == pairs.len() * SIZES.len(),
        "{} flows",
        run.flows.len()
    );
    let mut worst = 0.0_f64;
    for flow in &run.flows {
        let Flow { size, src, dst, .. } = flow;
        let slowdown = flow.slowdown.unwrap_or(f64::NAN);
        let what = format!("{size} bytes from h{src} to h{dst}: {slowdown:.4} times the best");
        if *dst == pairs[0].1 || slowdown > worst {
            cx.note(what.clone());
        }
        worst = worst.max(slowdown);
        ensure!(flow.retransmissions == 0, "{what}, {flow:?}");
        ensure!((slowdown - 1.0).abs() <= TOLERANCE, "{what}");
    }
    Ok(run.flows)
}

/// In one rack, in one pod, and over the core.
const FAT_TREE: [(u32, u32); 3] = [(0, 1), (0, 2), (0, 15)];
const OVER_THE_CORE: [(u32, u32); 1] = [(0, 15)];

fn an_idle_fat_tree_reaches_the_best_possible_times(cx: &Context) -> Result<()> {
    idle(
        cx,
        "fat-tree:k=4 --dilation 2000 --scheme droptail",
        &FAT_TREE,
    )?;
    Ok(())
}

fn an_idle_fat_tree_with_tags_and_spraying_reaches_the_best_possible_times(
    cx: &Context,
) -> Result<()> {
    weft::require_programs()?;
    idle(
        cx,
        "fat-tree:k=4 --dilation 2000 --scheme pfabric",
        &OVER_THE_CORE,
    )?;
    Ok(())
}

fn an_idle_fat_tree_over_ipv6_reaches_the_best_possible_times(cx: &Context) -> Result<()> {
    let words = "fat-tree:k=4 --dilation 2000 --scheme dctcp --ipv6";
    idle(cx, words, &OVER_THE_CORE)?;
    Ok(())
}

fn an_idle_fat_tree_with_persistent_connections_reaches_the_best_possible_times(
    cx: &Context,
) -> Result<()> {
    let words = "fat-tree:k=4 --dilation 2000 --scheme fq_codel --connection pair";
    idle(cx, words, &OVER_THE_CORE)?;
    Ok(())
}

fn an_idle_leaf_spine_with_a_faster_core_reaches_the_best_possible_times(
    cx: &Context,
) -> Result<()> {
    let words = "leaf-spine:leaves=2,spines=2,hosts=2 --dilation 2000 --scheme droptail";
    idle(cx, words, &[(0, 1), (0, 3)])?;
    Ok(())
}

fn an_idle_slow_rack_reaches_the_best_possible_times(cx: &Context) -> Result<()> {
    let words = "rack:hosts=2,rate=1gbit --dilation 2000 --scheme droptail";
    idle(cx, words, &[(1, 0)])?;
    Ok(())
}
