// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft-tag`: attaches weft's eBPF programs by hand.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use serde_json::{Map, Value, json};
use weft_arguments::whole;
use weft_ebpf::port::{self, Status};
use weft_ebpf::{
    Attacher, Counters, Fallback, FlowSizes, Gso, Hook, HostConfig, Object, Policy, Role, Spray,
    SwitchConfig, Tagged, Untagged,
};

const EXAMPLES: &str = "\
Examples:
  # A host: programs in the cgroup declare their flows, which decides the rank.
  mkdir /sys/fs/cgroup/weft
  weft-tag attach --dev eth0 --role host --cgroup /sys/fs/cgroup/weft

  # A switch with two ports that sprays packets over its uplinks.
  weft-tag attach --dev port1 --role switch --spray round-robin
  weft-tag attach --dev port2 --role switch --spray round-robin

  # Nothing but the sizes, for a congestion control that reads them.
  weft-tag attach --cgroup /sys/fs/cgroup/weft

  weft-tag stats --dev eth0 --json
  weft-tag detach --dev eth0
  weft-tag detach --cgroup /sys/fs/cgroup/weft

An application says the size of its flow on its socket, for example in Python:
  s.setsockopt(0x77656674, 1, struct.pack(\"=Q\", size))";

/// Tags packets with their rank: attaches weft's eBPF programs to devices and cgroups.
///
/// Programs stay attached until they are detached or their device or cgroup is gone. Nothing is
/// pinned. Devices are those of the current network namespace, or of `--netns`. Needs root and
/// Linux 6.6 or later.
#[derive(Parser)]
#[command(name = "weft-tag", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Network namespace of the device, as `ip netns` names it. Unlike `ip netns exec`, this leaves
    /// cgroups where they are
    #[arg(long, global = true, value_name = "NAME")]
    netns: Option<String>,
    /// Object with the eBPF programs, if none is built in
    #[arg(long, global = true, value_name = "FILE", env = "WEFT_EBPF_OBJECT")]
    object: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Attach programs to a device, and to a cgroup
    #[command(after_help = EXAMPLES)]
    Attach(Box<Attach>),
    /// Detach programs and restore the settings that attaching changed
    #[command(after_help = EXAMPLES)]
    Detach(Target),
    /// Print attached programs and their counters
    #[command(after_help = EXAMPLES)]
    Stats {
        #[command(flatten)]
        target: Target,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        folder: PathBuf,
    },
    /// Print the rank of each packet, if the programs were built with their feature `log`
    #[cfg(feature = "log")]
    Log {
        /// Device that they are attached to
        #[arg(long)]
        dev: String,
    },
}

#[derive(Args)]
struct Attach {
    /// Device to attach to; none: only the cgroup, for a congestion control that reads sizes
    #[arg(long, requires = "role", required_unless_present = "cgroup")]
    dev: Option<String>,
    /// Role of the device's node
    #[arg(long, requires = "dev", value_parser = PossibleValuesParser::new(names(Role::ALL, Role::name)))]
    role: Option<String>,
    /// Where the kernel runs them: `clsact` attaches many devices faster [default: tcx]
    #[arg(long, requires = "dev", value_parser = PossibleValuesParser::new(names(Hook::ALL, Hook::name)))]
    hook: Option<String>,
    /// Host: rank of a packet [default: remaining]
    #[arg(long, requires = "dev", value_parser = PossibleValuesParser::new(names(Policy::ALL, Policy::name)))]
    policy: Option<String>,
    /// Host: rank of a packet whose flow has no declared size [default: sent]
    #[arg(long, requires = "dev", value_parser = PossibleValuesParser::new(names(Fallback::ALL, Fallback::name)))]
    fallback: Option<String>,
    /// Host: rank under policy `fixed` of flows without a class [default: 0]
    #[arg(long, requires = "dev", value_name = "RANK", allow_negative_numbers = true, value_parser = whole(0..=u32::MAX))]
    fixed: Option<u32>,
    /// Host: packets that get a tag: those with payload of TCP and UDP, or all of IP [default:
    /// data]
    #[arg(long, requires = "dev", value_parser = PossibleValuesParser::new(names(Tagged::ALL, Tagged::name)))]
    tagged: Option<String>,
    /// Host: give all packets of a burst of up to 64 KiB one rank, which is faster [default: off]
    #[arg(long, requires = "dev", value_parser = ["off", "on"])]
    gso: Option<String>,
    /// Host: cgroup whose programs may declare the size of their flows
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Switch: spray packets over the paths of multipath routes [default: off]
    #[arg(long, requires = "dev", value_parser = PossibleValuesParser::new(names(Spray::ALL, Spray::name)))]
    spray: Option<String>,
    /// Switch: for round-robin, number of paths if it is no power of two; for path, of next hops
    #[arg(long, requires = "dev", value_name = "N", allow_negative_numbers = true, value_parser = whole(0..=u32::MAX))]
    paths: Option<u32>,
    /// Switch: for path, number of successive paths with the same next hop [default: 1]
    #[arg(long, requires = "dev", value_name = "N", allow_negative_numbers = true, value_parser = whole(0..=u32::MAX))]
    stride: Option<u32>,
    /// Switch: rank of a packet without a tag that is long enough to hold data [default: last]
    #[arg(long, requires = "dev", value_parser = PossibleValuesParser::new(names(Untagged::ALL, Untagged::name)))]
    untagged: Option<String>,
}

#[derive(Args)]
#[group(required = true, multiple = true)]
struct Target {
    /// Device
    #[arg(long)]
    dev: Option<String>,
    /// Cgroup
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|one| name(*one)).collect()
}

