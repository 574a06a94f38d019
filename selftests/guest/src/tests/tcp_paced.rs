// SPDX-License-Identifier: MIT OR Apache-2.0

//! Swift, DCQCN, Prague, TIMELY, PowerTCP and HPCC on real sockets: what the kernel makes of
//! their windows, rates and marks. The laws themselves are tested on the host (`cargo test -p
//! weft-mechanisms`).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::flow::{
    Flow, blacked_out, settings_have_ranges, stays_while_sockets_use_it,
    without_ecn_nothing_can_be_marked,
};
use crate::modules;
use crate::port::{LINK, Port};
use weft_ktap::{Context, tests};

tests![
    settings_out_of_range_are_refused,
    #[exact = "judges when segments are sent"]
    dcqcn_sends_at_its_rate,
    dcqcn_restarts_at_the_line_rate_after_an_idle_time,
    #[exact = "judges when segments are sent"]
    timely_sends_at_its_rate,
    #[exact = "judges when segments are sent"]
    powertcp_sends_at_its_rate,
    #[exact = "judges when segments are sent"]
    hpcc_sends_at_its_rate,
    #[exact = "judges round-trip times"]
    powertcp_keeps_the_delay_near_the_base_round_trip_time,
    #[exact = "judges round-trip times"]
    swift_keeps_the_delay_at_its_target,
    #[exact = "judges when segments are sent"]
    prague_counts_marks_by_accurate_ecn,
    without_accurate_ecn_no_packet_of_prague_can_be_marked,
    the_modules_stay_while_sockets_use_them,
];

/// A link on which the far end acknowledges each packet by way of netem (its words).
fn port(name: &str, netem: &str) -> Result<Port> {
    modules::load(&format!("tcp_{name}"))?;
    Port::acknowledging(netem)
}

/// Sets a near setting.
fn set(port: &Port, name: &str, setting: &str, value: u32) -> Result<()> {
    let path = format!("net/ipv4/tcp_{name}/{setting}");
    port.near.write_sysctl(&path, &value.to_string())
}

const MAX: &str = "4294967295";
const LONGEST: &str = "120000000";

fn settings_out_of_range_are_refused(_: &Context) -> Result<()> {
    settings_have_ranges(
        "tcp_swift",
        &[
            ("base_target_us", "25", ["1", LONGEST], ["0", "120000001"]),
            ("hop_us", "2", ["0", LONGEST], ["120000001", "-1"]),
            ("hops", "5", ["0", "255"], ["256", "-1"]),
            ("fs_range_us", "100", ["0", LONGEST], ["120000001", "-1"]),
            ("fs_min_milli", "100", ["1", "1000000"], ["0", "1000001"]),
            ("fs_max", "100", ["1", "65535"], ["0", "65536"]),
            ("ai_milli", "1000", ["1", "16000"], ["0", "16001"]),
            ("beta_milli", "800", ["1", "1000"], ["0", "1001"]),
            ("max_mdf_milli", "500", ["1", "1000"], ["0", "1001"]),
            ("init_cwnd", "16", ["1", "65535"], ["0", "65536"]),
            ("min_cwnd_milli", "1", ["1", "1000"], ["0", "1001"]),
            ("max_cwnd", "1024", ["1", "65535"], ["0", "65536"]),
        ],
    )?;
    settings_have_ranges(
        "tcp_dcqcn",
        &[
            ("rate_kbit", "40000000", ["1", MAX], ["0", "-1"]),
            ("packet_bytes", "1538", ["64", "65535"], ["63", "65536"]),
            ("cwnd", "65535", ["1", "65535"], ["0", "65536"]),
            ("cnp_us", "50", ["0", LONGEST], ["120000001", "-1"]),
            ("alpha_us", "55", ["1", LONGEST], ["0", "120000001"]),
            ("timer_us", "55", ["1", LONGEST], ["0", "120000001"]),
            ("byte_counter", "10000000", ["1000", MAX], ["999", "-1"]),
            ("ai_kbit", "40000", ["1", MAX], ["0", "-1"]),
            ("hai_kbit", "400000", ["1", MAX], ["0", "-1"]),
            ("min_kbit", "10000", ["1", MAX], ["0", "-1"]),
        ],
    )?;
    settings_have_ranges(
        "tcp_prague",
        &[("rtt_virt_us", "0", ["0", "1000000"], ["1000001", "-1"])],
    )?;
    settings_have_ranges(
        "tcp_timely",
        &[
            ("rate_kbit", "10000000", ["1", MAX], ["0", "-1"]),
            ("packet_bytes", "1538", ["64", "65535"], ["63", "65536"]),
            ("cwnd", "65535", ["1", "65535"], ["0", "65536"]),
            ("t_low_us", "50", ["0", LONGEST], ["120000001", "-1"]),
            ("t_high_us", "500", ["1", LONGEST], ["0", "120000001"]),
            ("min_rtt_us", "20", ["1", LONGEST], ["0", "120000001"]),
            ("delta_kbit", "10000", ["1", MAX], ["0", "-1"]),
            ("alpha_milli", "875", ["1", "1000"], ["0", "1001"]),
            ("beta_milli", "800", ["1", "1000"], ["0", "1001"]),
            (
                "segment_bytes",
                "16384",
                ["1", "16777216"],
                ["0", "16777217"],
            ),
            ("min_kbit", "10000", ["1", MAX], ["0", "-1"]),
        ],
    )?;
    settings_have_ranges(
        "tcp_powertcp",
        &[
            ("rate_kbit", "25000000", ["1", MAX], ["0", "-1"]),
            ("packet_bytes", "1538", ["64", "65535"], ["63", "65536"]),
            ("base_rtt_us", "25", ["1", LONGEST], ["0", "120000001"]),
            ("flows", "10", ["1", MAX], ["0", "-1"]),
            ("gamma_milli", "900", ["1", "1000"], ["0", "1001"]),
            ("records", "0", ["0", "1"], ["2", "-1"]),
        ],
    )?;
    settings_have_ranges(
        "tcp_hpcc",
        &[
            ("rate_kbit", "100000000", ["1", MAX], ["0", "-1"]),
            ("packet_bytes", "1538", ["64", "65535"], ["63", "65536"]),
            ("base_rtt_us", "13", ["1", LONGEST], ["0", "120000001"]),
            ("flows", "100", ["1", MAX], ["0", "-1"]),
            ("eta_milli", "950", ["1", "1000"], ["0", "1001"]),
            ("max_stage", "5", ["0", "255"], ["256", "-1"]),
        ],
    )
}

