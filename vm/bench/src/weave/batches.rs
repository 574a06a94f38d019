// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft's plan as files for `ip -batch` and `tc -batch`: the same work in the fewest processes.
//!
//! `weft up --dry-run` prints one process per line. Here all namespaces are one `ip -batch`, all
//! sysctls another (`netns exec` starts a sysctl for each node: iproute2 has no other way), and all
//! links a third. Each node then has one `tc -batch` and one `ip -batch`, because neither can
//! change the namespace.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::check::Node;

/// File names and contents; `up` and `down` are scripts for sh.
pub(crate) struct Batches {
    pub(crate) files: BTreeMap<String, String>,
    /// The hosts and switches, in the plan's order.
    pub(crate) nodes: Vec<Node>,
}

/// The commands in one namespace.
#[derive(Default)]
struct Content {
    sysctl: String,
    tc: String,
    ip: String,
    address: Option<Ipv4Addr>,
}

impl Batches {
    /// `script` is the output of `weft up --dry-run --testbed TESTBED`. Up to `shells` shells run
    /// in parallel where the order does not matter.
    ///
    /// # Errors
    /// If the script has an unknown kind of line, which would not be measured.
    pub(crate) fn new(script: &str, testbed: &str, shells: usize) -> Result<Self> {
        let mut order: Vec<&str> = Vec::new();
        let mut contents: BTreeMap<&str, Content> = BTreeMap::new();
        let mut links = String::new();
        // weft checks once which settings nodes would inherit from a tuned machine, and writes
        // nothing if the machine is not tuned. The script sets them on each node. Other tools do
        // not have to do this work either, so it is left out.
        let mut of_function = false;
        for line in script.lines() {
            of_function |= line == "untuned() {";
            if of_function {
                of_function = line != "}";
                continue;
            }
            let is_work = !line.is_empty() && !line.starts_with('#') && line != "set -e";
            if !is_work || line.starts_with("untuned ") {
                continue;
            }
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            match words[..] {
                ["ip", "netns", "add", namespace] => {
                    order.push(namespace);
                    contents.insert(namespace, Content::default());
                }
                ["ip", "netns", "exec", namespace, sysctl] => {
                    let content = known(&mut contents, namespace)?;
                    // iproute2's quotes have the same syntax as the shell's.
                    content.sysctl += &format!("netns exec {namespace} {sysctl}\n");
                }
                ["ip", "-n", namespace, "link", rest] if rest.starts_with("add ") => {
                    let end = rest.trim_start_matches("add ");
                    links += &format!("link add netns {namespace} {end}\n");
                }
                ["ip", "-n", namespace, object, rest] => {
                    let content = known(&mut contents, namespace)?;
                    content.ip += &format!("{object} {rest}\n");
                    if let Some(address) = rest.strip_prefix("add ").and_then(own_address) {
                        content.address.get_or_insert(address);
                    }
                }
                ["tc", "-n", namespace, object, rest] => {
                    known(&mut contents, namespace)?.tc += &format!("{object} {rest}\n");
                }
                _ => bail!("weft's plan has a line that is no ip, tc or sysctl command: `{line}`"),
            }
        }
        let mut nodes = Vec::new();
        for namespace in &order {
            let name = namespace.strip_prefix(&format!("weft-{testbed}-"));
            nodes.push(Node {
                name: name.context("a namespace is another testbed's")?.to_owned(),
                namespace: Path::new("/run/netns").join(namespace),
                address: contents[namespace].address,
            });
        }
        Ok(Self {
            files: files(&order, &contents, links, shells),
            nodes,
        })
    }
}

fn known<'a>(
    contents: &'a mut BTreeMap<&str, Content>,
    namespace: &str,
) -> Result<&'a mut Content> {
    contents
        .get_mut(namespace)
        .with_context(|| format!("weft's plan uses {namespace} before it is made"))
}

/// The address in `10.0.0.2/32 dev lo`, which follows `address add`.
fn own_address(rest: &str) -> Option<Ipv4Addr> {
    let (address, device) = rest.split_once("/32 ")?;
    (device == "dev lo").then(|| address.parse().ok())?
}

fn files(
    order: &[&str],
    contents: &BTreeMap<&str, Content>,
    links: String,
    shells: usize,
) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let each = |verb: &str| -> String {
        let lines = order.iter().map(|it| format!("netns {verb} {it}\n"));
        lines.collect()
    };
    files.insert("namespaces".into(), each("add"));
    files.insert("removal".into(), each("delete"));
    files.insert("links".into(), links);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (shell, part) in order.chunks(order.len().div_ceil(shells)).enumerate() {
        let sysctls = part.iter().map(|it| contents[it].sysctl.as_str()).collect();
        let name = format!("sysctls{shell}");
        first.push(format!("ip -batch {name}\n"));
        files.insert(name, sysctls);
        second.push(String::new());
        for namespace in part {
            let content = &contents[namespace];
            for (program, lines) in [("tc", &content.tc), ("ip", &content.ip)] {
                let name = format!("{namespace}.{program}");
                second[shell] += &format!("{program} -n {namespace} -batch {name}\n");
                files.insert(name, lines.clone());
            }
        }
    }
    let (first, second) = (at_a_time(&first), at_a_time(&second));
    let up = format!("set -e\nip -batch namespaces\n{first}ip -batch links\n{second}");
    files.insert("up".into(), up);
    files.insert("down".into(), "set -e\nip -batch removal\n".into());
    files
}

