// SPDX-License-Identifier: MIT OR Apache-2.0

//! The setting of most tests: two namespaces and a link; the near end has the qdisc under test.

use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_mechanisms::bfc;
use weft_mechanisms::common::mechanism;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::pfabric::options as pfabric;
use weft_mechanisms::wire::options as wire;

use crate::netlink::{Handle, Nest, Netlink, Qdisc, QdiscRequest, Verb, Veth};
use crate::packets::{Receiver, Sender};
use weft_ktap::Namespace;

/// Name and number of the link, the same at both ends.
pub(crate) const LINK: &str = "v0";
pub(crate) const INDEX: u32 = 100;

pub(crate) const NEAR_IP: [u8; 4] = [10, 0, 0, 1];
pub(crate) const FAR_IP: [u8; 4] = [10, 0, 0, 2];
pub(crate) const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// How long the kernel may be busy with what was set up or taken down just now.
pub(crate) const QUIET: Duration = Duration::from_millis(200);

/// Two namespaces, `near` and `far`, with a pair of veth between them: up, with addresses, knowing
/// each other, so that no packet is on the link but those of the test.
pub(crate) struct Port {
    // Before the namespaces: a socket must not outlive the test.
    pub(crate) netlink: Netlink,
    pub(crate) far_netlink: Netlink,
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
}

impl Port {
    /// A link with one transmit queue.
    pub(crate) fn new() -> Result<Self> {
        Self::with_queues(1)
    }

    /// A link with several transmit queues.
    pub(crate) fn with_queues(tx_queues: u32) -> Result<Self> {
        let (near, far) = (Namespace::without_ipv6()?, Namespace::without_ipv6()?);
        let mut netlink = Netlink::open(&near)?;
        let mut far_netlink = Netlink::open(&far)?;
        let end = |mac| Veth {
            name: LINK.to_owned(),
            index: INDEX,
            mac,
            tx_queues,
        };
        netlink.add_veth(&end(NEAR_MAC), &end(FAR_MAC), &far)?;
        netlink.add_address(INDEX, NEAR_IP)?;
        far_netlink.add_address(INDEX, FAR_IP)?;
        netlink.set_up(INDEX, true)?;
        far_netlink.set_up(INDEX, true)?;
        netlink.add_neighbour(INDEX, FAR_IP, FAR_MAC)?;
        far_netlink.add_neighbour(INDEX, NEAR_IP, NEAR_MAC)?;
        Ok(Self {
            netlink,
            far_netlink,
            near,
            far,
        })
    }

    /// A link whose near end sends without delay, packets as they are on the wire, and whose far
    /// end acknowledges each, by way of netem (its words). The receive window is never what limits
    /// a flow.
    pub(crate) fn acknowledging(netem: &str) -> Result<Self> {
        let port = Self::new()?;
        for end in [&port.near, &port.far] {
            end.ip(&format!("link set {LINK} gso_max_segs 1"))?;
            end.ip(&format!(
                "route change 10.0.0.0/24 dev {LINK} quickack 1 initrwnd 1000"
            ))?;
        }
        port.far
            .write_sysctl("net/ipv4/tcp_rmem", "4096 4194304 6291456")?;
        let words = format!("qdisc add dev {LINK} root handle 1: netem limit 10000 {netem}");
        port.far.command("tc", &words)?;
        Ok(port)
    }

    /// The same. Both ends have a congestion control, so the far end reports each mark.
    pub(crate) fn reporting_marks(congestion_control: &str, netem: &str) -> Result<Self> {
        let port = Self::acknowledging(netem)?;
        port.far.ip(&format!(
            "route change 10.0.0.0/24 dev {LINK} congctl {congestion_control} quickack 1 initrwnd 1000"
        ))?;
        Ok(port)
    }