/// The element with this name, which clap has checked; the first one if none is given.
fn choice<T: Copy>(all: &[T], name: fn(T) -> &'static str, given: Option<&String>) -> Result<T> {
    let Some(given) = given else {
        return all.first().copied().context("no choice");
    };
    all.iter()
        .copied()
        .find(|one| name(*one) == given)
        .context("no such choice")
}

impl Attach {
    fn run(&self, object: &Object) -> Result<()> {
        let Some(dev) = &self.dev else {
            // clap ensures that there is a device or a cgroup.
            let cgroup = self.cgroup.as_deref().context("no cgroup")?;
            return FlowSizes::attach(object, cgroup).map(drop);
        };
        let hook = choice(Hook::ALL, Hook::name, self.hook.as_ref())?;
        if choice(Role::ALL, Role::name, self.role.as_ref())? == Role::Switch {
            let foreign = [
                ("--policy", self.policy.is_some()),
                ("--fallback", self.fallback.is_some()),
                ("--fixed", self.fixed.is_some()),
                ("--tagged", self.tagged.is_some()),
                ("--gso", self.gso.is_some()),
                ("--cgroup", self.cgroup.is_some()),
            ];
            refuse(&foreign, "a host; a switch only reads the tags of hosts")?;
            let config = SwitchConfig {
                spray: choice(Spray::ALL, Spray::name, self.spray.as_ref())?,
                paths: self.paths.unwrap_or(0),
                stride: self.stride.unwrap_or(0),
                untagged: choice(Untagged::ALL, Untagged::name, self.untagged.as_ref())?,
            };
            return Attacher::new(object, None).at(hook).switch(dev, &config);
        }
        let foreign = [
            ("--spray", self.spray.is_some()),
            ("--paths", self.paths.is_some()),
            ("--stride", self.stride.is_some()),
            ("--untagged", self.untagged.is_some()),
        ];
        refuse(&foreign, "a switch: hosts have one way out")?;
        let config = HostConfig {
            policy: choice(Policy::ALL, Policy::name, self.policy.as_ref())?,
            fallback: choice(Fallback::ALL, Fallback::name, self.fallback.as_ref())?,
            fixed: self.fixed.unwrap_or(0),
            tagged: choice(Tagged::ALL, Tagged::name, self.tagged.as_ref())?,
            gso: if self.gso.as_deref() == Some("on") {
                Gso::On
            } else {
                Gso::Off
            },
        };
        ensure!(
            self.fixed.is_none() || config.policy == Policy::Fixed,
            "--fixed is for --policy fixed"
        );
        let flows = match &self.cgroup {
            Some(cgroup) => Some(FlowSizes::attach(object, cgroup)?),
            None => None,
        };
        Attacher::new(object, flows.as_ref())
            .at(hook)
            .host(dev, &config)
    }
}

fn refuse(options: &[(&str, bool)], of: &str) -> Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{option} is an option of {of}"),
        None => Ok(()),
    }
}

impl Target {
    fn flow_sizes(&self) -> Result<Option<FlowSizes>> {
        let Some(cgroup) = &self.cgroup else {
            return Ok(None);
        };
        let nothing = || format!("weft is not attached to {}", cgroup.display());
        FlowSizes::find(cgroup)?.with_context(nothing).map(Some)
    }

    fn detach(&self) -> Result<()> {
        if let Some(dev) = &self.dev {
            let put_back = port::detach(dev)?;
            if !put_back {
                eprintln!(
                    "weft-tag: the programs had no record of how {dev} was: its GSO limits, MTU of \
                     IPv6 and routes' MTU, and a switch's settings, are as they were with them"
                );
            }
        }
        self.flow_sizes()?.map_or(Ok(()), FlowSizes::detach)
    }

