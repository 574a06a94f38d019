// SPDX-License-Identifier: MIT OR Apache-2.0

//! Faults: disturbances of a node of the fabric at a time of the run. Each is a script that `sh`
//! runs in the node's namespace with `ip` and `tc`, as a person would.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::memfd::{MFdFlags, memfd_create};
use weft_net::Testbed;
use weft_topo::{Delay, Node};

use crate::error::usage;
use crate::fabric::Fabric;
use crate::testbed;

/// A disturbance of the fabric, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// ns of the fabric since the run's beginning. A fault at 0 happens before the first flow
    /// starts.
    at_ns: u64,
    node: String,
    action: Action,
}

/// The kind of fault; times are ns of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// A port and its link are down for a time: packets that wait in the port or arrive during that
    /// time are lost. The port's routes and neighbours come back with it.
    Down { port: String, ns: u64 },
    /// All ports are down for a time, and come back with new qdiscs.
    Restart { ns: u64 },
    /// From then on, one of this many pause frames that arrive by any port is lost.
    LosePauses { one_of: u32 },
    /// A command for `sh`.
    Run(String),
}

const EXPECTED: &str = "expected TIME NODE and one of `down PORT TIME`, `restart TIME`, `lose-pauses \
                        PERCENT%`, `run COMMAND`: for example '300us switch2 down h4 50us'";

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |word: &str| {
            word.parse::<Delay>()
                .map(Delay::ns)
                .map_err(|it| it.to_string())
        };
        let mut words = text.trim().splitn(4, char::is_whitespace);
        let mut word = || words.next().filter(|word| !word.is_empty());
        let (Some(at), Some(node), Some(action)) = (word(), word(), word()) else {
            return Err(EXPECTED.to_owned());
        };
        let rest = words.next().unwrap_or_default().trim();
        let arguments: Vec<&str> = rest.split_whitespace().collect();
        let action = match (action, arguments.as_slice()) {
            ("down", [port, length]) => Action::Down {
                port: (*port).to_owned(),
                ns: time(length)?,
            },
            ("restart", [length]) => Action::Restart { ns: time(length)? },
            ("lose-pauses", [share]) => Action::LosePauses {
                one_of: one_of(share)?,
            },
            ("run", [_, ..]) => Action::Run(rest.to_owned()),
            _ => return Err(EXPECTED.to_owned()),
        };
        Ok(Self {
            at_ns: time(at)?,
            node: node.to_owned(),
            action,
        })
    }
}

/// The number for a share such as `5%`: the kernel loses one packet of a whole number.
fn one_of(share: &str) -> Result<u32, String> {
    let percent = share.strip_suffix('%').and_then(|text| text.parse().ok());
    let percent = percent.filter(|percent: &f64| (0.01..=100.0).contains(percent));
    let one_of = percent.map(|percent| (100.0 / percent).round());
    one_of
        .map(|number| number as u32)
        .ok_or_else(|| format!("lose-pauses {share}: expected 0.01% to 100%"))
}

impl Fault {
    /// # Errors
    ///
    /// If there is no such node or port, or the fault is not possible there: one sentence.
    pub(crate) fn check(&self, fabric: &Fabric, ipv6: bool) -> Result<()> {
        let node = self.node(fabric)?;
        if let Action::Down { port, .. } = &self.action
            && !node.ports.iter().any(|it| it.name == *port)
        {
            let ports = node.ports.iter().map(|port| port.name.as_str());
            return usage(format!(
                "--fault: there is no port `{port}` on {}: expected one of {}",
                node.name,
                ports.collect::<Vec<_>>().join(", ")
            ));
        }
        let is_link = matches!(self.action, Action::Down { .. } | Action::Restart { .. });
        if is_link && ipv6 {
            return usage(
                "--fault: with --ipv6 no port can be down: the kernel forgets its addresses",
            );
        }
        Ok(())
    }

