// SPDX-License-Identifier: MIT OR Apache-2.0

//! Machines that are not freshly installed: modules are loaded, variables tuned, limits low. A
//! fabric behaves the same on them, or weft reports the difference.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use weft_ktap::{Context, Skip, tests};
use weft_load::record::Recorded;

use crate::folder::Folder;
use crate::machine::{Machine, shell};
use crate::weft::{Up, checks, command, refusal, refused_by, succeed, weft};

tests![
    a_fabric_is_made_beside_the_devices_of_tunnel_modules,
    #[exact = "a run must be valid, which late timers prevent"]
    nodes_do_not_inherit_the_machines_tuning,
    tuning_that_cannot_be_undone_makes_a_run_invalid,
    a_limit_of_namespaces_is_not_reported_as_a_full_disk,
    a_fabric_that_would_vanish_is_not_made,
    errors_name_their_reason_once,
];

/// Modules that create devices in each namespace; dependent modules come last.
const MODULES: [&str; 7] = [
    "sit",
    "ipip",
    "ip_gre",
    "ip_vti",
    "ip6_tunnel",
    "ip6_gre",
    "ip6_vti",
];

/// Loaded modules, which are removed on drop.
struct Loaded(Vec<&'static str>);

impl Loaded {
    /// Loads a module and returns whether this kernel has it: that of the model clock has none.
    fn load(&mut self, module: &'static str) -> bool {
        let loaded = shell(&format!("modprobe {module}")).is_ok();
        if loaded {
            self.0.push(module);
        }
        loaded
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        for module in self.0.iter().rev() {
            // If a module cannot be removed, it stays, which does not affect other tests.
            let _ = shell(&format!("modprobe -r {module}"));
        }
    }
}

fn a_fabric_is_made_beside_the_devices_of_tunnel_modules(cx: &Context) -> Result<()> {
    // Each module alone, then all together.
    for module in MODULES {
        let mut alone = Loaded(Vec::new());
        match alone.load(module) {
            true => is_woven(cx, module)?,
            false => cx.note(format!("this kernel has no module {module}")),
        }
    }
    let mut loaded = Loaded(Vec::new());
    for module in MODULES {
        loaded.load(module);
    }
    if loaded.0.is_empty() {
        return Err(Skip(format!("this kernel has none of {}", MODULES.join(", "))).into());
    }
    is_woven(cx, "all")
}

fn is_woven(cx: &Context, module: &str) -> Result<()> {
    let devices = shell("ip netns add bare && ip -n bare -br link show; ip netns delete bare")?;
    cx.note(format!("{module}: {}", devices.lines().count()));
    ensure!(devices.lines().count() > 1, "{module} makes no device");
    let before = Machine::now()?;
    let up = Up::new("beside", "rack:hosts=2")?;
    weft("exec h0 ping -c 1 h1").with_context(|| module.to_owned())?;
    let ports = weft("top --once --json").unwrap_or_default();
    ensure!(
        !ports.contains("sit0") && !ports.contains("tunl0"),
        "{ports}"
    );
    drop(up);
    let folder = Folder::new()?;
    let results = folder.path().join("results");
    // The run's validity depends on the clock, so it is not checked.
    let words = format!(
        "run rack:hosts=2 --workload fixed:20kB --load 0.1 --flows 5 --quiet --out {}",
        results.display()
    );
    let output = command(&words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(results.exists(), "{module}: weft {words}: {said}");
    weft("lab rack:hosts=2 --quiet --from h0 ping -c 1 h1").with_context(|| module.to_owned())?;
    let script = folder.write(
        "script",
        &weft("up rack:hosts=2 --testbed script --dry-run")?,
    )?;
    shell(&format!("sh {}", script.display())).with_context(|| module.to_owned())?;
    shell("ip netns exec weft-script-h0 ping -c 1 -W 3 10.0.0.3")?;
    weft("down script")?;
    for check in checks()? {
        let ok = check["ok"] == true;
        ensure!(
            ok || check["what"] != "virtual Ethernet",
            "{module}: {check}"
        );
    }
    before.ensure_unchanged()
}

/// Tuned variables of this machine's first namespace, and parameters of its congestion controls,
/// which are restored on drop.
struct Tuned(Vec<(&'static str, String)>);

impl Tuned {
    fn to(variables: &[(&'static str, &str)]) -> Result<Self> {
        let mut tuned = Self(Vec::new());
        for (key, value) in variables {
            let file = Self::file(key);
            tuned.0.push((key, shell(&format!("cat {file}"))?));
            shell(&format!("echo '{value}' > {file}"))?;
        }
        Ok(tuned)
    }

    fn file(key: &str) -> String {
        match key.split_once('.') {
            Some((module, name)) if module.starts_with("tcp_") => {
                format!("/sys/module/{module}/parameters/{name}")
            }
            _ => format!("/proc/sys/{}", key.replace('.', "/")),
        }
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        for (key, value) in self.0.iter().rev() {
            let _ = shell(&format!("echo '{}' > {}", value.trim(), Self::file(key)));
        }
    }
}

const RUN: &str = "run rack:hosts=3,rate=1gbit --dilation 100 --workload uniform:1kB-60kB --load 0.4 --flows 30 \
                   --scheme droptail --quiet";

fn run() -> Result<Recorded> {
    let folder = Folder::new()?;
    let results = folder.path().join("results");
    let output = command(&format!("{RUN} --out {}", results.display())).output()?;
    let path = results.join("droptail-seed1.jsonl");
    let file = std::fs::File::open(&path).with_context(|| {
        format!(
            "{}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    Ok(Recorded::read("results", std::io::BufReader::new(file))?)
}

/// Variables of a host, each with its value, in a fabric that is created for this purpose.
fn variables(testbed: &str) -> Result<Vec<String>> {
    let _up = Up::new(testbed, "rack:hosts=2")?;
    let keys = [
        "net.ipv4.ip_forward",
        "net.ipv4.conf.all.arp_ignore",
        "net.ipv4.conf.tor0.arp_ignore",
        "net.ipv4.conf.tor0.route_localnet",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
        "net.ipv4.tcp_congestion_control",
        "net.ipv6.conf.all.disable_ipv6",
        "net.ipv6.conf.all.forwarding",
        "net.ipv6.conf.tor0.disable_ipv6",
        "net.ipv6.conf.tor0.hop_limit",
    ];
    let value = |key: &str| {
        let path = key.replace('.', "/");
        let found = shell(&format!(
            "ip netns exec weft-{testbed}-h0 cat /proc/sys/{path}"
        ))?;
        let words: Vec<&str> = found.split_whitespace().collect();
        Ok(format!("{key} {}", words.join(" ")))
    };
    keys.into_iter().map(value).collect()
}

fn nodes_do_not_inherit_the_machines_tuning(cx: &Context) -> Result<()> {
    let plain = run()?;
    let as_new = variables("plain")?;
    let tuned = Tuned::to(&[
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv4.conf.all.arp_ignore", "8"),
        ("net.ipv4.conf.default.arp_ignore", "8"),
        ("net.ipv4.conf.default.rp_filter", "1"),
        ("net.ipv4.conf.all.log_martians", "1"),
        ("net.ipv4.conf.default.route_localnet", "1"),
        ("net.ipv4.tcp_rmem", "4096 4096 8192"),
        ("net.ipv4.tcp_wmem", "4096 4096 8192"),
        ("net.ipv4.tcp_congestion_control", "reno"),
        ("net.core.devconf_inherit_init_net", "1"),
        ("net.core.default_qdisc", "fq"),
        ("net.ipv6.conf.all.disable_ipv6", "1"),
        ("net.ipv6.conf.default.disable_ipv6", "1"),
        ("net.ipv6.conf.all.forwarding", "1"),
        ("net.ipv6.conf.default.hop_limit", "3"),
    ])?;
    let other = run()?;
    let as_tuned = variables("tuned")?;
    ensure!(as_new == as_tuned, "{as_new:?} and tuned {as_tuned:?}");
    // The values of a fresh machine, where the scheme sets nothing.
    for value in ["net.ipv4.ip_forward 0", "net.ipv6.conf.tor0.hop_limit 64"] {
        ensure!(as_new.iter().any(|it| it == value), "{as_new:?}");
    }
    drop(tuned);
    let summary = other.summary.as_ref().context("no end")?;
    let inherited = &other.header.inherited;
    ensure!(inherited.is_empty(), "{inherited:?}");
    let reasons: Vec<_> = summary.reasons().collect();
    ensure!(summary.valid, "{reasons:?}");
    let mean = |run: &Recorded| {
        let slowdowns = run.flows.iter().filter_map(|flow| flow.slowdown);
        slowdowns.sum::<f64>() / run.flows.len() as f64
    };
    let (before, after) = (mean(&plain), mean(&other));
    cx.note(format!("mean slowdown {before} as new, {after} tuned"));
    // The number of instructions before differs. When the variables were inherited, the slowdown
    // was several times larger.
    ensure!((before / after - 1.0).abs() < 0.02, "{before} and {after}");
    Ok(())
}

fn tuning_that_cannot_be_undone_makes_a_run_invalid(cx: &Context) -> Result<()> {
    for (key, value, cure) in [
        (
            "net.core.netdev_max_backlog",
            "1234",
            "sysctl -w net.core.netdev_max_backlog=1000",
        ),
        (
            "net.core.max_skb_frags",
            "9",
            "sysctl -w net.core.max_skb_frags=17",
        ),
        (
            "tcp_cubic.hystart",
            "0",
            "echo 1 > /sys/module/tcp_cubic/parameters/hystart",
        ),
    ] {
        makes_a_run_invalid(cx, key, value, cure).with_context(|| key.to_owned())?;
    }
    Ok(())
}

fn makes_a_run_invalid(cx: &Context, key: &'static str, tuned_to: &str, cure: &str) -> Result<()> {
    let tuned = Tuned::to(&[(key, tuned_to)])?;
    let run = run()?;
    let lacking: Vec<Value> = checks()?
        .into_iter()
        .filter(|it| it["ok"] == false)
        .collect();
    let named = lacking.iter().any(|it| it["cure"] == cure);
    let told = succeed(&mut command("up rack:hosts=2 --testbed tuned --json"));
    weft("down tuned")?;
    drop(tuned);
    let value = run.header.inherited.get(key);
    ensure!(
        value.is_some_and(|value| value == tuned_to),
        "{:?}",
        run.header
    );
    let summary = run.summary.context("no end")?;
    let reasons: Vec<String> = summary.reasons().collect();
    cx.note(reasons.join("; "));
    let named_in = format!("{key}={tuned_to}");
    let reason = reasons.iter().any(|it| it.contains(&named_in));
    ensure!(reason && !summary.valid, "{reasons:?}");
    ensure!(named, "weft doctor names no cure: {lacking:?}");
    ensure!(told?.contains(key));
    Ok(())
}

fn a_limit_of_namespaces_is_not_reported_as_a_full_disk(cx: &Context) -> Result<()> {
    let before = Machine::now()?;
    const KEY: &str = "user.max_net_namespaces";
    for (limit, words) in [
        ("0", "up rack:hosts=9"),
        ("5", "up rack:hosts=9"),
        ("0", "run rack:hosts=9 --flows 5 --quiet"),
    ] {
        let tuned = Tuned::to(&[(KEY, limit)])?;
        let sentence = refusal(words);
        drop(tuned);
        let sentence = sentence?;
        cx.note(sentence.clone());
        let cure = format!("{KEY} is {limit}; raise the limit with `sysctl -w {KEY}=100000`");
        ensure!(sentence.ends_with(&cure), "{sentence}");
        before.ensure_unchanged()?;
    }
    let _up = Up::new("full", "rack:hosts=2")?;
    let tuned = Tuned::to(&[("user.max_mnt_namespaces", "0")])?;
    let sentence = refusal("exec h0 true");
    drop(tuned);
    let sentence = sentence?;
    cx.note(sentence.clone());
    ensure!(
        sentence.contains("user.max_mnt_namespaces is 0"),
        "{sentence}"
    );
    Ok(())
}

fn a_fabric_that_would_vanish_is_not_made(cx: &Context) -> Result<()> {
    let before = Machine::now()?;
    shell("ip netns add away")?;
    let refused = refused_by("ip netns exec away weft up rack:hosts=2");
    let alone = refused_by("unshare -m weft up rack:hosts=2");
    // A shell keeps the namespace until its last line.
    let stays = shell(
        "ip netns exec away sh -c 'weft up rack:hosts=2 && weft exec h0 true && weft down; :'",
    );
    // The command that the error message names.
    let outside = shell("ip netns exec away nsenter --mount=/proc/1/ns/mnt weft up rack:hosts=2");
    let there = weft("exec h0 ping -c 1 h1");
    let down = weft("down");
    shell("ip netns delete away")?;
    let (refused, alone) = (refused?, alone?);
    cx.note(refused.clone());
    for sentence in [refused, alone] {
        ensure!(
            sentence.contains("nsenter --mount=/proc/1/ns/mnt"),
            "{sentence}"
        );
    }
    stays?;
    outside?;
    there?;
    down?;
    before.ensure_unchanged()
}

fn errors_name_their_reason_once(cx: &Context) -> Result<()> {
    // A folder cannot be created where a file exists.
    shell("mkdir -p /run && touch /run/weft")?;
    let output = command("up rack:hosts=2").output();
    shell("rm /run/weft")?;
    let output = output?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    cx.note(said.clone());
    ensure!(said.matches("(os error ").count() == 1, "{said}");
    Ok(())
}
