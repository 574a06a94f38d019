// SPDX-License-Identifier: MIT OR Apache-2.0

//! Custom nodes and links, in TOML:
//!
//! ```toml
//! name = "two racks"              # optional
//! hosts = ["h0", "h1", "h2"]      # they send and receive, in this order
//! switches = ["tor0", "tor1"]     # they forward; optional
//! rate = "10gbit"                 # of links that don't say theirs; optional
//! delay = "200ns"                 # likewise; 0ns if neither says it
//!
//! [[link]]
//! ends = ["h0", "tor0"]
//! delay = "2700ns"
//!
//! [[link]]
//! ends = ["tor0", "tor1"]
//! rate = "40gbit"
//! # …
//! ```
//!
//! A switch's layer is its name without the digits at its end. A node must not have a name with
//! another meaning: for a resolver (`1`, `localhost`), for Linux (`lo`, `sit0`), or for weft
//! (`hosts`, a layer). The hosts of switch N (the first switch they have a link to) have the
//! addresses of switch N mod 256 in pod N / 256, see [`crate::address`], and form a group with the
//! switch's name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use serde::Deserialize;

use crate::address::{Address, MAX_HOSTS_PER_SWITCH};
use weft_words::near::meant;

use crate::error::Error;
use crate::topology::{Builder, MAX_NAME, MAX_NODES, Topology, Wire};
use crate::units::{Delay, Rate};

/// Nodes and links, checked: names are unique, ends exist, and all hosts can reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    name: String,
    hosts: Vec<String>,
    switches: Vec<String>,
    links: Vec<FileLink>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileLink {
    /// Indices into the hosts followed by the switches.
    ends: [usize; 2],
    wire: Wire,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default = "unnamed")]
    name: String,
    hosts: Vec<String>,
    #[serde(default)]
    switches: Vec<String>,
    rate: Option<String>,
    delay: Option<String>,
    #[serde(default)]
    link: Vec<ContentLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentLink {
    ends: Vec<String>,
    rate: Option<String>,
    delay: Option<String>,
}

fn unnamed() -> String {
    "file".to_owned()
}

