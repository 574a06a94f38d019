// SPDX-License-Identifier: MIT OR Apache-2.0

//! Collectives: the rounds of communication of a training job, or of any program that computes in
//! steps.
//!
//! A flow begins when its sender has the data, that is, when the flows that bring the data have
//! ended ([`Predecessors`]); computation takes no time. A host begins its next round when it has
//! the result of the last one, whether or not other hosts have it. With N hosts and S bytes at
//! each:
//!
//! - **Ring all-reduce** (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for
//!   clusters of workstations", JPDC 2009): the bytes are cut into N parts. In each of 2(N - 1)
//!   steps, a host sends the next host the part that it received in the step before, one after the
//!   other as on one connection. Each host sends 2(N - 1)/N of S.
//! - **Tree all-reduce**: a reduction up a binary tree and a broadcast down again (R. Thakur, R.
//!   Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
//!   2005), not cut into parts. Host n's parent is host (n - 1)/2. A host sends all its bytes once
//!   both children's bytes have arrived.
//! - **All-to-all**: each host sends every other host a part, an Nth of S, all at once (the same
//!   paper, §4: for messages that are neither short nor long).
//! - **Replication** of stored data, one host to three. It is no collective, but proceeds in rounds
//!   as well. Each host writes blocks of S bytes, one after the other, to three other hosts that
//!   are drawn for each block. The first one passes the block on to the other two once it has the
//!   whole block: primary-copy replication (S. A. Weil et al., "RADOS: a scalable, reliable storage
//!   service for petabyte-scale storage clusters", PDSW 2007, §3). A block is written when all
//!   three hosts have it; TCP's acknowledgements stand for those of the service. In a round each
//!   host writes one block.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use weft_ebpf_common::sockopt::MAX_FLOW_SIZE;

use crate::error::{Error, Result, invalid};
use crate::predecessors::Predecessors;
use crate::quantity;
use crate::random::{self, Stream, below};

/// The kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All-reduce in a ring.
    Ring,
    /// All-reduce by a binary tree.
    Tree,
    /// Each host sends to each other host.
    AllToAll,
    /// Each host writes to three other hosts; the first of them forwards.
    Replicate,
}

/// Number of hosts that a block is written to.
const COPIES: usize = 3;

/// A collective, which is repeated. Its text form is `ring:64MB` or `ring:8x64MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The kind.
    pub kind: Kind,
    /// Number of hosts that take part, the first ones of the fabric; `None`: all.
    pub hosts: Option<u32>,
    /// Bytes at each host, or of each block that a host writes.
    pub bytes: u64,
}

impl FromStr for Collective {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unfit = || {
            invalid(format!(
                "collective {text}: expected ring, tree, all-to-all or replicate with a size, such as ring:64MB, or \
                 with a number of hosts, such as ring:8x64MB"
            ))
        };
        let Some((name, size)) = text.split_once(':') else {
            return unfit();
        };
        let kind = match name {
            "ring" => Kind::Ring,
            "tree" => Kind::Tree,
            "all-to-all" => Kind::AllToAll,
            "replicate" => Kind::Replicate,
            _ => return unfit(),
        };
        let (hosts, size) = match size.split_once('x') {
            Some((hosts, size)) => match hosts.parse() {
                Ok(hosts) => (Some(hosts), size),
                Err(_) => return unfit(),
            },
            None => (None, size),
        };
        Ok(Self {
            kind,
            hosts,
            bytes: quantity::bytes(size)?,
        })
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Ring => "ring",
            Kind::Tree => "tree",
            Kind::AllToAll => "all-to-all",
            Kind::Replicate => "replicate",
        };
        write!(f, "{name}:")?;
        if let Some(hosts) = self.hosts {
            write!(f, "{hosts}x")?;
        }
        write!(f, "{}B", self.bytes)
    }
}

/// A flow of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) size: u64,
    /// The flows before it, by their places among the collective's flows, from 0.
    pub(crate) after: Option<Predecessors>,
    /// The round that the flow is part of; for replication, the number of the block.
    pub(crate) round: u64,
}