/// At 1 Mbit/s a full packet occupies its wire for 12.3 ms, and so far apart packets leave, except
/// for the first ones, which the kernel does not pace.
fn sends_at_its_rate(cx: &Context, name: &'static str, settings: &[(&str, u32)]) -> Result<()> {
    const UNPACED: usize = 12;
    const GAP: Duration = Duration::from_nanos(1538 * 8 * 1000);
    let port = port(name, "delay 20ms")?;
    set(&port, name, "rate_kbit", 1_000)?;
    for (setting, value) in settings {
        set(&port, name, setting, *value)?;
    }
    let mut flow = Flow::open(&port, name)?;
    flow.write(60_000)?;
    flow.read(60_000)?;
    let data = flow.data()?;
    // The last packet is a short one.
    let full: Vec<u64> = data
        .iter()
        .filter(|it| it.len == 1448)
        .map(|it| it.time)
        .collect();
    let (first, last) = full
        .get(UNPACED)
        .zip(full.last())
        .context("too few packets")?;
    let gaps = (full.len() - UNPACED - 1) as u64;
    ensure!(gaps >= 20, "only {} packets", full.len());
    let gap = Duration::from_nanos((last - first) / gaps);
    cx.note(format!("{} packets, {gap:?} apart", full.len()));
    ensure!(gap.abs_diff(GAP) <= GAP / 50, "{gap:?} apart, not {GAP:?}");
    let (_, [_, kbit, _]) = flow.info()?;
    ensure!(kbit == 1_000, "a rate of {kbit} kbit/s");
    Ok(())
}

fn dcqcn_sends_at_its_rate(cx: &Context) -> Result<()> {
    sends_at_its_rate(cx, "dcqcn", &[])
}

/// All packets of the first data are marked, and no timer raises the rate again. What follows is a
/// new flow.
fn dcqcn_restarts_at_the_line_rate_after_an_idle_time(cx: &Context) -> Result<()> {
    modules::load("tcp_dcqcn")?;
    let port = Port::reporting_marks("dcqcn", "delay 20ms")?;
    for (setting, value) in [
        ("rate_kbit", 1_000),
        ("min_kbit", 100),
        ("timer_us", 120_000_000),
    ] {
        set(&port, "dcqcn", setting, value)?;
    }
    let flow = Flow::open(&port, "dcqcn")?;
    port.tc(&format!(
        "qdisc add dev {LINK} root netem limit 10000 loss 100% ecn"
    ))?;
    flow.write(30_000)?;
    flow.read(30_000)?;
    port.tc(&format!("qdisc del dev {LINK} root"))?;
    std::thread::sleep(Duration::from_millis(500));
    let (_, [_, cut, notifications]) = flow.info()?;
    flow.write(30_000)?;
    flow.read(30_000)?;
    let (_, [_, kbit, total]) = flow.info()?;
    cx.note(format!("{cut} kbit/s, then {kbit} kbit/s"));
    ensure!(cut <= 900, "marks left a rate of {cut} kbit/s");
    ensure!(kbit == 1_000, "a new flow has {kbit} kbit/s");
    ensure!(
        notifications > 0 && total == notifications,
        "{notifications} notifications, then {total}"
    );
    Ok(())
}

fn timely_sends_at_its_rate(cx: &Context) -> Result<()> {
    // Each round-trip time is below T_low, so the flow stays at the link's rate.
    sends_at_its_rate(cx, "timely", &[("t_low_us", 1_000_000)])
}

fn powertcp_sends_at_its_rate(cx: &Context) -> Result<()> {
    // Each round-trip time is below the base, so the window stays at its largest.
    sends_at_its_rate(cx, "powertcp", &[("base_rtt_us", 200_000), ("flows", 1)])
}