    fn node<'a>(&self, fabric: &'a Fabric) -> Result<&'a Node> {
        let mut nodes = fabric.slowed.nodes().iter();
        match nodes.clone().find(|node| node.name == self.node) {
            Some(node) => Ok(node),
            None => usage(format!(
                "--fault: there is no node `{}` in {}: it has {}",
                self.node,
                fabric.title,
                nodes
                    .by_ref()
                    .map(|node| node.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        }
    }

    /// The script for `sh`.
    fn script(&self, fabric: &Fabric) -> Result<String> {
        let node = self.node(fabric)?;
        let wait = |ns: u64| {
            let ns = ns.saturating_mul(fabric.dilation.get().into());
            format!("sleep {}.{:09}\n", ns / 1_000_000_000, ns % 1_000_000_000)
        };
        let mut script = "set -e\n".to_owned();
        match &self.action {
            Action::Run(command) => script.push_str(command),
            Action::LosePauses { one_of } => {
                let types = weft_mechanisms::QDISCS.iter().filter_map(|it| it.pauses);
                // Filters of different types need preferences of their own.
                let types = (1..).zip(types);
                let ports = node.ports.iter();
                let pauses = ports.flat_map(|port| types.clone().map(move |it| (port, it)));
                for (port, (preference, ether_type)) in pauses {
                    // The filter comes before weft's own.
                    writeln!(
                        script,
                        "tc qdisc add dev {0} clsact 2>/dev/null || :\n\
                         tc filter add dev {0} ingress pref {1} protocol {2:#x} matchall action pass random netrand drop {one_of}",
                        port.name, preference, ether_type,
                    )?;
                }
            }
            Action::Down { port, ns } => {
                script.push_str("cd $(mktemp -d)\n");
                script.push_str(&down(port));
                script.push_str(&wait(*ns));
                script.push_str(&up(port));
                script.push_str("rm -r $PWD\n");
            }
            Action::Restart { ns } => {
                script.push_str("cd $(mktemp -d)\n");
                let batches = testbed::batches(fabric, node)?;
                for (port, _) in &batches {
                    script.push_str(&down(port));
                }
                for (port, batch) in &batches {
                    writeln!(script, "tc qdisc del dev {port} root")?;
                    for line in batch {
                        writeln!(script, "tc {line}")?;
                    }
                }
                script.push_str(&wait(*ns));
                for (port, _) in &batches {
                    script.push_str(&up(port));
                }
                script.push_str("rm -r $PWD\n");
            }
        }
        Ok(script)
    }
}

/// Takes a port down, and saves the state that the kernel then drops.
fn down(port: &str) -> String {
    format!(
        "ip route save dev {port} > {port}.routes\n\
         ip neighbour show dev {port} nud permanent > {port}.neighbours\n\
         ip link set {port} down\n"
    )
}

/// Brings a port up, and restores the state that the kernel dropped.
fn up(port: &str) -> String {
    format!(
        "ip link set {port} up\n\
         while read address lladdr mac rest; do\n\
         ip neighbour replace $address lladdr $mac dev {port} nud permanent\n\
         done < {port}.neighbours\n\
         ip route restore < {port}.routes\n"
    )
}

/// The faults of a run, as scripts.
pub(crate) struct Faults {
    /// Sorted by time.
    all: Vec<Scripted>,
}

struct Scripted {
    at_ns: u64,
    node: String,
    script: String,
}

/// Running scripts.
#[derive(Default)]
pub(crate) struct Running(Vec<Started>);

/// A running script.
struct Started {
    name: String,
    child: Child,
    /// Its output. In memory: it is read when the script has ended, and a pipe holds only 64 KiB.
    said: File,
}

impl Faults {
    /// # Errors
    ///
    /// If a fault does not fit the fabric.
    pub(crate) fn new(fabric: &Fabric, faults: &[Fault]) -> Result<Self> {
        let scripted = faults.iter().map(|fault| {
            Ok(Scripted {
                at_ns: fault.at_ns,
                node: fault.node.clone(),
                script: fault.script(fabric)?,
            })
        });
        let mut all: Vec<Scripted> = scripted.collect::<Result<_>>()?;
        all.sort_by_key(|it| it.at_ns);
        Ok(Self { all })
    }

    /// The number of faults before the first flow.
    pub(crate) fn at_once(&self) -> usize {
        self.all.partition_point(|it| it.at_ns == 0)
    }

    /// The times of the others, in the machine's time.
    pub(crate) fn later_ns(&self, dilation: u32) -> Vec<u64> {
        let later = self.all.iter().skip(self.at_once());
        later
            .map(|it| it.at_ns.saturating_mul(dilation.into()))
            .collect()
    }

    /// Starts one. The run goes on meanwhile.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub(crate) fn begin(
        &self,
        place: usize,
        testbed: &Testbed,
        running: &mut Running,
    ) -> Result<()> {
        let Some(Scripted { node, script, .. }) = self.all.get(place) else {
            return Ok(());
        };
        let name = format!("a fault of {node}");
        let mut shell: Command = testbed.command(node, "sh").map_err(testbed::explain)?;
        shell.args(["-c", script]);
        running.start(name, &mut shell)
    }
}

