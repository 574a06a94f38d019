// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft doctor`: what this machine has and lacks, and the cure for each.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use nix::unistd::Uid;
use serde::Serialize;
use weft_net::probe::{self, Part};

use crate::output;

/// What this machine has and lacks, with the cure for each
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 if stock schemes can run (droptail, dctcp, fq_codel), 1 if not.

Example:
  weft doctor --json")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Need {
    /// Nothing works without it.
    All,
    /// What makes results believable.
    Results,
    /// What the schemes of a qdisc need.
    #[serde(untagged)]
    Schemes(&'static str),
}

/// The schemes of pFabric, and all that tag packets.
const PFABRIC: Need = Need::Schemes(weft_core::pfabric::QDISC.kind);
/// The schemes of BFC, besides.
const BFC: Need = Need::Schemes(weft_core::bfc::QDISC.kind);

#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    ok: bool,
    found: String,
    needed_for: Need,
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<Cow<'static, str>>,
}

fn check(
    what: &'static str,
    needed_for: Need,
    found: Result<String, String>,
    cure: impl Into<Cow<'static, str>>,
) -> Check {
    let ok = found.is_ok();
    Check {
        what,
        ok,
        found: found.unwrap_or_else(|found| found),
        needed_for,
        cure: (!ok).then(|| cure.into()),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let checks = checks();
    let able = checks.iter().all(|it| it.ok || it.needed_for != Need::All);
    if args.json {
        output::json(&checks)?;
    } else {
        for it in &checks {
            let mark = if it.ok { "ok  " } else { "LACKS" };
            output::print(format!("{mark:5} {}: {}", it.what, it.found))?;
            if let Some(cure) = &it.cure {
                output::print(format!("      {cure}"))?;
            }
        }
    }
    Ok(if able {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn checks() -> Vec<Check> {
    let mut checks = vec![
        check(
            "privileges",
            Need::All,
            root(),
            "Run it as root, or in the virtual machine: cargo xtask vm",
        ),
        check(
            "network namespaces",
            Need::All,
            exists("/proc/self/ns/net"),
            "The kernel needs CONFIG_NET_NS",
        ),
        check(
            "virtual Ethernet",
            Need::All,
            kernel(Part::Veth),
            "modprobe veth (CONFIG_VETH)",
        ),
    ];
    let ours = weft_core::QDISCS.iter().filter(|it| !it.for_tests);
    checks.extend(ours.map(|it| qdisc(it.kind)));
    checks.extend([
        check(
            "red, for dctcp",
            Need::Results,
            kernel(Part::Qdisc("red")),
            "modprobe sch_red (CONFIG_NET_SCH_RED)",
        ),
        check(
            "fq_codel",
            Need::Results,
            kernel(Part::Qdisc("fq_codel")),
            "modprobe sch_fq_codel (CONFIG_NET_SCH_FQ_CODEL)",
        ),
        check(
            "dctcp",
            Need::Results,
            kernel(Part::CongestionControl("dctcp")),
            "modprobe tcp_dctcp (CONFIG_TCP_CONG_DCTCP)",
        ),
        check(
            "pfabric's rate control",
            PFABRIC,
            kernel(Part::CongestionControl("pfabric")),
            "cargo xtask build, then load tcp_pfabric; or cargo xtask vm, which has it; without it there is pfabric-tcp",
        ),
        check(
            "bfc's window",
            BFC,
            kernel(Part::CongestionControl("bfc")),
            "cargo xtask build, then load tcp_bfc; or cargo xtask vm, which has it; schemes bfc and bfc-srf do without",
        ),
        check(
            "control groups",
            PFABRIC,
            exists("/sys/fs/cgroup/cgroup.controllers"),
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
        check(
            "eBPF with types",
            PFABRIC,
            exists("/sys/kernel/btf/vmlinux"),
            "The kernel needs CONFIG_DEBUG_INFO_BTF",
        ),
        check(
            "eBPF programs",
            PFABRIC,
            programs(),
            "cargo xtask build makes a weft with them; WEFT_EBPF_OBJECT names another file of them",
        ),
        check(
            "tcx hooks",
            PFABRIC,
            kernel_from(6, 6),
            "The programs need Linux 6.6 or later",
        ),
        check(
            "clsact with bpf filters",
            PFABRIC,
            kernel(Part::Classifier("bpf")),
            "modprobe sch_ingress cls_bpf (CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF)",
        ),
        check(
            "a hash of each switch's own",
            Need::Results,
            exists("/proc/sys/net/ipv4/fib_multipath_hash_seed"),
            "Linux 6.11 or later; before that all switches choose alike, and ECMP leaves half of a fat-tree's core idle",
        ),
        check(
            "open files",
            Need::Results,
            open_files(),
            "ulimit -n 65536: a run has two sockets a flow open",
        ),
        check(
            "one clock source that is precise",
            Need::Results,
            clock(),
            "Timers will be late: results may be INVALID; cargo xtask vm has virtual time",
        ),
    ]);
    checks
}

/// One of ours: the wire is in every fabric.
fn qdisc(kind: &'static str) -> Check {
    let needed_for = if kind == weft_core::wire::QDISC.kind {
        Need::All
    } else {
        Need::Schemes(kind)
    };
    let cure = format!("cargo xtask build, then load sch_{kind}; or cargo xtask vm, which has it");
    check(kind, needed_for, kernel(Part::Qdisc(kind)), cure)
}

fn root() -> Result<String, String> {
    if Uid::effective().is_root() {
        Ok("root".into())
    } else {
        Err(format!("user {}", Uid::effective()))
    }
}

fn exists(path: &str) -> Result<String, String> {
    if Path::new(path).exists() {
        Ok(path.into())
    } else {
        Err(format!("no {path}"))
    }
}

/// By trying it, which takes root.
fn kernel(part: Part<'_>) -> Result<String, String> {
    match probe::has(part) {
        Ok(true) => Ok("found by trying".to_owned()),
        Ok(false) => Err("the kernel has none".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn programs() -> Result<String, String> {
    weft_ebpf::Object::find(None)
        .map(|_| "found".to_owned())
        .map_err(|error| format!("{error:#}"))
}

fn kernel_from(major: u32, minor: u32) -> Result<String, String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (major, minor) {
        Ok(format!("Linux {release}"))
    } else {
        Err(format!("Linux {release}"))
    }
}

fn open_files() -> Result<String, String> {
    match weft_load::engine::raise_descriptor_limit() {
        Ok(limit) if limit >= 20_000 => Ok(format!("up to {limit}")),
        Ok(limit) => Err(format!("only {limit}")),
        Err(error) => Err(error.to_string()),
    }
}

fn clock() -> Result<String, String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    match name.trim() {
        name @ ("tsc" | "tsc-early" | "kvm-clock" | "hpet" | "arch_sys_counter") => {
            Ok(name.to_owned())
        }
        name => Err(name.to_owned()),
    }
}
