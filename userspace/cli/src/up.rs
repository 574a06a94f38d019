// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft up`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use weft_ebpf::SwitchConfig;
use weft_net::{Mounts, Plan, machine};
use weft_topo::Kind;

use weft_arguments::whole;
use weft_lab::fabric::Fabric;

use crate::arguments::fabric;
use crate::output;
use weft_lab::testbed::{self, Attachment, ControlGroup, Programs};

/// Create a fabric: network namespaces, links, routes, qdiscs, programs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
If a step fails, weft up removes what it has created. `weft down` removes the fabric, also after a crash.

With --host h3=tap, host h3 is a machine of its own. Its port, wire and qdiscs are in the fabric; its
addresses belong to the VM that opens the tap device beside the port. weft prints the path of a script that
configures the VM. Turn segmentation offload off in the VM (vnet_hdr=off for QEMU).

A fabric can span several machines. Each creates its part of the same topology (--part 2 --parts
ADDRESS,ADDRESS). Links between parts are VXLAN tunnels between these addresses. A rack is never split.

Examples:
  weft up fat-tree:k=4 --scheme dctcp --dilation 1000
  weft up dumbbell:left=2,right=2,rate=10mbit --scheme ./my-scheme --testbed mine
  weft up rack:hosts=4 --dry-run > rack.sh      the same as commands, which can be run
  weft up rack:hosts=4 --host h3=tap
  weft exec h3 qemu-system-x86_64 … -netdev tap,id=n,ifname=tap0,script=no,downscript=no,vnet_hdr=off \\
      -device virtio-net-pci,netdev=n           then inside: sh inside-h3.sh eth0")]
pub(crate) struct Args {
    #[command(flatten)]
    fabric: fabric::Args,
    /// Scheme: a name from `weft schemes`, or a folder
    #[arg(long, default_value = "droptail")]
    scheme: String,
    /// Name of the testbed: letters, digits and _
    #[arg(long, value_name = "NAME", default_value = "fabric")]
    testbed: String,
    /// Make this host a machine of its own (repeatable)
    #[arg(long = "host", value_name = "NAME=tap", value_parser = machine)]
    machines: Vec<String>,
    /// Addresses of the machines that share the fabric, in order
    #[arg(
        long,
        value_name = "ADDRESS,…",
        value_delimiter = ',',
        requires = "part"
    )]
    parts: Vec<IpAddr>,
    /// Which of --parts this machine is, from 1
    #[arg(long, value_name = "N", requires = "parts", allow_negative_numbers = true, value_parser = whole(NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    part: Option<NonZeroUsize>,
    /// Print the equivalent ip, tc, sysctl and weft-tag commands and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
}

#[derive(Serialize)]
struct Woven<'a> {
    testbed: &'a str,
    topology: &'a str,
    scheme: &'a str,
    dilation: u32,
    hosts: usize,
    switches: usize,
    links: usize,
    /// Number of links to other machines.
    #[serde(skip_serializing_if = "is_zero")]
    tunnels: usize,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Processes>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    machines: Vec<Machine<'a>>,
    /// Sysctls that nodes inherited from a tuned machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    inherited: BTreeMap<String, String>,
    ipv6: bool,
}

/// A host that is a separate machine.
#[derive(Serialize)]
struct Machine<'a> {
    host: &'a str,
    /// In its namespace, one per port.
    taps: Vec<String>,
    /// The script to run in it.
    script: PathBuf,
}