impl Running {
    fn start(&mut self, name: String, command: &mut Command) -> Result<()> {
        let said = memfd_create("stderr", MFdFlags::MFD_CLOEXEC).map(File::from);
        let said = said.with_context(|| format!("{name}: making room for what it says"))?;
        let stderr = said.try_clone().with_context(|| name.clone())?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let child = command.spawn().with_context(|| name.clone())?;
        self.0.push(Started { name, child, said });
        Ok(())
    }

    /// Waits for all of them, at most this long.
    ///
    /// # Errors
    ///
    /// If one failed, with its output, or does not end.
    pub(crate) fn end(&mut self, patience: Duration) -> Result<()> {
        const STEP: Duration = Duration::from_millis(1);
        let mut waited = Duration::ZERO;
        for Started {
            name,
            mut child,
            mut said,
        } in self.0.drain(..)
        {
            let status = loop {
                match child.try_wait().with_context(|| name.clone())? {
                    Some(status) => break status,
                    None if waited >= patience => {
                        // If it cannot be ended, waiting for it would take forever.
                        let _ = child.kill().and_then(|()| child.wait());
                        bail!("{name}: it does not end");
                    }
                    None => std::thread::sleep(STEP),
                }
                waited += STEP;
            };
            if !status.success() {
                let mut text = Vec::new();
                said.rewind()
                    .and_then(|()| said.read_to_end(&mut text))
                    .with_context(|| name.clone())?;
                bail!(
                    "{name}: {status}: {}",
                    String::from_utf8_lossy(&text).trim()
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::fabric::FabricOptions;

    fn fabric() -> Fabric {
        let options = FabricOptions {
            topology: "rack:hosts=2,rate=100gbit,delay=1us".to_owned(),
            dilation: NonZeroU32::new(2000).unwrap(),
            slack: Duration::ZERO,
            scheme: "bfc".to_owned(),
            settings: Vec::new(),
            modules: Vec::new(),
        };
        Fabric::new(&options).unwrap()
    }

    fn script(text: &str) -> String {
        text.parse::<Fault>().unwrap().script(&fabric()).unwrap()
    }

    #[test]
    fn a_fault_is_parsed_as_time_node_and_command() {
        let fault: Fault = " 300us switch2 down  h4 50us ".parse().unwrap();
        assert_eq!((fault.at_ns, fault.node.as_str()), (300_000, "switch2"));
        let port = "h4".to_owned();
        assert_eq!(fault.action, Action::Down { port, ns: 50_000 });
        let run: Fault = "0ns h1 run tc qdisc show | wc -l".parse().unwrap();
        assert_eq!(run.action, Action::Run("tc qdisc show | wc -l".to_owned()));
        let lose: Fault = "0ns h1 lose-pauses 5%".parse().unwrap();
        assert_eq!(lose.action, Action::LosePauses { one_of: 20 });
        for text in [
            "",
            "300us",
            "300us switch2",
            "300us switch2 flap",
            "300us switch2 down h4",
            "300us switch2 restart",
            "300us switch2 run",
        ] {
            assert_eq!(text.parse::<Fault>(), Err(EXPECTED.to_owned()), "{text}");
        }
        for text in ["soon h1 restart 1us", "1us h1 restart soon"] {
            assert!(
                text.parse::<Fault>()
                    .unwrap_err()
                    .contains("is not a delay")
            );
        }
        for share in ["5", "0%", "101%", "many%"] {
            let error = format!("0ns h1 lose-pauses {share}").parse::<Fault>();
            assert!(
                error.unwrap_err().contains("expected 0.01% to 100%"),
                "{share}"
            );
        }
    }

    #[test]
    fn a_fault_names_a_node_and_a_port_of_the_topology() {
        let check = |text: &str, ipv6| text.parse::<Fault>().unwrap().check(&fabric(), ipv6);
        check("0ns tor0 down h1 1us", false).unwrap();
        check("0ns tor0 lose-pauses 1%", true).unwrap();
        for (text, ipv6, expected) in [
            (
                "0ns tor1 restart 1us",
                false,
                "there is no node `tor1` in rack:hosts=2",
            ),
            (
                "0ns tor0 down h7 1us",
                false,
                "no port `h7` on tor0: expected one of h0, h1",
            ),
            (
                "0ns tor0 restart 1us",
                true,
                "with --ipv6 no port can be down",
            ),
        ] {
            let error = check(text, ipv6).unwrap_err();
            assert!(crate::error::is_usage(&error));
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn a_port_that_comes_up_gets_its_routes_and_neighbours_back() {
        let script = script("1us tor0 down h1 50us");
        let at = |text: &str| {
            script
                .find(text)
                .unwrap_or_else(|| panic!("{text}: {script}"))
        };
        let order = [
            "ip route save dev h1 >",
            "ip link set h1 down",
            "sleep 0.100000000",
            "ip link set h1 up",
            "ip neighbour replace",
            "ip route restore <",
        ];
        assert!(
            order.windows(2).all(|pair| at(pair[0]) < at(pair[1])),
            "{script}"
        );
        assert!(
            !script.contains("h0") && !script.contains("tc "),
            "{script}"
        );
    }

    #[test]
    fn a_restarted_node_gets_the_qdiscs_of_its_scheme() {
        let script = script("1us tor0 restart 50us");
        for port in ["h0", "h1"] {
            for text in [
                format!("ip link set {port} down"),
                format!("tc qdisc del dev {port} root"),
                format!("tc qdisc add dev {port} root handle 1: wire rate 50mbit delay 2ms"),
                format!("tc qdisc add dev {port} parent 1: handle 10: bfc rate 50mbit"),
                format!("ip link set {port} up"),
            ] {
                assert_eq!(script.matches(&text).count(), 1, "{text}: {script}");
            }
        }
    }

    #[test]
    fn pauses_are_lost_at_every_port() {
        let script = script("0ns tor0 lose-pauses 5%");
        for port in ["h0", "h1"] {
            for (preference, protocol) in [(1, "0x88b5"), (2, "0x8808")] {
                let filter = format!(
                    "tc filter add dev {port} ingress pref {preference} protocol {protocol} matchall action pass random netrand drop 20\n"
                );
                assert!(script.contains(&filter), "{script}");
            }
        }
    }

    #[test]
    fn a_script_that_fails_or_does_not_end_is_an_error() {
        let running = |command: &str| {
            let mut shell = Command::new("sh");
            let mut running = Running::default();
            let started = running.start("it".to_owned(), shell.args(["-c", command]));
            started.unwrap();
            running
        };
        running("exit 0").end(Duration::from_secs(60)).unwrap();
        let failed = running("echo why >&2; exit 3").end(Duration::from_secs(60));
        let said = failed.unwrap_err().to_string();
        assert!(
            said.starts_with("it: ") && said.ends_with(": why"),
            "{said}"
        );
        let endless = running("exec sleep 1000").end(Duration::from_millis(20));
        assert_eq!(endless.unwrap_err().to_string(), "it: it does not end");
    }

    #[test]
    fn a_script_with_much_output_does_not_block() {
        // Much more than the 64 KiB of a pipe that nobody reads.
        const MUCH: &str = "head -c 1000000 /dev/zero";
        let of = |script: String| {
            let mut running = Running::default();
            let mut shell = Command::new("sh");
            let started = running.start("it".to_owned(), shell.args(["-c", &script]));
            started.unwrap();
            running.end(Duration::from_secs(60))
        };
        of(MUCH.to_owned()).unwrap();
        of(format!("{MUCH} >&2")).unwrap();
        let failed = of(format!("{MUCH}; {MUCH} >&2; exit 4")).unwrap_err();
        let said = failed.to_string();
        assert!(said.contains("exit status: 4") && said.len() > 1_000_000);
    }
}
