// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft doctor`: checks this machine, with the cure for each problem.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use nix::sys::utsname::uname;
use nix::unistd::Uid;
use serde::Serialize;
use weft_lab::fabric::{Fabric, FabricOptions};
use weft_lab::scheme;
use weft_lab::testbed;
use weft_machine::image::Packed;
use weft_net::Plan;
use weft_net::probe::{self, Part};

use crate::output;

/// weft's own qdisc that every scheme uses.
const WIRE: &str = "wire";

/// Report what this machine has and lacks, with a cure for each
#[derive(Debug, clap::Args)]
#[command(after_help = "\
weft doctor checks the needs of its schemes and of valid measurements. Most cures are commands to run.

Exit status: 0 if weft has its guest image, or if this machine's kernel can run all schemes with stock qdiscs
and congestion controls (bbr, cubic-codel, dctcp, droptail, droptail-infinite, fq_codel); 1 otherwise.

Example:
  weft doctor --json")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A shell in a guest that has everything. `weft run` and `weft lab` use such guests by default.
const GUEST: &str = "weft vm";

/// The path of weft if its Debian package is installed.
const PACKAGED: &str = "/usr/bin/weft";
/// The command that rebuilds the modules there, with the packages that this requires.
const MODULES: &str = "apt-get install --reinstall weft-dkms linux-headers-amd64 linux-source";

/// The command that installs weft's own modules.
fn own() -> &'static str {
    match std::env::current_exe() {
        Ok(program) if program == Path::new(PACKAGED) => MODULES,
        _ => GUEST,
    }
}