/// The name of a host that gets tap devices.
fn machine(text: &str) -> Result<String, &'static str> {
    let name = text.strip_suffix("=tap").filter(|name| !name.is_empty());
    let expected = "expected a host that is reached by a tap device, such as h3=tap";
    name.map(str::to_owned).ok_or(expected)
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Processes on the nodes.
#[derive(Serialize)]
struct Processes {
    count: usize,
    /// The folder of their output.
    logs: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let fabric = Fabric::new(&args.fabric.options(&args.scheme)?)?;
    let mut plan = testbed::plan(&args.testbed, &fabric)?;
    testbed::set_machines(&mut plan, &args.machines)?;
    if let Some(part) = args.part {
        testbed::set_part(&mut plan, &args.parts, part)?;
    }
    if args.dry_run {
        output::print(script(&plan, &fabric).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mounts = weft_net::mounts().map_err(testbed::explain)?;
    let begun = std::time::Instant::now();
    let (testbed, processes) = testbed::weave(&plan, &fabric.scheme)?;
    let here = |kind: Kind| {
        let ids = fabric.topology.ids().filter(|&id| plan.is_here(id));
        ids.filter(|&id| fabric.topology.node(id).kind == kind)
            .count()
    };
    let woven = Woven {
        testbed: &args.testbed,
        topology: &fabric.title,
        scheme: &fabric.scheme.name,
        dilation: fabric.dilation.get(),
        hosts: here(Kind::Host),
        switches: here(Kind::Switch),
        links: plan.links_here_and_out().0,
        tunnels: plan.links_here_and_out().1,
        seconds: begun.elapsed().as_secs_f64(),
        processes: (!processes.is_empty()).then(|| Processes {
            count: processes.len(),
            logs: testbed.logs(),
        }),
        machines: plan
            .machines()
            .map(|node| Machine {
                host: &node.name,
                taps: (0..node.ports.len()).map(machine::tap).collect(),
                script: testbed.inside(&node.name),
            })
            .collect(),
        inherited: testbed
            .record()
            .map(|record| record.inherited.clone())
            .unwrap_or_default(),
        ipv6: weft_net::probe::has_ipv6(),
    };
    if mounts == Mounts::GoWithOthers {
        eprintln!(
            "weft: the fabric is in a mount namespace that is not the machine's, and vanishes with its last \
             process"
        );
    }
    if !woven.ipv6 {
        eprintln!("weft: this kernel has no IPv6, so the fabric has none");
    }
    for (key, value) in &woven.inherited {
        eprintln!(
            "weft: nodes have {key}={value} from this machine, which cannot be set in a namespace: runs are INVALID"
        );
    }
    if args.json {
        output::json(&woven)?;
    } else {
        output::print(format!(
            "{}: {} hosts, {} switches, {} links, {}{} ({:.2} s)",
            woven.testbed,
            woven.hosts,
            woven.switches,
            woven.links,
            match woven.tunnels {
                0 => String::new(),
                tunnels => format!("{tunnels} to other machines, "),
            },
            woven.scheme,
            woven.seconds
        ))?;
        if let Some(Processes { count, logs }) = &woven.processes {
            output::print(format!(
                "processes: {count}, their output is in {}",
                logs.display()
            ))?;
        }
        for Machine { host, taps, script } in &woven.machines {
            output::print(format!(
                "{host}: attach its machine to {} in its namespace (weft exec {host} …), and run {} in the machine",
                taps.join(" and "),
                script.display()
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The equivalent commands.
pub(crate) fn script(plan: &Plan, fabric: &Fabric) -> String {
    let mut text = format!("{}\n", plan.commands().to_string().trim_end());
    if let Some(commands) = programs(plan, fabric) {
        text += &format!("{}\n", commands.trim_end());
    }
    if !plan.processes().is_empty() {
        text += &format!("{}\n", plan.process_commands().to_string().trim_end());
    }
    text
}

/// The command that attaches the scheme's programs; `None` if it has none.
fn programs(plan: &Plan, fabric: &Fabric) -> Option<String> {
    let programs = Programs::of(plan, &fabric.scheme)?;
    let group = ControlGroup::of(plan.testbed());
    let group = group.path().display();
    let mut text = "\n# programs\n".to_owned();
    if programs.declares() {
        text += &format!("mkdir {group}\n");
        if fabric.scheme.description.tag.is_none() {
            text += &format!("weft-tag attach --cgroup {group}\n");
        }
    }
    let topology = plan.topology();
    for node in topology.ids().filter(|&id| plan.is_here(id)) {
        let node = topology.node(node);
        let role = match programs.at(node) {
            None => continue,
            Some(Attachment::Host(config)) => {
                let mut role = format!(
                    "host --cgroup {group} --policy {} --fallback {}",
                    config.policy.name(),
                    config.fallback.name()
                );
                if config.tagged != weft_ebpf::Tagged::Data {
                    role += &format!(" --tagged {}", config.tagged.name());
                }
                role
            }
            Some(Attachment::Switch(config)) => {
                let SwitchConfig {
                    spray,
                    paths,
                    stride,
                    untagged,
                } = config;
                let mut role = format!("switch --spray {}", spray.name());
                for (option, number) in [("paths", paths), ("stride", stride)] {
                    if number != 0 {
                        role += &format!(" --{option} {number}");
                    }
                }
                if untagged != weft_ebpf::Untagged::Last {
                    role += &format!(" --untagged {}", untagged.name());
                }
                role
            }
        };
        for port in &node.ports {
            text += &format!(
                "weft-tag attach --netns {} --dev {} --hook {} --role {role}\n",
                plan.namespace(node),
                port.name,
                testbed::HOOK.name()
            );
        }
    }
    Some(text)
}