/// A collective on a fabric.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    kind: Kind,
    hosts: u64,
    bytes: u64,
    /// Seed of the random choice of replicas.
    seed: u64,
}

impl Rounds {
    /// # Errors
    ///
    /// If the fabric has fewer hosts, too few hosts take part, or a flow has no bytes or too many.
    pub(crate) fn new(collective: &Collective, hosts: u32, seed: u64) -> Result<Self> {
        let Collective { kind, bytes, .. } = *collective;
        let part = collective.hosts.unwrap_or(hosts);
        if part > hosts {
            return invalid(format!(
                "collective {collective}: the fabric has {hosts} hosts"
            ));
        }
        if part < 2 {
            return invalid(format!(
                "collective {collective}: it needs at least two hosts"
            ));
        }
        let hosts = u64::from(part);
        if kind == Kind::Replicate && hosts <= COPIES as u64 {
            return invalid(format!(
                "collective {collective}: it needs at least four hosts: a writer and three copies"
            ));
        }
        if matches!(kind, Kind::Ring | Kind::AllToAll) && bytes < hosts {
            return invalid(format!(
                "collective {collective}: of {bytes} bytes not each of {hosts} hosts has one"
            ));
        }
        if !(1..=MAX_FLOW_SIZE).contains(&bytes) {
            return invalid(format!("collective {collective}: expected 1 byte to 1 TiB"));
        }
        Ok(Self {
            kind,
            hosts,
            bytes,
            seed,
        })
    }

    /// Number of flows in a round.
    pub(crate) fn flows(&self) -> u64 {
        match self.kind {
            Kind::Ring => 2 * (self.hosts - 1) * self.hosts,
            Kind::Tree => 2 * (self.hosts - 1),
            Kind::AllToAll => self.hosts * (self.hosts - 1),
            Kind::Replicate => self.hosts * COPIES as u64,
        }
    }

    /// Bytes of part `number`, of as many parts as there are hosts. Their sizes differ by at most
    /// 1.
    fn part(&self, number: u64) -> u64 {
        self.bytes / self.hosts + u64::from(number < self.bytes % self.hosts)
    }

    /// The size of the largest flow in bytes.
    pub(crate) fn largest(&self) -> u64 {
        match self.kind {
            Kind::Tree | Kind::Replicate => self.bytes,
            Kind::Ring | Kind::AllToAll => self.part(0),
        }
    }

    /// The flow at a place. It waits only for flows at earlier places.
    pub(crate) fn flow(&self, place: u64) -> Part {
        let (round, place) = (place / self.flows(), place % self.flows());
        match self.kind {
            Kind::Ring => self.ring(round, place),
            Kind::Tree => self.tree(round, place),
            Kind::AllToAll => self.all_to_all(round, place),
            Kind::Replicate => self.replicate(round, place),
        }
    }

    /// Step by step; within a step, host by host.
    fn ring(&self, round: u64, place: u64) -> Part {
        let n = self.hosts;
        let (step, src) = (place / n, place % n);
        let (first, between) = match src {
            0 => (0, n - 1),
            src => (src - 1, 1),
        };
        // The last step of the previous round brings the result.
        let steps = round * 2 * (n - 1) + step;
        let after = steps.checked_sub(1).map(|last| Predecessors {
            first: last * n + first,
            count: 2,
            step: between,
        });
        Part {
            src: src as u32,
            dst: ((src + 1) % n) as u32,
            size: self.part((src + 2 * n - step) % n),
            after,
            round,
        }
    }