    /// Adds, changes or replaces a qdisc at the near end, with the payload of its options.
    pub(crate) fn qdisc(
        &mut self,
        verb: Verb,
        kind: &str,
        parent: Handle,
        handle: Handle,
        options: Vec<u8>,
    ) -> Result<()> {
        let options = Some(options);
        self.netlink.qdisc(
            verb,
            &QdiscRequest {
                index: INDEX,
                parent,
                handle,
                kind,
                options,
            },
        )
    }

    /// Adds `pfabric`.
    pub(crate) fn add_pfabric(
        &mut self,
        parent: Handle,
        handle: Handle,
        options: &pfabric::Options,
    ) -> Result<()> {
        self.qdisc(
            Verb::Add,
            pfabric::KIND,
            parent,
            handle,
            Nest::of(|nest| options.put(nest)),
        )
        .context("adding pfabric")
    }

    /// Adds `wire`.
    pub(crate) fn add_wire(
        &mut self,
        parent: Handle,
        handle: Handle,
        options: &wire::Options,
    ) -> Result<()> {
        self.qdisc(
            Verb::Add,
            wire::KIND,
            parent,
            handle,
            Nest::of(|nest| options.put(nest)),
        )
        .context("adding wire")
    }

    /// Adds `bfc`.
    pub(crate) fn add_bfc(
        &mut self,
        parent: Handle,
        handle: Handle,
        options: &bfc::options::Options,
    ) -> Result<()> {
        let options = Nest::of(|nest| options.put(nest));
        self.qdisc(Verb::Add, bfc::KIND, parent, handle, options)
            .context("adding bfc")
    }

    /// Adds `wire` as root `1:` and `bfc` as its child `2:`.
    pub(crate) fn add_wire_and_bfc(
        &mut self,
        wire: &wire::Options,
        bfc: &bfc::options::Options,
    ) -> Result<()> {
        self.add_wire(Handle::ROOT, Handle::new(1, 0), wire)?;
        self.add_bfc(Handle::new(1, 1), Handle::new(2, 0), bfc)
    }

    /// Adds `wire` as root `1:` and `pfabric` as its child `2:`, the port of the design.
    pub(crate) fn add_wire_and_pfabric(
        &mut self,
        wire: &wire::Options,
        pfabric: &pfabric::Options,
    ) -> Result<()> {
        self.add_wire(Handle::ROOT, Handle::new(1, 0), wire)?;
        self.add_pfabric(Handle::new(1, 1), Handle::new(2, 0), pfabric)
    }