    fn stats(&self) -> Result<Map<String, Value>> {
        let mut stats = Map::new();
        if let Some(dev) = &self.dev {
            let status =
                port::status(dev)?.with_context(|| format!("weft is not attached to {dev}"))?;
            stats.insert("dev".into(), json!(dev));
            describe(&status, &mut stats);
        }
        if let Some(flows) = self.flow_sizes()? {
            stats.insert("cgroup".into(), json!(self.cgroup));
            count(&flows.counters()?, &["flow_size"], &mut stats);
        }
        Ok(stats)
    }
}

fn describe(status: &Status, stats: &mut Map<String, Value>) {
    stats.insert("role".into(), json!(status.role.name()));
    stats.insert("hook".into(), json!(status.hook.name()));
    match status.role {
        Role::Host => {
            stats.insert("policy".into(), json!(status.host.policy.name()));
            stats.insert("fallback".into(), json!(status.host.fallback.name()));
            if status.host.policy == Policy::Fixed {
                stats.insert("fixed".into(), json!(status.host.fixed));
            }
            stats.insert("tagged".into(), json!(status.host.tagged.name()));
            let gso = if status.host.gso == Gso::On {
                "on"
            } else {
                "off"
            };
            stats.insert("gso".into(), json!(gso));
            count(&status.counters, &["tag", "untag"], stats);
        }
        Role::Switch => {
            stats.insert("spray".into(), json!(status.switch.spray.name()));
            if status.switch.paths != 0 {
                stats.insert("paths".into(), json!(status.switch.paths));
            }
            if status.switch.stride != 0 {
                stats.insert("stride".into(), json!(status.switch.stride));
            }
            stats.insert("untagged".into(), json!(status.switch.untagged.name()));
            count(&status.counters, &["read"], stats);
        }
    }
}

fn count(counters: &Counters, programs: &[&str], stats: &mut Map<String, Value>) {
    for (counter, value) in counters.of(programs) {
        let (program, what) = counter
            .name()
            .split_once('.')
            .unwrap_or(("", counter.name()));
        let group = stats.entry(program).or_insert_with(|| json!({}));
        group[what] = json!(value);
    }
}

/// One line for the device or cgroup, and one for each program's counters.
fn table(stats: &Map<String, Value>) -> String {
    let plain = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let mut text = String::new();
    let mut head = Vec::new();
    for (name, value) in stats {
        match value {
            Value::Object(group) => {
                if !head.is_empty() {
                    text += &format!("{}\n", head.join(" "));
                    head.clear();
                }
                let counters: Vec<_> = group
                    .iter()
                    .map(|(what, count)| format!("{what} {count}"))
                    .collect();
                text += &format!(" {name}: {}\n", counters.join(" "));
            }
            other => head.push(format!("{name} {}", plain(other))),
        }
    }
    if !head.is_empty() {
        text += &format!("{}\n", head.join(" "));
    }
    text
}

#[cfg(feature = "log")]
fn log(dev: &str) -> Result<()> {
    env_logger::Builder::new()
        .filter_level(log::LevelFilter::Debug)
        .init();
    let mut loggers = Vec::new();
    for program in port::programs(dev)? {
        loggers.extend(aya_log::EbpfLogger::init_from_id(program));
    }
    ensure!(
        !loggers.is_empty(),
        "the programs on {dev} do not log: build them with their feature `log` and attach them anew"
    );
    loop {
        loggers.iter_mut().for_each(aya_log::EbpfLogger::flush);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Enters a namespace of `ip netns`.
fn enter(name: &str) -> Result<()> {
    let path = std::path::Path::new("/run/netns").join(name);
    let cure = || format!("no network namespace is called {name}; `ip netns` lists them");
    let file = std::fs::File::open(path).with_context(cure)?;
    nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET)
        .with_context(|| format!("entering the network namespace {name}"))
}

fn run(cli: &Cli) -> Result<()> {
    if let Some(name) = &cli.netns {
        enter(name)?;
    }
    match &cli.command {
        Command::Attach(attach) => attach.run(&Object::find(cli.object.as_deref())?),
        Command::Detach(target) => target.detach(),
        Command::Stats { target, json } => {
            let stats = target.stats()?;
            let text = if *json {
                format!("{}\n", Value::Object(stats))
            } else {
                table(&stats)
            };
            match io::stdout().write_all(text.as_bytes()) {
                // The reader needs no more: `weft-tag stats | head`.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written.context("writing to standard output"),
            }
        }
        Command::Man { folder } => Ok(weft_arguments::man::write(Cli::command(), folder)?),
        #[cfg(feature = "log")]
        Command::Log { dev } => log(dev),
    }
}

fn main() -> std::process::ExitCode {
    let cli = match weft_arguments::parse::<Cli>() {
        Ok((cli, _)) => cli,
        Err(status) => return status,
    };
    match run(&cli) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft-tag: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_number_has_its_range() {
        let faults = weft_arguments::number::faults(&Cli::command());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
