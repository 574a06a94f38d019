// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Credit feedback control: Algorithm 1.

use super::config;
use proptest::prelude::*;
use weft_mechanisms::expresspass::options::Options;
use weft_mechanisms::expresspass::rate::{Form, Law, Rate, ONE, W_MAX, W_MIN};

/// A round-trip time in ns.
const RTT: u64 = 20_000;

fn law() -> Law {
    config(Options {
        full: Some(1),
        ..Options::default()
    })
    .law()
}

fn begun(law: &Law) -> Rate {
    let mut rate = Rate::new(law, 100, 0);
    rate.measured(RTT);
    rate
}

fn fraction(share: u64) -> f64 {
    share as f64 / ONE as f64
}

/// Lets a round-trip time pass, in which `lost` of `all` credits were lost.
fn pass(rate: &mut Rate, law: &Law, now: &mut u64, all: u32, lost: u32) {
    for number in 0..all - lost {
        rate.came_back(if number == 0 { lost as u16 } else { 0 });
    }
    *now += RTT;
    rate.update(law, *now);
}

/// The initial rate is `α · max_rate`.
#[test]
fn a_flow_begins_with_alpha_of_the_maximum_rate() {
    let rate = Rate::new(&law(), 1, 0);
    assert_eq!(rate.share(), ONE / 2);
    assert_eq!(rate.w(), W_MAX);
}

/// The authors' simulator: `alpha_ * sendbuffer_ / 40.0`.
#[test]
fn a_flow_with_few_frames_begins_with_a_part_of_alpha() {
    let law = config(Options::default()).law();
    let share = |waiting| Rate::new(&law, waiting, 0).share();
    assert_eq!(share(10), ONE / 8);
    assert_eq!(
        (share(40), share(41), share(u16::MAX)),
        (ONE / 2, ONE / 2, ONE / 2)
    );
    assert!(share(0) == share(1) && share(1) > 0);
}

/// The increasing phase: `cur_rate = (1 − w) · cur_rate + w · max_rate · (1 + target_loss)`.
#[test]
fn without_loss_the_rate_moves_towards_the_maximum() {
    let (law, mut now) = (law(), 0);
    let mut rate = begun(&law);
    pass(&mut rate, &law, &mut now, 10, 0);
    assert!((fraction(rate.share()) - 0.8).abs() < 1e-5);
    for _ in 0..30 {
        pass(&mut rate, &law, &mut now, 10, 1);
    }
    assert!((fraction(rate.share()) - 1.1).abs() < 1e-4);
}

/// The decreasing phase: `cur_rate = cur_rate · (1 − credit_loss) · (1 + target_loss)`,
/// `w = max(w / 2, w_min)`.
#[test]
fn loss_beyond_the_target_lowers_the_rate() {
    let (law, mut now) = (law(), 0);
    let mut rate = begun(&law);
    pass(&mut rate, &law, &mut now, 10, 5);
    assert!((fraction(rate.share()) - 0.5 * 0.5 * 1.1).abs() < 1e-4);
    assert_eq!(rate.w(), W_MAX / 2);
    for _ in 0..20 {
        pass(&mut rate, &law, &mut now, 10, 2);
    }
    assert_eq!(rate.w(), W_MIN);
}

/// If the previous phase was an increasing one, `w = (w + w_max) / 2`.
#[test]
fn the_aggressiveness_grows_from_the_second_increase_on() {
    let (law, mut now) = (law(), 0);
    let mut rate = begun(&law);
    pass(&mut rate, &law, &mut now, 10, 5);
    pass(&mut rate, &law, &mut now, 10, 0);
    assert_eq!(rate.w(), W_MAX / 2);
    pass(&mut rate, &law, &mut now, 10, 0);
    assert_eq!(rate.w(), W_MAX * 3 / 4);
}

#[test]
fn the_target_is_a_loss_of_a_tenth() {
    let (law, mut now) = (law(), 0);
    let mut rate = begun(&law);
    let before = rate.share();
    pass(&mut rate, &law, &mut now, 101, 10);
    assert!(rate.share() > before);
    let before = rate.share();
    pass(&mut rate, &law, &mut now, 100, 11);
    assert!(rate.share() < before);
}