/// Runs all parts in parallel, each in its own shell; fails if one fails.
fn at_a_time(parts: &[String]) -> String {
    if let [part] = parts {
        return part.clone();
    }
    let mut text = "pids=\n".to_owned();
    for part in parts {
        text += &format!("(\n{part}) & pids=\"$pids $!\"\n");
    }
    text + "for pid in $pids; do wait $pid; done\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
#!/bin/sh
# rack:hosts=1, as testbed b
set -e
untuned() {
    ip netns exec \"$1\" sysctl -q -e -w net.ipv4.conf.all.forwarding=0 \\
        || :
}

# host h0
ip netns add weft-b-h0
untuned weft-b-h0
ip netns exec weft-b-h0 sysctl -q -w net.ipv4.ip_forward=1 'net.ipv4.tcp_rmem=1 2 3'

# tor tor0
ip netns add weft-b-tor0
ip netns exec weft-b-tor0 sysctl -q -w net.ipv4.ip_forward=1

# links
ip -n weft-b-tor0 link add name h0 index 3 type veth peer name tor0 index 2 netns weft-b-h0

# host h0
tc -n weft-b-h0 qdisc add dev tor0 root handle 5: tbf rate 10mbit burst 15000 latency 12ms
ip -n weft-b-h0 link set dev tor0 up
ip -n weft-b-h0 address add 10.0.0.2/32 dev lo
ip -n weft-b-h0 address add fd77::2/128 dev lo nodad

# tor tor0
tc -n weft-b-tor0 qdisc add dev h0 root handle 5: tbf rate 10mbit burst 15000 latency 12ms
ip -n weft-b-tor0 link set dev h0 up
";

    #[test]
    fn every_command_of_the_plan_is_in_one_batch() {
        let Batches { files, nodes } = Batches::new(SCRIPT, "b", 1).unwrap();
        assert_eq!(
            files["up"],
            "set -e\nip -batch namespaces\nip -batch sysctls0\nip -batch links\n\
             tc -n weft-b-h0 -batch weft-b-h0.tc\nip -n weft-b-h0 -batch weft-b-h0.ip\n\
             tc -n weft-b-tor0 -batch weft-b-tor0.tc\nip -n weft-b-tor0 -batch weft-b-tor0.ip\n"
        );
        assert_eq!(
            files["links"],
            "link add netns weft-b-tor0 name h0 index 3 type veth peer name tor0 index 2 netns weft-b-h0\n"
        );
        assert_eq!(
            files["sysctls0"].lines().next().unwrap(),
            "netns exec weft-b-h0 sysctl -q -w net.ipv4.ip_forward=1 'net.ipv4.tcp_rmem=1 2 3'"
        );
        assert_eq!(
            files["removal"],
            "netns delete weft-b-h0\nnetns delete weft-b-tor0\n"
        );
        let batched = ["namespaces", "sysctls0", "links"]
            .into_iter()
            .map(str::to_owned);
        let batched = batched.chain(files.keys().filter(|name| name.contains('.')).cloned());
        let lines: usize = batched.map(|name| files[&name].lines().count()).sum();
        let commands = |line: &&str| line.starts_with("ip ") || line.starts_with("tc ");
        assert_eq!(lines, SCRIPT.lines().filter(commands).count());
        assert_eq!(nodes[0].name, "h0");
        assert_eq!(nodes[0].address, Some([10, 0, 0, 2].into()));
    }

    #[test]
    fn two_shells_share_the_nodes_and_a_failure_of_either_counts() {
        let Batches { files, .. } = Batches::new(SCRIPT, "b", 2).unwrap();
        assert_eq!(files["sysctls1"].lines().count(), 1);
        let script = at_a_time(&["true\n".into(), "exit 3\n".into()]);
        let run = |script: &str| {
            let script = format!("set -e\n{script}echo done");
            let mut sh = std::process::Command::new("sh");
            sh.args(["-c", &script]).output().unwrap().status.code()
        };
        assert_eq!(run(&script), Some(3));
        assert_eq!(
            run(&at_a_time(&["true\n".into(), "true\n".into()])),
            Some(0)
        );
    }

    #[test]
    fn commands_that_cannot_be_measured_are_refused() {
        let error = Batches::new("weft-tag attach --dev x", "b", 1)
            .err()
            .unwrap();
        assert!(error.to_string().contains("`weft-tag attach --dev x`"));
    }
}