fn hpcc_sends_at_its_rate(cx: &Context) -> Result<()> {
    // No utilisation arrives, so the window stays at its largest.
    sends_at_its_rate(cx, "hpcc", &[("base_rtt_us", 200_000)])
}

/// A link of 40 ms on which an acknowledgement takes 4 ms: 11 packets are its BDP. The host's link
/// is four times as fast. With an increase β of 4 packets, the power P at the equilibrium is
/// W / (W - β) for a window W, and the delay is P base RTTs: W is 11 P packets and P is 1.36.
fn powertcp_keeps_the_delay_near_the_base_round_trip_time(cx: &Context) -> Result<()> {
    const BASE_US: u32 = 44_000;
    // 66 bytes are an ACK on Ethernet.
    let port = port("powertcp", "delay 40ms rate 132kbit")?;
    for (setting, value) in [
        ("rate_kbit", 12_304),
        ("base_rtt_us", BASE_US),
        ("flows", 11),
    ] {
        set(&port, "powertcp", setting, value)?;
    }
    let flow = Flow::open(&port, "powertcp")?;
    flow.transfer(600_000)?;
    let (_, [rtt_us, kbit, power_milli]) = flow.info()?;
    cx.note(format!("{rtt_us} µs, {kbit} kbit/s, power {power_milli}"));
    ensure!(
        (BASE_US..=BASE_US * 2).contains(&rtt_us),
        "a round-trip time of {rtt_us} µs"
    );
    ensure!(
        (1_000..=1_900).contains(&power_milli),
        "power {power_milli}"
    );
    Ok(())
}

/// A link of 40 ms on which an acknowledgement takes 4 ms: 11 packets are its BDP, and 27 have the
/// target.
fn swift_keeps_the_delay_at_its_target(cx: &Context) -> Result<()> {
    const TARGET_US: u32 = 110_000;
    for first in [5, 60] {
        // 66 bytes are an ACK on Ethernet.
        let port = port("swift", "delay 40ms rate 132kbit")?;
        for (setting, value) in [
            ("base_target_us", TARGET_US),
            ("hop_us", 0),
            ("fs_range_us", 0),
            ("init_cwnd", first),
        ] {
            set(&port, "swift", setting, value)?;
        }
        let flow = Flow::open(&port, "swift")?;
        flow.transfer(600_000)?;
        let (_, [delay_us, target_us, window_milli]) = flow.info()?;
        cx.note(format!(
            "first window {first}: {delay_us} µs, {window_milli} thousandths of a packet"
        ));
        ensure!(target_us == TARGET_US, "a target of {target_us} µs");
        ensure!(
            (20_000..=35_000).contains(&window_milli),
            "a window of {window_milli} thousandths of a packet"
        );
    }
    Ok(())
}

/// All packets of data are marked, so α stays 1: the first acknowledgement halves the window of 10.
/// The handshake's are not: a SYN's mark would count, too.
fn prague_counts_marks_by_accurate_ecn(cx: &Context) -> Result<()> {
    const RTT: Duration = Duration::from_millis(40);
    let port = port("prague", "delay 40ms")?;
    for end in [&port.near, &port.far] {
        end.write_sysctl("net/ipv4/tcp_ecn", "3")?;
    }
    let mut flow = Flow::open(&port, "prague")?;
    port.tc(&format!(
        "qdisc add dev {LINK} root netem limit 10000 loss 100% ecn"
    ))?;
    flow.write(60_000)?;
    std::thread::sleep(RTT + RTT / 2);
    let (state, [alpha, window, threshold]) = flow.info()?;
    cx.note(format!("α {alpha}, window {window}, threshold {threshold}"));
    ensure!(
        (state, alpha, window, threshold) == (0, 1 << 20, 5, 5),
        "state {state}, α {alpha}, window {window}, threshold {threshold}"
    );
    flow.read(60_000)?;
    let data = flow.data()?;
    ensure!(
        data.iter().all(|it| it.tos & 3 != 0),
        "a packet could not be marked"
    );
    Ok(())
}

fn without_accurate_ecn_no_packet_of_prague_can_be_marked(cx: &Context) -> Result<()> {
    without_ecn_nothing_can_be_marked(cx, &port("prague", "delay 20ms")?, "prague")
}

fn the_modules_stay_while_sockets_use_them(_: &Context) -> Result<()> {
    for name in ["dcqcn", "prague", "timely", "powertcp", "hpcc", "swift"] {
        stays_while_sockets_use_it(&format!("tcp_{name}"), || {
            let port = port(name, "delay 15ms")?;
            if name == "swift" {
                // Otherwise the delay is above the target, and each packet waits 15 s after
                // this number of timeouts, the FIN too.
                set(&port, name, "base_target_us", 100_000)?;
                set(&port, name, "min_cwnd_milli", 100)?;
            }
            let flow = blacked_out(&port, name, Duration::from_millis(500))?;
            Ok((flow, port))
        })?;
    }
    Ok(())
}