#[derive(Debug, Serialize)]
struct Check {
    what: String,
    ok: bool,
    found: String,
    /// The schemes that need it.
    needed_for: Needed,
    /// The command that cures it, if it is missing.
    cure: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Needed {
    /// Nothing works without it.
    All,
    /// Valid results need it.
    Results,
    /// An option of `weft run` needs it.
    #[serde(rename = "--ipv6")]
    Ipv6,
    /// These schemes need it; others do not.
    #[serde(untagged)]
    Schemes(Vec<&'static str>),
}

fn check(
    what: impl Into<String>,
    needed_for: Needed,
    found: Result<String, String>,
    cure: impl Into<String>,
) -> Check {
    Check {
        what: what.into(),
        ok: found.is_ok(),
        found: found.unwrap_or_else(|found| found),
        needed_for,
        cure: cure.into(),
    }
}

/// The guest image that this weft has.
#[derive(Debug, Serialize)]
struct MachineFound {
    file: PathBuf,
    /// How the image was found.
    origin: String,
    hash: String,
    kernel: String,
}

/// The image that runs use, if there is one.
fn machine() -> Result<Option<MachineFound>> {
    let Some(packed) = Packed::find(None)? else {
        return Ok(None);
    };
    Ok(Some(MachineFound {
        origin: packed.origin.to_string(),
        hash: packed.hash().to_string(),
        kernel: packed.manifest()?.release,
        file: packed.path,
    }))
}

#[derive(Serialize)]
struct Report<'a> {
    machine: &'a Option<MachineFound>,
    checks: &'a [Check],
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let machine = machine()?;
    let schemes = schemes()?;
    let checks = checks(&schemes);
    let of_linux: Vec<_> = schemes
        .iter()
        .filter(|scheme| scheme.is_of_linux())
        .collect();
    let able = checks
        .iter()
        .filter(|check| !check.ok)
        .all(|check| match &check.needed_for {
            Needed::All => false,
            Needed::Results | Needed::Ipv6 => true,
            Needed::Schemes(names) => !of_linux.iter().any(|scheme| names.contains(&scheme.name)),
        });
    if args.json {
        let (machine, checks) = (&machine, &checks[..]);
        output::json(&Report { machine, checks })?;
    } else {
        match &machine {
            Some(it) => output::print(format!(
                "ok    guest image: {} ({}), Linux {}, {}; used by weft run, lab, vm and demo\n\n\
                 This machine's own kernel, for weft up and --clock real:",
                it.file.display(),
                it.origin,
                it.kernel,
                it.hash
            ))?,
            None => output::print(
                "no guest image: weft run and lab use this machine's kernel; `cargo xtask bundle` builds a weft \
                 with a guest image\n",
            )?,
        }
        for it in &checks {
            let mark = if it.ok { "ok  " } else { "LACKS" };
            output::print(format!("{mark:5} {}: {}", it.what, it.found))?;
            if !it.ok {
                let needed = match &it.needed_for {
                    Needed::All => "all".to_owned(),
                    Needed::Results => "valid results".to_owned(),
                    Needed::Ipv6 => "weft run --ipv6".to_owned(),
                    Needed::Schemes(names) => names.join(", "),
                };
                output::print(format!("      for {needed}: {}", it.cure))?;
            }
        }
    }
    Ok(if able || machine.is_some() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The needs of a built-in scheme.
struct Takes {
    name: &'static str,
    plan: Plan,
    /// Whether its ports use weft's eBPF programs.
    programs: bool,
}

impl Takes {
    /// Whether it uses only the kernel's own qdiscs and congestion controls, except `wire`.
    fn is_of_linux(&self) -> bool {
        let parts = self.plan.parts();
        let foreign = |part: &Part<'_>| part.is_own() && *part != Part::Qdisc(WIRE);
        !self.programs && !parts.iter().any(foreign)
    }
}

fn schemes() -> Result<Vec<Takes>> {
    let takes = scheme::names().into_iter().map(|name| {
        let fabric = Fabric::new(&FabricOptions {
            topology: "rack:hosts=2".to_owned(),
            dilation: NonZeroU32::MIN,
            slack: Duration::ZERO,
            scheme: name.to_owned(),
            settings: Vec::new(),
            modules: Vec::new(),
        })?;
        let plan = testbed::plan("doctor", &fabric)?;
        let programs = testbed::Programs::of(&plan, &fabric.scheme).is_some();
        Ok(Takes {
            name,
            plan,
            programs,
        })
    });
    takes.collect()
}

fn checks(schemes: &[Takes]) -> Vec<Check> {
    let needing = |takes: &dyn Fn(&Takes) -> bool| {
        let needing = schemes.iter().filter(|scheme| takes(scheme));
        let names: Vec<_> = needing.map(|scheme| scheme.name).collect();
        match names.len() == schemes.len() {
            true => Needed::All,
            false => Needed::Schemes(names),
        }
    };
    let programs_of = || needing(&|scheme| scheme.programs);
    let modules = Modules::of_kernel();
    let mut checks = vec![
        check("privileges", Needed::All, root(), "sudo weft doctor"),
        check(
            "network namespaces (CONFIG_NET_NS)",
            Needed::All,
            exists("/proc/self/ns/net"),
            GUEST,
        ),
        check(
            "virtual Ethernet",
            Needed::All,
            kernel(Part::Veth),
            modules.cure(&["veth"]),
        ),
        check(
            "tc",
            needing(&|scheme| scheme.plan.takes_tc()),
            program("tc"),
            "apt-get install iproute2",
        ),
    ];
    let parts: BTreeSet<Part<'_>> = schemes.iter().flat_map(|it| it.plan.parts()).collect();
    checks.extend(parts.into_iter().map(|part| {
        let needed = needing(&|scheme| scheme.plan.parts().contains(&part));
        let cure = match (part.is_own(), part.is_module()) {
            (true, _) => own().to_owned(),
            (false, true) => modules.cure(&[&part.module()]),
            (false, false) => GUEST.to_owned(),
        };
        check(part.to_string(), needed, kernel(part), cure)
    }));
    checks.extend([
        check("IPv6", Needed::Ipv6, ipv6(), GUEST),
        check(
            "settings of the machine that nodes have, too",
            Needed::Results,
            settings(),
            cure_of_settings(),
        ),
        check(
            "control groups",
            programs_of(),
            exists("/sys/fs/cgroup/cgroup.controllers"),
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
        check(
            "eBPF with types (CONFIG_DEBUG_INFO_BTF)",
            programs_of(),
            exists("/sys/kernel/btf/vmlinux"),
            GUEST,
        ),
        // Tests depend on its name.
        check(
            "eBPF programs",
            programs_of(),
            programs(),
            "cargo xtask build",
        ),
        check(
            "clsact with bpf filters",
            programs_of(),
            kernel(Part::Classifier("bpf")),
            modules.cure(&["sch_ingress", "cls_bpf"]),
        ),
        check(
            "a hash seed for each switch, so that ECMP uses all paths (Linux 6.11)",
            Needed::Results,
            exists("/proc/sys/net/ipv4/fib_multipath_hash_seed"),
            GUEST,
        ),
        check(
            "open files, two for each flow that runs",
            Needed::Results,
            open_files(),
            "ulimit -n 65536",
        ),
        check(
            "a clock source that is precise, as timers are late otherwise",
            Needed::Results,
            clock(),
            GUEST,
        ),
    ]);
    checks
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

/// The names of the modules that a kernel was built with, whether loaded or not.
struct Modules(BTreeSet<String>);

impl Modules {
    /// Those of the running kernel; empty without depmod's lists.
    fn of_kernel() -> Self {
        let release = uname().map(|it| it.release().to_owned());
        let folder = Path::new("/lib/modules").join(release.unwrap_or_default());
        let lists = ["modules.dep", "modules.builtin"];
        Self::parse(
            &lists
                .map(|it| fs::read_to_string(folder.join(it)).unwrap_or_default())
                .concat(),
        )
    }

    /// Parses the text of `modules.dep` and `modules.builtin`.
    fn parse(lists: &str) -> Self {
        let names = lists.lines().filter_map(|line| {
            let file = line.split(':').next()?.rsplit('/').next()?;
            // A file's name may have dashes where the module's has underscores.
            Some(file.split('.').next()?.replace('-', "_"))
        });
        Self(names.collect())
    }

    /// The command that loads modules, or a guest if the kernel was built without one of them. If
    /// nothing is known of the kernel, only modprobe can tell.
    fn cure(&self, names: &[&str]) -> String {
        let is_built = |name: &&str| self.0.contains(&name.replace('-', "_"));
        match names {
            _ if !self.0.is_empty() && !names.iter().all(is_built) => GUEST.to_owned(),
            [name] => format!("modprobe {name}"),
            _ => format!("modprobe -a {}", names.join(" ")),
        }
    }
}

/// Tries it, which requires root.
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

/// Whether the program can be started.
fn program(name: &str) -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = places.find(|place| place.is_file());
    found
        .map(|place| place.display().to_string())
        .ok_or_else(|| format!("no {name} in PATH"))
}

fn ipv6() -> Result<String, String> {
    match probe::has_ipv6() {
        true => Ok("found by trying".to_owned()),
        false => Err(
            "none, so fabrics have none (ipv6.disable=1 on the kernel's command line?)".to_owned(),
        ),
    }
}

/// Settings that were changed from their defaults.
fn tuned() -> Vec<String> {
    let tuned = weft_net::tuned_settings().into_iter();
    tuned.map(|(key, value)| format!("{key}={value}")).collect()
}

fn settings() -> Result<String, String> {
    match tuned().as_slice() {
        [] => Ok("as the kernel has them".to_owned()),
        tuned => Err(format!("tuned: {}", tuned.join(", "))),
    }
}

/// The commands that restore the kernel's defaults.
fn cure_of_settings() -> String {
    let tuned = weft_net::tuned_settings();
    let commands: Vec<String> = tuned
        .keys()
        .filter_map(|key| weft_net::untune(key))
        .collect();
    match commands.as_slice() {
        [] => "sysctl -w net.core.netdev_max_backlog=1000".to_owned(),
        commands => commands.join("; "),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_a_scheme_needs_is_checked() {
        let schemes = schemes().unwrap();
        let of_linux: Vec<_> = schemes.iter().filter(|it| it.is_of_linux()).collect();
        let names: Vec<_> = of_linux.iter().map(|it| it.name).collect();
        // The same list as in the help.
        assert_eq!(
            names,
            [
                "bbr",
                "cubic-codel",
                "dctcp",
                "droptail",
                "droptail-infinite",
                "fq_codel"
            ]
        );
        let checks = checks(&schemes);
        for scheme in &schemes {
            for part in scheme.plan.parts() {
                let check = checks.iter().find(|it| it.what == part.to_string());
                let is_needed = match check.map(|it| &it.needed_for) {
                    Some(Needed::All) => true,
                    Some(Needed::Schemes(names)) => names.contains(&scheme.name),
                    _ => false,
                };
                assert!(is_needed, "{}: {part}", scheme.name);
            }
        }
    }

    #[test]
    fn modprobe_is_the_cure_only_for_modules_of_the_kernels_build() {
        let listed = "kernel/net/sched/sch_ingress.ko.xz:\n\
                      kernel/net/sched/cls_bpf.ko.xz: kernel/lib/x.ko\n\
                      kernel/net/ipv4/tcp-dctcp.ko\n";
        let modules = Modules::parse(listed);
        let cure = |names: &[&str]| modules.cure(names);
        assert_eq!(cure(&["tcp_dctcp"]), "modprobe tcp_dctcp");
        assert_eq!(cure(&["sch_dualpi2"]), GUEST);
        assert_eq!(
            cure(&["sch_ingress", "cls_bpf"]),
            "modprobe -a sch_ingress cls_bpf"
        );
        assert_eq!(cure(&["sch_ingress", "cls_flower"]), GUEST);
        // A machine without depmod's lists.
        assert_eq!(
            Modules::parse("").cure(&["sch_dualpi2"]),
            "modprobe sch_dualpi2"
        );
    }

    #[test]
    fn a_cure_is_one_command() {
        for check in checks(&schemes().unwrap()) {
            let shell = std::process::Command::new("sh");
            let parses = { shell }.args(["-n", "-c", &check.cure]).status().unwrap();
            assert!(parses.success(), "{}", check.cure);
            let first = check.cure.split(' ').next().unwrap();
            let known = [
                "apt-get", "cargo", "modprobe", "mount", "sudo", "sysctl", "ulimit", "weft",
            ];
            assert!(known.contains(&first), "{}: {}", check.what, check.cure);
        }
    }
}