impl File {
    pub(crate) fn parse(content: &str) -> Result<Self, Error> {
        let content: Content = toml::from_str(content).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = content.bytes().take(start).filter(|&b| b == b'\n').count() + 1;
            let sentence = error.message().replace('\n', ", ");
            Error::new(format!("The topology file's line {line}: {sentence}"))
        })?;
        check_title(&content.name)?;
        check_names(&content)?;
        let links = content
            .link
            .iter()
            .enumerate()
            .map(|(i, link)| read_link(&content, link).map_err(|e| in_link(i, link, &e)))
            .collect::<Result<_, _>>()?;
        let Content {
            name,
            hosts,
            switches,
            ..
        } = content;
        let file = Self {
            name,
            hosts,
            switches,
            links,
        };
        file.check_ports()?;
        file.check_reachable()?;
        file.addresses()?;
        Ok(file)
    }

    fn node_name(&self, node: usize) -> &str {
        self.hosts
            .iter()
            .chain(&self.switches)
            .nth(node)
            .map_or("", String::as_str)
    }

    fn is_host(&self, node: usize) -> bool {
        node < self.hosts.len()
    }

    fn nodes(&self) -> usize {
        self.hosts.len() + self.switches.len()
    }

    fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut neighbours = vec![Vec::new(); self.nodes()];
        for &FileLink { ends: [a, b], .. } in &self.links {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        neighbours
    }

    /// Parallel links get numbered ports; the resulting names must be valid, too.
    fn check_ports(&self) -> Result<(), Error> {
        for (node, peers) in self.neighbours().into_iter().enumerate() {
            let mut links = BTreeMap::<usize, usize>::new();
            for &peer in &peers {
                *links.entry(peer).or_default() += 1;
            }
            let mut names = BTreeSet::new();
            for (&peer, &count) in &links {
                let peer = self.node_name(peer);
                let numbered = (0..count).map(|i| format!("{peer}-{i}"));
                let ports: Vec<String> = if count == 1 {
                    vec![peer.to_owned()]
                } else {
                    numbered.collect()
                };
                for port in ports {
                    let node = self.node_name(node);
                    if port.len() > MAX_NAME {
                        return Err(Error::new(format!(
                            "{node} has {count} links to {peer}, so one port is \"{port}\", which \
                             is longer than {MAX_NAME} characters; give {peer} a shorter name"
                        )));
                    }
                    if !names.insert(port.clone()) {
                        return Err(Error::new(format!(
                            "Two ports of {node} would be \"{port}\", for it has parallel links; \
                             give one of its neighbours another name"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_reachable(&self) -> Result<(), Error> {
        let neighbours = self.neighbours();
        if let Some(alone) = (0..self.nodes()).find(|&node| neighbours[node].is_empty()) {
            return Err(Error::new(format!(
                "{} has no link; add a [[link]] with it, or leave it out",
                self.node_name(alone)
            )));
        }
        // From every host, because hosts do not forward: a chain of hosts is no path.
        for from in 0..self.hosts.len() {
            let mut reached = vec![false; self.nodes()];
            reached[from] = true;
            let mut queue = VecDeque::from([from]);
            while let Some(node) = queue.pop_front() {
                if node != from && self.is_host(node) {
                    continue;
                }
                for &next in &neighbours[node] {
                    if !std::mem::replace(&mut reached[next], true) {
                        queue.push_back(next);
                    }
                }
            }
            if let Some(to) = (0..self.hosts.len()).find(|&host| !reached[host]) {
                return Err(Error::new(format!(
                    "{} cannot reach {} through switches; add links that connect them",
                    self.node_name(from),
                    self.node_name(to)
                )));
            }
            // Every host whose only link leads to a switch reaches the same nodes as that switch.
            if neighbours
                .iter()
                .take(self.hosts.len())
                .all(|peers| peers.len() == 1 && !self.is_host(peers[0]))
            {
                break;
            }
        }
        Ok(())
    }

    /// The addresses of all nodes, in order.
    fn addresses(&self) -> Result<Vec<Address>, Error> {
        let neighbours = self.neighbours();
        let mut taken = BTreeMap::<usize, u32>::new();
        let mut addresses = Vec::with_capacity(self.nodes());
        for peers in neighbours.iter().take(self.hosts.len()) {
            let first_switch = peers.iter().find(|&&peer| !self.is_host(peer));
            // Hosts that have links only to other hosts have a block of their own, after the
            // switches'.
            let block = first_switch.map_or(self.switches.len(), |node| node - self.hosts.len());
            let index = taken.entry(block).or_default();
            if *index == MAX_HOSTS_PER_SWITCH {
                let at = match first_switch {
                    Some(&node) => self.node_name(node),
                    None => "host to host links",
                };
                return Err(Error::new(format!(
                    "More than {MAX_HOSTS_PER_SWITCH} hosts at {at}; add switches and spread them"
                )));
            }
            addresses.push(Address::host(
                block as u32 / 256,
                block as u32 % 256,
                *index,
            ));
            *index += 1;
        }
        addresses
            .extend((0..self.switches.len() as u32).map(|i| Address::switch(i / 256, i % 256)));
        Ok(addresses)
    }

    pub(crate) fn topology(&self) -> Topology {
        // `parse` has refused files with too many nodes for the addresses.
        let addresses = self.addresses().unwrap_or_default();
        let mut b = Builder::new(self.name.clone());
        let (of_hosts, of_switches) = addresses.split_at(self.hosts.len());
        let mut ids = Vec::with_capacity(self.nodes());
        for (name, &address) in self.hosts.iter().zip(of_hosts) {
            ids.push(b.named_host(name.clone(), address));
        }
        for (name, &address) in self.switches.iter().zip(of_switches) {
            ids.push(b.named_switch(name.clone(), layer(name), address));
        }
        for &FileLink { ends: [x, y], wire } in &self.links {
            let (lower, upper) = if self.is_host(y) && !self.is_host(x) {
                (y, x)
            } else {
                (x, y)
            };
            let layer = if self.is_host(lower) {
                "host"
            } else {
                "fabric"
            };
            b.link(layer, ids[lower], ids[upper], wire);
        }
        for (name, switch) in self.switches.iter().zip(of_switches) {
            let same_block =
                |host: &Address| (host.pod, host.switch) == (switch.pod, switch.switch);
            let hosts: Vec<_> = of_hosts
                .iter()
                .zip(&ids)
                .filter(|(a, _)| same_block(a))
                .map(|(_, &id)| id)
                .collect();
            if !hosts.is_empty() {
                b.group(name, &hosts);
            }
        }
        b.build(None)
    }
}

fn in_link(index: usize, link: &ContentLink, error: &Error) -> Error {
    Error::new(format!(
        "Link {} ({}): {error}",
        index + 1,
        link.ends.join(" to ")
    ))
}

fn check_title(name: &str) -> Result<(), Error> {
    let bad = |c: char| c.is_control() || c == '"' || c == '\\';
    if name.is_empty() || name.chars().count() > 64 || name.contains(bad) {
        return Err(Error::new(format!(
            "The name {name:?} must be 1 to 64 characters without quotes, backslashes and control \
             characters; choose another"
        )));
    }
    Ok(())
}

/// Names that have another meaning, and the system that uses them.
const TAKEN: [(&[&str], &str); 4] = [
    (
        &["lo", "all", "default"],
        "it would name network interfaces, where Linux uses it for something else",
    ),
    (
        &[
            "sit0",
            "tunl0",
            "gre0",
            "gretap0",
            "erspan0",
            "ip_vti0",
            "ip6_vti0",
            "ip6tnl0",
            "ip6gre0",
            "bonding_masters",
        ],
        "it would name network interfaces, and a module of Linux takes that name in every namespace",
    ),
    (
        &[
            "localhost",
            "localhost4",
            "localhost6",
            "ip6-localhost",
            "ip6-loopback",
            "ip6-localnet",
            "ip6-mcastprefix",
            "ip6-allnodes",
            "ip6-allrouters",
            "ip6-allhosts",
            "broadcasthost",
        ],
        "/etc/hosts has it for something else",
    ),
    (&KINDS, "weft means nodes of a kind by it"),
];
/// Names that a scheme's `on` uses: the layer of all hosts, and words for kinds of nodes.
const KINDS: [&str; 5] = ["host", "hosts", "switches", "first-host", "last-host"];

/// Whether a resolver reads a name as an IPv4 address: a number in C's notation.
fn is_number(name: &str) -> bool {
    match name.strip_prefix("0x") {
        Some(digits) => digits.chars().all(|c| c.is_ascii_hexdigit()),
        None => name.chars().all(|c| c.is_ascii_digit()),
    }
}

/// A switch's layer: its name without the digits at its end.
fn layer(switch: &str) -> &str {
    switch.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Refuses a node that has the name of another layer.
fn check_layers(content: &Content) -> Result<(), Error> {
    let names = content.hosts.iter().chain(&content.switches);
    for name in names {
        let of = |other: &&String| *other != name && layer(other) == name;
        if let Some(other) = content.switches.iter().find(of) {
            return Err(Error::new(format!(
                "\"{name}\" cannot name a node, for it names the layer of switch \"{other}\"; rename one"
            )));
        }
    }
    if let Some(switch) = content
        .switches
        .iter()
        .find(|it| KINDS.contains(&layer(it)))
    {
        return Err(Error::new(format!(
            "\"{switch}\" cannot name a switch, for its layer would be \"{}\", by which weft means nodes of a \
             kind; choose another",
            layer(switch)
        )));
    }
    Ok(())
}

fn check_names(content: &Content) -> Result<(), Error> {
    if content.hosts.len() < 2 {
        return Err(Error::new(format!(
            "A fabric has 2 hosts or more, this has {}; name more in hosts = [\"h0\", \"h1\"]",
            content.hosts.len()
        )));
    }
    let nodes = content.hosts.len() + content.switches.len();
    if nodes > MAX_NODES {
        return Err(Error::new(format!(
            "{nodes} nodes are more than {MAX_NODES}; leave some out"
        )));
    }
    let mut seen = BTreeSet::new();
    for name in content.hosts.iter().chain(&content.switches) {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let start = |c: char| c.is_ascii_alphanumeric();
        if name.len() > MAX_NAME || !name.chars().all(good) || !name.starts_with(start) {
            return Err(Error::new(format!(
                "\"{name}\" cannot name a node: names are 1 to {MAX_NAME} of a-z, 0-9, _ and -, \
                 and begin with a letter or digit, for they name network interfaces too"
            )));
        }
        if let Some((_, of)) = TAKEN
            .iter()
            .find(|(taken, _)| taken.contains(&name.as_str()))
        {
            return Err(Error::new(format!(
                "\"{name}\" cannot name a node, for {of}; choose another"
            )));
        }
        if is_number(name) {
            return Err(Error::new(format!(
                "\"{name}\" cannot name a node, for programs such as ping read it as an IPv4 address; \
                 choose another, for example \"h{name}\""
            )));
        }
        let number = name.strip_prefix("tap").unwrap_or_default();
        if !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()) {
            return Err(Error::new(format!(
                "\"{name}\" cannot name a node, for weft gives network interfaces of machines such names; \
                 choose another"
            )));
        }
        if !seen.insert(name) {
            return Err(Error::new(format!(
                "Two nodes are named \"{name}\"; rename one"
            )));
        }
    }
    check_layers(content)
}

fn read_link(content: &Content, link: &ContentLink) -> Result<FileLink, Error> {
    let [a, b] = link.ends.as_slice() else {
        return Err(Error::new(format!(
            "a link has 2 ends, not {}; write ends = [\"h0\", \"tor0\"]",
            link.ends.len()
        )));
    };
    let names: Vec<&str> = content
        .hosts
        .iter()
        .chain(&content.switches)
        .map(String::as_str)
        .collect();
    let place =
        |name: &str| {
            names.iter().position(|&known| known == name).ok_or_else(|| {
            let meant = meant(name, &names);
            Error::new(format!(
                "there is no node \"{name}\"{meant}; add it to hosts or switches, or correct it"
            ))
        })
        };
    let ends = [place(a)?, place(b)?];
    if ends[0] == ends[1] {
        return Err(Error::new("both ends are the same node; name two"));
    }
    let rate = link
        .rate
        .as_ref()
        .or(content.rate.as_ref())
        .ok_or_else(|| {
            Error::new("it has no rate; write rate = \"10gbit\" in it, or once at the file's top")
        })?;
    let delay = link.delay.as_ref().or(content.delay.as_ref());
    let delay = delay.map_or(Ok(Delay::default()), |delay| delay.parse())?;
    Ok(FileLink {
        ends,
        wire: Wire {
            rate: rate.parse::<Rate>()?,
            delay,
        },
    })
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "name = \"{}\"", self.name)?;
        // Names contain no character that TOML or Rust escapes.
        writeln!(f, "hosts = {:?}", self.hosts)?;
        writeln!(f, "switches = {:?}", self.switches)?;
        for link in &self.links {
            let [a, b] = link.ends.map(|end| self.node_name(end));
            writeln!(f, "\n[[link]]\nends = [\"{a}\", \"{b}\"]")?;
            writeln!(
                f,
                "rate = \"{}\"\ndelay = \"{}\"",
                link.wire.rate, link.wire.delay
            )?;
        }
        Ok(())
    }
}
