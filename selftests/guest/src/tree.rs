// SPDX-License-Identifier: MIT OR Apache-2.0

//! Trees of stock qdiscs on a device, with places for those under test.

use anyhow::Result;

use crate::netlink::Handle;
use crate::port::{Port, rate};

/// Classless parents and filters first; `{c}` is the handle of the classful qdisc. Flows with an
/// even number go to the first class, the others to the second.
const FILTERS: [&str; 2] = [
    "filter add dev {v} parent {c} protocol ip prio 1 u32 match u16 0 1 at 20 flowid {c}1",
    "filter add dev {v} parent {c} protocol ip prio 2 u32 match u16 1 1 at 20 flowid {c}2",
];

const TBF: &str = "qdisc add dev {v} root handle 1: tbf rate 10mbit burst 1600 limit 1000000";
/// Faster than any of its parents.
const FAST_TBF: &str = "tbf rate 1gbit burst 20000 limit 1000000";
pub(crate) const HTB: [&str; 2] = [
    "class add dev {v} parent {c} classid {c}1 htb rate 4mbit ceil 10mbit burst 1600 cburst 1600",
    "class add dev {v} parent {c} classid {c}2 htb rate 6mbit ceil 10mbit burst 1600 cburst 1600",
];
pub(crate) const HFSC: [&str; 2] = [
    "class add dev {v} parent {c} classid {c}1 hfsc sc rate 4mbit ul rate 4mbit",
    "class add dev {v} parent {c} classid {c}2 hfsc sc rate 6mbit ul rate 6mbit",
];
/// As [`HFSC`], but that no class is real-time: one that is takes the first packet out of what is
/// in it as soon as it comes.
const HFSC_SHARES: [&str; 2] = [
    "class add dev {v} parent {c} classid {c}1 hfsc ls rate 4mbit ul rate 4mbit",
    "class add dev {v} parent {c} classid {c}2 hfsc ls rate 6mbit ul rate 6mbit",
];
pub(crate) const DRR: [&str; 2] = [
    "class add dev {v} parent {c} classid {c}1 drr quantum 1514",
    "class add dev {v} parent {c} classid {c}2 drr quantum 3028",
];
pub(crate) const QFQ: [&str; 2] = [
    "class add dev {v} parent {c} classid {c}1 qfq weight 1 maxpkt 2048",
    "class add dev {v} parent {c} classid {c}2 qfq weight 4 maxpkt 2048",
];

pub(crate) const ETS: &str = "ets bands 2 quanta 1514 3028";
/// They pass on all that the qdisc under test takes: no packet is dropped or marked early.
pub(crate) const RED: &str =
    "red limit 10000000 min 5000000 max 9000000 avpkt 1000 burst 5000 bandwidth 10mbit";
pub(crate) const SFB: &str = "sfb limit 10000 max 9000 target 8000";
pub(crate) const NETEM: &str = "netem delay 2ms limit 10000";
/// Two traffic classes with two queues each; of 10 ms each has half.
pub(crate) const TAPRIO: &str = "taprio num_tc 2 map 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 queues 2@0 2@2 \
    base-time 0 sched-entry S 1 5000000 sched-entry S 2 5000000 clockid CLOCK_TAI";
const MQPRIO: &str = "mqprio num_tc 2 map 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 queues 2@0 2@2 hw 0";

/// What stands between the device and the qdiscs under test.
pub(crate) struct Tree {
    pub(crate) port: Port,
    /// Where the qdiscs under test go.
    pub(crate) leaves: Vec<Handle>,
}

impl Tree {
    pub(crate) fn new(port: Port, leaves: &[Handle]) -> Self {
        Self {
            port,
            leaves: leaves.to_vec(),
        }
    }

    /// A classful qdisc `handle` with two classes at `parent`.
    pub(crate) fn classful(
        port: Port,
        parent: &str,
        handle: u16,
        kind: &str,
        classes: &[&str],
    ) -> Result<Self> {
        let c = format!("{handle:x}:");
        port.tc(&format!("qdisc add dev {{v}} {parent} handle {c} {kind}"))?;
        for command in classes.iter().chain(&FILTERS) {
            port.tc(&command.replace("{c}", &c))?;
        }
        Ok(Self::new(
            port,
            &[Handle::new(handle, 1), Handle::new(handle, 2)],
        ))
    }

    pub(crate) fn tbf() -> Result<Self> {
        let port = Port::new()?;
        port.tc(TBF)?;
        Ok(Self::new(port, &[Handle::new(1, 1)]))
    }

    pub(crate) fn wire() -> Result<Self> {
        let mut port = Port::new()?;
        port.add_wire(Handle::ROOT, Handle::new(1, 0), &rate(10_000_000))?;
        Ok(Self::new(port, &[Handle::new(1, 1)]))
    }