    /// Runs `tc` at the near end and returns what it prints. `{v}` stands for the link's name.
    pub(crate) fn tc(&self, arguments: &str) -> Result<String> {
        let output = self.try_tc(arguments)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "tc {arguments}: {}: {}",
            output.status,
            stderr.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `tc` at the near end, which may fail.
    pub(crate) fn try_tc(&self, arguments: &str) -> Result<Output> {
        let arguments = arguments.replace("{v}", LINK);
        let words = arguments.split_whitespace();
        self.near
            .enter(|| Command::new("tc").args(words).output())?
            .context("starting tc")
    }

    /// The payload of options of a kind's example: tc knows its words, the kernel the attributes.
    /// The near end has no qdisc, before and after.
    pub(crate) fn options_of(&mut self, qdisc: &mechanism::Qdisc) -> Result<Vec<u8>> {
        const HANDLE: Handle = Handle::new(2, 0);
        let mechanism::Qdisc { kind, example, .. } = qdisc;
        self.tc(&format!(
            "qdisc add dev {{v}} root handle 2: {kind} {example}"
        ))?;
        let options = self.find(HANDLE)?.options;
        self.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
        Ok(options)
    }

    /// The qdiscs at the near end.
    pub(crate) fn qdiscs(&mut self) -> Result<Vec<Qdisc>> {
        self.netlink.qdiscs(INDEX)
    }

    /// The one qdisc with a handle.
    pub(crate) fn find(&mut self, handle: Handle) -> Result<Qdisc> {
        let found = self.netlink.find_qdisc(INDEX, handle)?;
        found.with_context(|| format!("there is no qdisc {handle:?}"))
    }

    /// Configuration and statistics of a `pfabric`.
    pub(crate) fn pfabric(
        &mut self,
        handle: Handle,
    ) -> Result<(pfabric::Config, weft_mechanisms::pfabric::stats::Stats)> {
        let qdisc = self.find(handle)?;
        ensure!(qdisc.kind == pfabric::KIND, "{handle:?} is {}", qdisc.kind);
        let config = pfabric::Config::parse(&qdisc.options);
        let config = config.map_err(|refusal| anyhow::anyhow!("{:?}", refusal.message))?;
        Ok((
            config,
            weft_mechanisms::pfabric::stats::Stats::from_bytes(&qdisc.app)
                .context("short statistics")?,
        ))
    }

    /// Statistics of a `bfc`.
    pub(crate) fn bfc(&mut self, handle: Handle) -> Result<bfc::stats::Stats> {
        let qdisc = self.find(handle)?;
        ensure!(qdisc.kind == bfc::KIND, "{handle:?} is {}", qdisc.kind);
        bfc::stats::Stats::from_bytes(&qdisc.app).context("short statistics")
    }

    /// Configuration and statistics of a `wire`.
    pub(crate) fn wire(
        &mut self,
        handle: Handle,
    ) -> Result<(wire::Config, weft_mechanisms::wire::stats::Stats)> {
        let qdisc = self.find(handle)?;
        ensure!(qdisc.kind == wire::KIND, "{handle:?} is {}", qdisc.kind);
        let config = wire::Config::parse(&qdisc.options);
        let config = config.map_err(|refusal| anyhow::anyhow!("{:?}", refusal.message))?;
        Ok((
            config,
            weft_mechanisms::wire::stats::Stats::from_bytes(&qdisc.app)
                .context("short statistics")?,
        ))
    }

    /// Waits until no qdisc at the near end holds a packet, as far as its count is right.
    pub(crate) fn drain(&mut self, patience: Duration) -> Result<Vec<Qdisc>> {
        const STEP: Duration = Duration::from_millis(50);
        let mut waited = Duration::ZERO;
        loop {
            let qdiscs = self.qdiscs()?;
            if qdiscs.iter().all(is_empty) {
                return Ok(qdiscs);
            }
            ensure!(waited < patience, "not drained in {patience:?}: {qdiscs:?}");
            std::thread::sleep(STEP);
            waited += STEP;
        }
    }

    /// A sender of crafted packets at the near end.
    pub(crate) fn sender(&self) -> Result<Sender> {
        Sender::open(&self.near, INDEX)
    }

    /// A receiver of crafted packets at the far end.
    pub(crate) fn receiver(&self) -> Result<Receiver> {
        Receiver::open(&self.far)
    }
}

/// Whether a qdisc counts no packet. taprio is not asked: it never stops counting a packet that its
/// child refuses (`taprio_enqueue_one()`), whatever the child is.
pub(crate) fn is_empty(qdisc: &Qdisc) -> bool {
    qdisc.kind == "taprio" || (qdisc.qlen == 0 && qdisc.backlog == 0)
}

/// Options of a wire with a rate only, in bit/s.
pub(crate) fn rate(bits: u64) -> wire::Options {
    wire::Options {
        rate: Some(bits / 8),
        ..wire::Options::default()
    }
}

/// Options of a pfabric with a limit in packets only.
pub(crate) fn limit(packets: u32) -> pfabric::Options {
    pfabric::Options {
        limit: Some(packets),
        ..pfabric::Options::default()
    }
}

/// Options of a bfc with a threshold only, in bytes.
pub(crate) fn threshold(bytes: u32) -> bfc::options::Options {
    bfc::options::Options {
        th: Some(bytes),
        ..bfc::options::Options::default()
    }
}