/// The update period is a round-trip time.
#[test]
fn the_rate_changes_once_in_a_round_trip_time() {
    let law = law();
    let mut rate = begun(&law);
    rate.came_back(0);
    rate.update(&law, RTT - 1);
    assert_eq!(rate.share(), ONE / 2);
    rate.update(&law, RTT);
    assert_ne!(rate.share(), ONE / 2);
    // Nothing came back since.
    let before = rate.share();
    rate.update(&law, 10 * RTT);
    assert_eq!(rate.share(), before);
}

#[test]
fn a_flow_keeps_one_credit_for_each_round_trip_time() {
    let (law, mut now) = (law(), 0);
    let mut rate = begun(&law);
    for _ in 0..100 {
        pass(&mut rate, &law, &mut now, 100, 99);
    }
    let gap = rate.gap(&law, u32::MAX / 2);
    assert!(gap.abs_diff(RTT) < RTT / 100, "{gap}");
}

/// Two flows converge to fair shares of a link that drops what exceeds it, of each flow in
/// proportion.
#[test]
fn two_flows_converge_to_fair_shares() {
    let (law, mut now) = (law(), 0);
    let (mut a, mut b) = (begun(&law), begun(&law));
    // The first one has the link for itself.
    for _ in 0..50 {
        pass(&mut a, &law, &mut now, 1000, 90);
    }
    for _ in 0..100 {
        let sum = fraction(a.share()) + fraction(b.share());
        let lost = (1.0 - 1.0 / sum).max(0.0);
        let mut other = now;
        pass(&mut a, &law, &mut other, 1000, (lost * 1000.0) as u32);
        pass(&mut b, &law, &mut now, 1000, (lost * 1000.0) as u32);
    }
    let ratio = fraction(a.share()) / fraction(b.share());
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

/// The authors' simulator: `target_loss = (1.0 - cur_rate / max_rate) * target_loss_scaling`, and
/// the rate falls to that of the credits that came back.
#[test]
fn in_the_simulators_law_a_flow_with_a_high_rate_yields() {
    let law = Law {
        form: Form::Simulator,
        ..law()
    };
    let (mut fast, mut slow) = (begun(&law), begun(&law));
    let mut now = 0;
    for _ in 0..30 {
        pass(&mut fast, &law, &mut now, 10, 0);
    }
    assert!((fraction(fast.share()) - 1.0).abs() < 1e-3);
    let mut other = 0;
    // 4 of 100 are lost: more than 0 %, and less than 5 %.
    let before = slow.share();
    pass(&mut slow, &law, &mut other, 100, 4);
    assert!(slow.share() > before);
    // In 20 µs 12 credits came back, of 15.4 at the maximum rate.
    pass(&mut fast, &law, &mut now, 13, 1);
    assert!((fraction(fast.share()) - 12.0 * 1297.6 / 20_000.0).abs() < 0.01);
}

#[test]
fn in_the_simulators_law_two_flows_converge_to_fair_shares() {
    let law = Law {
        form: Form::Simulator,
        ..law()
    };
    let (mut a, mut b, mut now) = (begun(&law), begun(&law), 0);
    for _ in 0..30 {
        pass(&mut a, &law, &mut now, 100, 0);
    }
    for _ in 0..60 {
        let [x, y] = [&a, &b].map(|rate| fraction(rate.share()));
        let lost = (1.0 - 1.0 / (x + y)).max(0.0);
        // As many as a round-trip time has: 15.4 at the maximum rate; times 100.
        let mut at = now;
        for (rate, share) in [(&mut a, x), (&mut b, y)] {
            at = now;
            let all = (share * 15.4).round().max(1.0) as u32;
            let lost = ((f64::from(all) * lost).round() as u32).min(all - 1);
            pass(rate, &law, &mut at, all, lost);
        }
        now = at;
    }
    let ratio = fraction(a.share()) / fraction(b.share());
    assert!((0.6..1.7).contains(&ratio), "{ratio}");
}

/// The gaps vary by a tenth, and their mean is exact.
#[test]
fn gaps_are_jittered_by_a_tenth_and_exact_in_the_mean() {
    let law = law();
    let mut rate = begun(&law);
    let mut now = 0;
    for _ in 0..60 {
        pass(&mut rate, &law, &mut now, 1000, 90);
    }
    let exact = 1297.6 / fraction(rate.share());
    let (mut sum, mut random) = (0, 1_u32);
    const DRAWS: u32 = 100_000;
    for _ in 0..DRAWS {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The upper bits of this generator are good.
        let gap = rate.gap(&law, random.rotate_left(8));
        assert!(
            (exact * 0.89..exact * 1.11).contains(&(gap as f64)),
            "{gap}"
        );
        sum += gap;
    }
    let mean = sum as f64 / f64::from(DRAWS);
    assert!((mean / exact - 1.0).abs() < 0.002, "{mean} {exact}");
}

proptest! {
    /// Against the same law in floating point.
    #[test]
    fn it_matches_the_algorithm_in_floating_point(
        periods in prop::collection::vec((1..2000_u32, 0..2000_u32, 1..4_u64), 1..60),
        (alpha, winit, loss) in (1..=1000_u32, 1..=500_u32, 0..=50_u32),
    ) {
        let options = Options {
            alpha: Some(alpha),
            winit: Some(winit),
            loss: Some(loss),
            full: Some(1),
            ..Options::default()
        };
        let law = config(options).law();
        let mut rate = begun(&law);
        let (mut share, mut w) = (f64::from(alpha) / 1000.0, f64::from(winit) / 1000.0);
        let (mut was_increasing, mut now) = (false, 0);
        let target = f64::from(loss) / 100.0;
        for (all, lost, pause) in periods {
            let lost = lost.min(all - 1);
            for number in 0..all - lost {
                rate.came_back(if number == 0 { lost as u16 } else { 0 });
            }
            now += pause * RTT;
            rate.update(&law, now);
            let observed = f64::from(lost) / f64::from(all);
            // Where both differ by their rounding, the model follows.
            let increases = match (observed - target).abs() < 1e-5 {
                true => rate.w() as f64 / ONE as f64 >= w - 1e-4,
                false => observed < target,
            };
            if increases {
                if was_increasing {
                    w = (w + 0.5) / 2.0;
                }
                share = (1.0 - w) * share + w * (1.0 + target);
            } else {
                share *= (1.0 - observed) * (1.0 + target);
                w = (w / 2.0).max(0.01);
            }
            was_increasing = increases;
            share = share.clamp(1297.0 / RTT as f64, 1.0 + target);
            prop_assert!((fraction(rate.share()) - share).abs() < 1e-3);
            prop_assert!((fraction(rate.w()) - w).abs() < 1e-3);
            share = fraction(rate.share());
            w = fraction(rate.w());
        }
    }

    #[test]
    fn extremes_neither_panic_nor_leave_the_range(
        operations in prop::collection::vec((any::<u64>(), any::<u16>(), any::<u32>(), 0..4_u8), 0..80),
        (bytes, frame, full) in (125..50_000_000_000_u64, 84..=10_000_u32, 1..=65_535_u32),
    ) {
        let law = config(Options {
            frame: Some(frame),
            full: Some(full),
            ..Options::default()
        });
        let law = weft_mechanisms::expresspass::options::Config { rate: bytes, ..law }.law();
        let mut rate = Rate::new(&law, full as u16, u64::MAX / 3);
        for (time, lost, random, kind) in operations {
            match kind {
                0 => rate.came_back(lost),
                1 => rate.measured(time),
                2 => rate.update(&law, time),
                _ => rate.was_not_lost(),
            }
            prop_assert!((1..=ONE * 3 / 2).contains(&rate.share()));
            prop_assert!((1..=W_MAX).contains(&rate.w()));
            let gap = rate.gap(&law, random);
            prop_assert!(gap < 1 << 43, "{}", gap);
        }
    }
}