    pub(crate) fn under_tbf(kind: &str, classes: &[&str]) -> Result<Self> {
        Self::classful(Self::tbf()?.port, "parent 1:1", 2, kind, classes)
    }

    pub(crate) fn under_wire(kind: &str, classes: &[&str]) -> Result<Self> {
        Self::classful(Self::wire()?.port, "parent 1:1", 2, kind, classes)
    }

    pub(crate) fn root(kind: &str, classes: &[&str]) -> Result<Self> {
        Self::classful(Port::new()?, "root", 1, kind, classes)
    }

    /// A tbf in each class of an hfsc, which leaves what is inside where it is until it sends it.
    pub(crate) fn tbf_under_hfsc() -> Result<Self> {
        let mut tree = Self::root("hfsc", &HFSC_SHARES)?;
        tree.raise(|port, leaf, handle| {
            let place = format!("parent {leaf:?} handle {handle:?}");
            port.tc(&format!("qdisc add dev {{v}} {place} {FAST_TBF}"))
                .map(drop)
        })?;
        Ok(tree)
    }

    /// A qdisc with a class for each of four transmit queues.
    pub(crate) fn of_queues(kind: &str) -> Result<Self> {
        let port = Port::with_queues(4)?;
        port.tc(&format!("qdisc add dev {{v}} root handle 1: {kind}"))?;
        let leaves: Vec<Handle> = (1..=4).map(|queue| Handle::new(1, queue)).collect();
        Ok(Self::new(port, &leaves))
    }

    pub(crate) fn mq() -> Result<Self> {
        Self::of_queues("mq")
    }

    /// A qdisc with one class under a tbf, which is what keeps packets in it.
    pub(crate) fn single_under_tbf(kind: &str) -> Result<Self> {
        let mut tree = Self::tbf()?;
        tree.raise(|port, leaf, handle| {
            let place = format!("parent {leaf:?} handle {handle:?}");
            port.tc(&format!("qdisc add dev {{v}} {place} {kind}"))
                .map(drop)
        })?;
        Ok(tree)
    }

    /// One more storey: a qdisc with one class, `:1`, at each leaf. Those classes are the leaves
    /// from now on.
    pub(crate) fn raise(
        &mut self,
        add: impl FnMut(&mut Port, Handle, Handle) -> Result<()>,
    ) -> Result<()> {
        let handles = self.populate(add)?;
        self.leaves = handles.iter().map(|handle| Handle(handle.0 | 1)).collect();
        Ok(())
    }

    /// Puts a qdisc at each leaf; returns their handles, which are those of no other storey.
    pub(crate) fn populate(
        &mut self,
        mut add: impl FnMut(&mut Port, Handle, Handle) -> Result<()>,
    ) -> Result<Vec<Handle>> {
        let below = self.leaves.iter().filter(|&&leaf| leaf != Handle::ROOT);
        let below = below.map(|leaf| leaf.major()).max();
        let first = (below.unwrap_or(0) | 0xf) + 1;
        let mut handles = Vec::new();
        for (number, &leaf) in (first..).zip(&self.leaves) {
            let handle = Handle::new(number, 0);
            add(&mut self.port, leaf, handle)?;
            handles.push(handle);
        }
        Ok(handles)
    }
}

/// A way to make a tree.
pub(crate) type Make = fn() -> Result<Tree>;

/// The parents that any qdisc must get along with, by name.
pub(crate) const TREES: [(&str, Make); 14] = [
    ("the device", || {
        Ok(Tree::new(Port::new()?, &[Handle::ROOT]))
    }),
    ("mq", Tree::mq),
    ("tbf", Tree::tbf),
    ("htb", || Tree::root("htb", &HTB)),
    ("hfsc", || Tree::root("hfsc", &HFSC)),
    ("prio under tbf", || Tree::under_tbf("prio", &[])),
    ("drr under tbf", || Tree::under_tbf("drr", &DRR)),
    ("qfq under tbf", || Tree::under_tbf("qfq", &QFQ)),
    ("wire", Tree::wire),
    ("ets under tbf", || Tree::under_tbf(ETS, &[])),
    ("netem under tbf", || Tree::single_under_tbf(NETEM)),
    ("red under tbf", || Tree::single_under_tbf(RED)),
    ("multiq", || Tree::of_queues("multiq")),
    ("mqprio", || Tree::of_queues(MQPRIO)),
];

/// As [`TREES`]: those of which the kernel in user mode has not all kinds.
pub(crate) const TREES_OF_THE_STOCK_KERNEL: [(&str, Make); 2] = [
    ("sfb under tbf", || Tree::single_under_tbf(SFB)),
    ("taprio", || Tree::of_queues(TAPRIO)),
];
