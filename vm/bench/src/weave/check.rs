// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks that a tool built a fabric: distant hosts reach each other, every port has its shaper.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns};
use weft_build::base::process;

/// A host or switch.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// The path of its network namespace.
    pub(crate) namespace: PathBuf,
    pub(crate) address: Option<Ipv4Addr>,
}

/// After `up`, the ends of a link detect each other's carrier in the background.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends a datagram from one host to another and back.
///
/// # Errors
/// If none arrives within [`PATIENCE`].
pub(crate) fn reaches(from: &Node, to: &Node) -> Result<()> {
    let what = || format!("{} does not reach {}", from.name, to.name);
    let (sender, receiver) = (socket(from)?, socket(to)?);
    sender.connect(receiver.local_addr()?)?;
    let begun = Instant::now();
    let mut buffer = [0; 16];
    while begun.elapsed() < PATIENCE {
        sender.send(b"there").with_context(what)?;
        match receiver.recv_from(&mut buffer) {
            Ok((_, source)) => {
                receiver.send_to(b"back", source).with_context(what)?;
                sender.recv(&mut buffer).with_context(what)?;
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!(what())
}

/// A socket in the node's namespace.
fn socket(node: &Node) -> Result<UdpSocket> {
    let address = node.address.context("a host without an address")?;
    let socket = within(&node.namespace, || UdpSocket::bind((address, 0)))??;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok(socket)
}

/// Counts the qdiscs of this kind at the nodes' ports.
///
/// # Errors
/// If `tc` fails.
pub(crate) fn qdiscs(nodes: &[Node], kind: &str) -> Result<usize> {
    let prefix = format!("qdisc {kind} ");
    let mut count = 0;
    for node in nodes {
        let show = || process::capture(Command::new("tc").args(["qdisc", "show"]));
        let text = within(&node.namespace, show)??;
        count += text
            .lines()
            .filter(|line| line.starts_with(&prefix))
            .count();
    }
    Ok(count)
}

/// Runs `f` on a thread in a network namespace.
fn within<T: Send>(namespace: &Path, f: impl FnOnce() -> T + Send) -> Result<T> {
    let enter = || {
        let file = File::open(namespace)?;
        setns(file, CloneFlags::CLONE_NEWNET)?;
        anyhow::Ok(f())
    };
    let result = std::thread::scope(|scope| scope.spawn(enter).join());
    let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    result.with_context(|| format!("entering {}", namespace.display()))
}

/// Checks both for the fat-tree of switches with `k` ports.
///
/// # Errors
/// The first property that does not hold.
pub(crate) fn fat_tree(nodes: &[Node], k: u32, qdisc: Option<&str>) -> Result<()> {
    let last = format!("h{}", k.pow(3) / 4 - 1);
    let find = |name: &str| {
        let node = nodes.iter().find(|node| node.name == name);
        node.with_context(|| format!("there is no {name}"))
    };
    reaches(find("h0")?, find(&last)?)?;
    if let Some(kind) = qdisc {
        let (found, ports) = (qdiscs(nodes, kind)?, super::Size::of(k).links as usize * 2);
        ensure!(found == ports, "{found} of {ports} ports have a {kind}");
    }
    Ok(())
}