    /// First the flows up the tree, the last host's first, so that the flows of a host's children
    /// come before its own and next to each other; then the flows down.
    fn tree(&self, round: u64, place: u64) -> Part {
        let n = self.hosts;
        let up = |host: u64| n - 1 - host;
        let down = |host: u64| n - 2 + host;
        let this = round * self.flows();
        let children = |host: u64| {
            let (first, last) = (2 * host + 1, (2 * host + 2).min(n - 1));
            (first < n).then(|| Predecessors {
                first: this + up(last),
                count: last - first + 1,
                step: 1,
            })
        };
        let goes_up = place < n - 1;
        let child = if goes_up {
            n - 1 - place
        } else {
            place + 2 - n
        };
        let parent = (child - 1) / 2;
        let after = match (goes_up, parent) {
            // A host without children has the result of the previous round when it has come down.
            (true, _) => children(child).or_else(|| {
                let before = this.checked_sub(self.flows())?;
                Some(Predecessors::one(before + down(child)))
            }),
            (false, 0) => children(0),
            (false, parent) => Some(Predecessors::one(this + down(parent))),
        };
        let (src, dst) = if goes_up {
            (child, parent)
        } else {
            (parent, child)
        };
        Part {
            src: src as u32,
            dst: dst as u32,
            size: self.bytes,
            after,
            round,
        }
    }

    /// Receiver by receiver, so that the flows that a host waits for are successive.
    fn all_to_all(&self, round: u64, place: u64) -> Part {
        let others = self.hosts - 1;
        let (dst, src) = (place / others, place % others);
        let src = src + u64::from(src >= dst);
        let before = round.checked_sub(1);
        Part {
            src: src as u32,
            dst: dst as u32,
            size: self.part(dst),
            after: before.map(|before| Predecessors {
                first: before * self.flows() + src * others,
                count: others,
                step: 1,
            }),
            round,
        }
    }

    /// Writer by writer; for each writer its own flow, then the two copies.
    fn replicate(&self, round: u64, place: u64) -> Part {
        let copies = COPIES as u64;
        let (writer, copy) = (place / copies, place % copies);
        let block = round * self.hosts + writer;
        let this = block * copies;
        let [first, others @ ..] = self.replicas_of(block, writer as u32);
        let (src, dst, after) = match copy.checked_sub(1) {
            None => {
                // The previous block is written once both copies are.
                let before = this.checked_sub(self.flows()).map(|before| Predecessors {
                    first: before + 1,
                    count: copies - 1,
                    step: 1,
                });
                (writer as u32, first, before)
            }
            Some(other) => (first, others[other as usize], Some(Predecessors::one(this))),
        };
        Part {
            src,
            dst,
            size: self.bytes,
            after,
            round: block,
        }
    }

    /// The hosts that store a block: three different hosts, none of them the writer.
    fn replicas_of(&self, block: u64, writer: u32) -> [u32; COPIES] {
        let hosts = NonZeroU32::new(self.hosts as u32).expect("there are more hosts than copies");
        let mut rng = random::stream(self.seed, Stream::Replicas);
        // Each block has its own part of the stream, so that its replicas do not depend on other
        // calls.
        rng.set_word_pos(u128::from(block) << 16);
        let mut replicas = [writer; COPIES];
        for place in 0..COPIES {
            replicas[place] = loop {
                let host = below(&mut rng, hosts);
                if host != writer && !replicas[..place].contains(&host) {
                    break host;
                }
            };
        }
        replicas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collective_is_read_and_written() {
        for text in [
            "ring:64000000B",
            "tree:8x1000B",
            "all-to-all:9B",
            "replicate:4B",
        ] {
            assert_eq!(text.parse::<Collective>().unwrap().to_string(), text);
        }
        let read: Collective = "ring:8x64MB".parse().unwrap();
        assert_eq!((read.hosts, read.bytes), (Some(8), 64_000_000));
        for text in ["ring", "rng:64MB", "ring:x64MB", "ring:-1x64MB", "ring:8x"] {
            let error = text.parse::<Collective>().unwrap_err().to_string();
            assert!(
                error.contains("such as") || error.contains("size"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_impossible_collective_is_refused_with_one_sentence() {
        let refused = |text: &str| {
            let collective: Collective = text.parse().unwrap();
            Rounds::new(&collective, 4, 1).unwrap_err().to_string()
        };
        assert!(refused("ring:5x64MB").ends_with("the fabric has 4 hosts"));
        assert!(refused("tree:1x64MB").ends_with("it needs at least two hosts"));
        assert!(refused("all-to-all:3B").contains("not each of 4 hosts has one"));
        assert!(refused("replicate:3x1MB").contains("it needs at least four hosts"));
    }
}
