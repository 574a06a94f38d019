// SPDX-License-Identifier: MIT OR Apache-2.0

//! Naive models of what a port does, written from the papers' sentences and not from the code under
//! test: every operation looks at the whole queue.

use anyhow::Result;
use weft_mechanisms::common::nla::Refusal;
use weft_mechanisms::pfabric::options::Config;

/// A packet as a queue sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) id: u64,
    /// Lower is more urgent.
    pub(crate) rank: u32,
    pub(crate) flow: u32,
    /// Bytes.
    pub(crate) len: u32,
}

/// pFabric's switch, "pFabric: Minimal Near-Optimal Datacenter Transport" (SIGCOMM 2013), §4.1.
#[derive(Clone, Debug)]
pub(crate) struct PFabric {
    config: Config,
    /// In the order of arrival.
    queue: Vec<Packet>,
    pub(crate) evicted: u64,
    pub(crate) evicted_bytes: u64,
    pub(crate) rejected: u64,
    pub(crate) rejected_bytes: u64,
    pub(crate) overtaken: u64,
    pub(crate) highest_backlog: u32,
    pub(crate) highest_backlog_bytes: u64,
}

impl PFabric {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            queue: Vec::new(),
            evicted: 0,
            evicted_bytes: 0,
            rejected: 0,
            rejected_bytes: 0,
            overtaken: 0,
            highest_backlog: 0,
            highest_backlog_bytes: 0,
        }
    }

    fn bytes(&self) -> u64 {
        self.queue.iter().map(|packet| u64::from(packet.len)).sum()
    }

    fn fits(&self, packets: usize, bytes: u64) -> bool {
        packets <= self.config.limit as usize
            && (self.config.limit_bytes == 0 || bytes <= u64::from(self.config.limit_bytes))
    }

    /// The least urgent packet, of several the latest.
    fn worst(&self) -> Option<usize> {
        (0..self.queue.len()).max_by_key(|&i| (self.queue[i].rank, i))
    }

    fn evict(&mut self, index: usize) {
        let packet = self.queue.remove(index);
        self.evicted += 1;
        self.evicted_bytes += u64::from(packet.len);
    }

    /// "… if the buffer is full, the packet with the lowest priority is dropped", be it the
    /// arriving one: it is, if all less urgent ones together do not leave it enough room. No packet
    /// is dropped in vain. Returns whether the arriving packet was queued.
    pub(crate) fn enqueue(&mut self, arriving: Packet) -> bool {
        let kept = || {
            self.queue
                .iter()
                .filter(|packet| packet.rank <= arriving.rank)
        };
        let bytes: u64 = kept().map(|packet| u64::from(packet.len)).sum();
        if !self.fits(kept().count() + 1, bytes + u64::from(arriving.len)) {
            self.rejected += 1;
            self.rejected_bytes += u64::from(arriving.len);
            return false;
        }
        while !self.fits(self.queue.len() + 1, self.bytes() + u64::from(arriving.len)) {
            let Some(worst) = self.worst() else { break };
            self.evict(worst);
        }
        self.queue.push(arriving);
        self.highest_backlog = self.highest_backlog.max(self.queue.len() as u32);
        self.highest_backlog_bytes = self.highest_backlog_bytes.max(self.bytes());
        true
    }

    /// "… we dequeue the earliest packet of the flow that has the highest-priority packet."
    pub(crate) fn dequeue(&mut self) -> Option<Packet> {
        let urgent = (0..self.queue.len()).min_by_key(|&i| (self.queue[i].rank, i))?;
        let chosen = if self.config.starvation_prevention {
            let flow = self.queue[urgent].flow;
            self.queue.iter().position(|packet| packet.flow == flow)?
        } else {
            urgent
        };
        self.overtaken += u64::from(chosen != urgent);
        Some(self.queue.remove(chosen))
    }

    /// A change of the limits keeps the most urgent packets.
    fn change(&mut self, config: Config) {
        self.config = config;
        while !self.fits(self.queue.len(), self.bytes()) {
            let Some(worst) = self.worst() else { break };
            self.evict(worst);
        }
    }
}

/// A port: pFabric's queue behind a wire of `rate` bytes/s. Times are in ns.
#[derive(Clone, Debug)]
pub(crate) struct PortModel {
    pub(crate) queue: PFabric,
    rate: u64,
    /// When the packet on the wire has left.
    busy_until: Option<u64>,
    /// What was sent, in order.
    pub(crate) sent: Vec<u64>,
}

impl PortModel {
    pub(crate) fn new(config: Config, rate: u64) -> Self {
        Self {
            queue: PFabric::new(config),
            rate,
            busy_until: None,
            sent: Vec::new(),
        }
    }

    fn send(&mut self, start: u64) {
        self.busy_until = self.queue.dequeue().map(|packet| {
            self.sent.push(packet.id);
            start + (u64::from(packet.len) * 1_000_000_000).div_ceil(self.rate)
        });
    }

    /// Does what happens up to `now`.
    pub(crate) fn advance(&mut self, now: u64) {
        while let Some(end) = self.busy_until {
            if end > now {
                break;
            }
            self.send(end);
        }
    }

    /// A packet arrives. Returns whether it was taken.
    pub(crate) fn arrive(&mut self, now: u64, packet: Packet) -> bool {
        self.advance(now);
        let taken = self.queue.enqueue(packet);
        if self.busy_until.is_none() {
            self.send(now);
        }
        taken
    }

    /// The queue's configuration becomes what `update` makes of it.
    pub(crate) fn change(
        &mut self,
        now: u64,
        update: impl FnOnce(Config) -> Result<Config, Refusal>,
    ) -> Result<()> {
        self.advance(now);
        let config = update(self.queue.config);
        self.queue
            .change(config.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?);
        Ok(())
    }

    /// When the wire chooses its next packet.
    pub(crate) fn next_choice(&self) -> Option<u64> {
        self.busy_until
    }
}
