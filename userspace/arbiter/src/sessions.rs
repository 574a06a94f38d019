// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbiter's end of all sessions, what is found to be faulty, and when a batch is due.
//!
//! # What a datagram may cost
//!
//! Each step is cheaper than the next one, and bounded:
//!
//! 1. The source: an endpoint's address, and a port below 1024, which an unprivileged process
//!    cannot use.
//! 2. The header's form ([`Header::read`]).
//! 3. A quota of the endpoint for datagrams from another port than its session's: before any hash.
//! 4. The proof of the header, then the check of the whole packet
//!    ([`session`](weft_mechanisms::fastpass::session)).
//! 5. Only then its content. Of a genuine endpoint's reports, too, only so many are read.
//!
//! A datagram that fails step 4 is answered by a RESET, to the port that it came from, within
//! another quota.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::Serialize;
use weft_mechanisms::common::xorshift::Xorshift32;
use weft_mechanisms::fastpass::address::Addresses;
use weft_mechanisms::fastpass::frame::{Entry, Header, MAX_SIZE};
use weft_mechanisms::fastpass::session::{Demands, Received, Secret, Session};
use weft_mechanisms::heap::Heap;

use crate::fabric::{Component, Fabric};
use crate::faults::{Fault, Faults, Times};
use crate::own::{self, Debt};
use crate::quota::Quota;
use crate::settings::{Settings, UNPRIVILEGED};
use crate::stages::{Order, Reserved, Stages, Timeslot};

/// Timeouts that a trial takes at least: some of endpoints' reports.
const TRIAL: u64 = 8;

/// Of an endpoint, in the time of a timeout: datagrams from another port than its session's that
/// are hashed.
const STRANGERS: u32 = 256;
/// RESETs to it.
const RESETS: u32 = 16;
/// Its reports that are read.
const REPORTS: u32 = 64;

/// What is counted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    /// Batches allocated.
    pub batches: u64,
    /// Of these, such as were allocated later than the lead before they began; and such as were
    /// ordered in time of a [`pipeline`](crate::pipeline), and came of it later than half of the
    /// lead before they began.
    pub late_batches: u64,
    /// Timeslots that went by, while there was demand, before a batch could begin.
    pub skipped_timeslots: u64,
    /// Packets that were given a timeslot.
    pub allocated: u64,
    /// Of these, such as were not wanted any more, as their endpoint had begun anew.
    pub unwanted: u64,
    /// Packets of endpoints that were heeded.
    pub heard: u64,
    /// Packets to endpoints, of all kinds.
    pub said: u64,
    /// Of these, RESETs.
    pub resets: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Packets that were none of the protocol.
    pub malformed: u64,
    /// Packets from unknown or spoofed sources, or from a port that needs no privilege.
    pub foreign: u64,
    /// Packets from other ports than a session's that were over the quota, and were dropped unread.
    pub unread: u64,
    /// Packets under no session's nonce.
    pub unsynchronised: u64,
    /// Bytes hashed to authenticate packets and to write RESETs.
    pub hashed_bytes: u64,
    /// Requests refused: for oneself, for somebody unknown, for more than may be outstanding.
    pub refused: u64,
    /// Of these, such as found no room on their way to allocation, where that is a thread of its
    /// own.
    #[serde(skip_serializing_if = "is_none")]
    pub crowded: u64,
    /// Timeslots that the arbiter's host was not given, as its own packets take them: to send in,
    /// and to receive in.
    pub reserved: [u64; 2],
    /// Timeslots that are wanted now.
    pub wanted: u64,
    /// Packets that were allocated and given no path, as what is left of the fabric had no room:
    /// they wait for another timeslot.
    pub pathless: u64,
    /// What endpoints said of other endpoints and paths.
    pub reported: u64,
    /// Of this, what was not heeded: of nobody, of the future, out of date, over the quota, of more
    /// than is kept.
    pub unheeded: u64,
    /// Packets that endpoints say were lost, on paths that were not avoided.
    pub lost: u64,
}

/// Whether there is none of something, so that figures are silent of it.
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// What an endpoint is to the arbiter.
struct Peer {
    session: Session<Heap>,
    /// The port of its session; 0 before it has one.
    port: u16,
    strangers: Quota,
    resets: Quota,
    reports: Quota,
    /// Timeslots that it wants and was not given.
    wanted: u64,
    /// Whether it is among those that are to be told something.
    is_listed: bool,
}

/// What a session asks for.
struct Ask<'a> {
    source: u16,
    stages: &'a mut dyn Stages,
    wanted: &'a mut u64,
    now: u64,
    faults: &'a mut Faults,
    quota: &'a mut Quota,
    random: &'a mut Xorshift32,
    /// Whether the packet's reports are within the quota, once that was asked.
    is_within: Option<bool>,
    /// Reports, and those that were not heeded.
    reported: [u64; 2],
}

impl Demands for Ask<'_> {
    fn request(&mut self, stream: u16, slots: u32) -> bool {
        let Ok(few) = u16::try_from(slots) else {
            return false;
        };
        let is_taken = self.stages.request(self.source, stream, few);
        *self.wanted += match is_taken {
            true => u64::from(slots),
            false => 0,
        };
        is_taken
    }

    fn forget(&mut self) {
        self.stages.forget(self.source);
        *self.wanted = 0;
        self.faults.forget(self.source);
    }

    fn report(&mut self, time: u64, entry: Entry) {
        let (quota, random) = (&mut *self.quota, &mut *self.random);
        let is_within = *self
            .is_within
            .get_or_insert_with(|| quota.take(self.now, random));
        let heeded = is_within && self.faults.report(self.now, self.source, time, entry);
        let [reported, unheeded] = &mut self.reported;
        *reported += 1;
        *unheeded += u64::from(!heeded);
    }
}

/// The arbiter's end of all sessions.
pub(crate) struct Sessions {
    settings: Settings,
    secret: Secret,
    random: Xorshift32,
    faults: Faults,
    peers: Vec<Peer>,
    /// Whom something is to be told.
    listed: Vec<u16>,
    /// RESETs that are to be sent: where to, to which endpoint, and the cookie that it repeats.
    resets: Vec<(SocketAddrV4, u16, u64)>,
    /// The first timeslot of no batch that was ordered.
    next: u64,
    wanted: u64,
    /// When all sessions are looked at for what is to be said again.
    sweep_at: u64,
    /// What its own packets took of its host's link: what it said, and what it heard.
    debts: [Debt; 2],
    counters: Counters,
}

impl Sessions {
    /// Without sessions. The secret is another one each time.
    pub(crate) fn new(settings: Settings, secret: Secret) -> Self {
        let count = settings.addresses.count() as u16;
        let Secret([seed, _]) = secret;
        let peers = (0..count).map(|endpoint| {
            let streams = count.saturating_mul(settings.classes);
            let Ok(session) = Session::new(endpoint, streams, settings.timeout);
            Peer {
                session,
                port: 0,
                strangers: Quota::new(STRANGERS, settings.timeout),
                resets: Quota::new(RESETS, settings.timeout),
                reports: Quota::new(REPORTS, settings.timeout),
                wanted: 0,
                is_listed: false,
            }
        });
        Self {
            settings,
            secret,
            random: Xorshift32::new(seed as u32),
            faults: Faults::new(
                Fabric::new(&settings.addresses, settings.ways),
                Times {
                    settle: settings.timeout,
                    trial: settings.timeout.saturating_mul(TRIAL),
                },
            ),
            peers: peers.collect(),
            listed: Vec::new(),
            resets: Vec::new(),
            next: 0,
            wanted: 0,
            sweep_at: 0,
            debts: [Debt::default(); 2],
            counters: Counters::default(),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let hashed = self.peers.iter().map(|peer| peer.session.hashed());
        Counters {
            wanted: self.wanted,
            hashed_bytes: hashed.sum(),
            lost: self.faults.lost(),
            ..self.counters
        }
    }

    pub(crate) fn faults(&self) -> &[Fault] {
        self.faults.found()
    }

    /// What is to be avoided then.
    pub(crate) fn keep_faults(&mut self, found: &[Fault]) -> &[Component] {
        self.faults.keep(found);
        self.faults.avoided()
    }

    pub(crate) fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// What is to be avoided from now on, if a fault was found.
    pub(crate) fn judge(&mut self, now: u64) -> Option<&[Component]> {
        self.faults.judge(now)?;
        Some(self.faults.avoided())
    }

    /// Processes a datagram; hands on what it asks for.
    pub(crate) fn receive(
        &mut self,
        now: u64,
        from: SocketAddrV4,
        bytes: &[u8],
        stages: &mut dyn Stages,
    ) {
        let [_, heard] = &mut self.debts;
        heard.add(bytes.len());
        let is_privileged = from.port() < UNPRIVILEGED || self.settings.any_port;
        let endpoint = self.settings.addresses.endpoint((*from.ip()).into());
        let Some(endpoint) = endpoint.filter(|_| is_privileged) else {
            self.counters.foreign += 1;
            return;
        };
        let Ok(header) = Header::read(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let peer = &mut self.peers[usize::from(endpoint)];
        let is_stranger = from.port() != peer.port;
        if is_stranger && !peer.strangers.take(now, &mut self.random) {
            self.counters.unread += 1;
            return;
        }
        let before = peer.wanted;
        let mut ask = Ask {
            source: endpoint,
            stages,
            wanted: &mut peer.wanted,
            now,
            faults: &mut self.faults,
            quota: &mut peer.reports,
            random: &mut self.random,
            is_within: None,
            reported: [0; 2],
        };
        let received = peer.session.receive(now, header, &self.secret, &mut ask);
        let [reported, unheeded] = ask.reported;
        self.counters.reported += reported;
        self.counters.unheeded += unheeded;
        self.wanted = self.wanted - before + peer.wanted;
        match received {
            Received::Malformed => self.counters.malformed += 1,
            Received::Foreign => self.counters.foreign += 1,
            Received::Unsynchronised { cookie } => {
                self.counters.unsynchronised += 1;
                if peer.resets.take(now, &mut self.random) {
                    self.resets.push((from, endpoint, cookie));
                }
            }
            Received::Heeded { refused, is_first } => {
                self.counters.heard += 1;
                self.counters.sessions += u64::from(is_first);
                self.counters.refused += u64::from(refused);
                peer.port = from.port();
                self.list(endpoint);
            }
        }
    }

    fn list(&mut self, endpoint: u16) {
        let peer = &mut self.peers[usize::from(endpoint)];
        if !peer.is_listed {
            peer.is_listed = true;
            self.listed.push(endpoint);
        }
    }

    /// When the next batch is to be ordered, at the latest; `None` while nobody wants anything.
    pub(crate) fn batch_at(&self) -> Option<u64> {
        let begin = self.next.saturating_mul(self.settings.timeslot);
        (self.wanted > 0).then(|| begin.saturating_sub(self.settings.lead))
    }

    /// When something else is due.
    pub(crate) fn next_event(&self) -> u64 {
        let judged = self.faults.next_event().unwrap_or(u64::MAX);
        judged.min(self.sweep_at)
    }

    /// The next batch that can be told in time.
    pub(crate) fn order(&mut self, now: u64) -> Order {
        let Settings {
            timeslot,
            lead,
            batch,
            ..
        } = self.settings;
        // What is nearer cannot be told in time.
        let earliest = now.saturating_add(lead).div_ceil(timeslot);
        // Timers are a little late, and it is better to be as late as they are than to leave
        // timeslots out: up to half of the lead.
        let latest = now.saturating_add(lead / 2).div_ceil(timeslot);
        let first = match self.next {
            next if next >= earliest => next,
            next if next >= latest => {
                self.counters.late_batches += 1;
                next
            }
            next => {
                // Not after nobody wanted anything.
                if next + batch as u64 > latest {
                    self.counters.skipped_timeslots += earliest - next;
                }
                earliest
            }
        };
        let skipped = first - self.next;
        self.next = first + batch as u64;
        self.counters.batches += 1;
        Order {
            first,
            skipped,
            is_late: first < earliest,
            reserved: self.reserve(),
        }
    }

    /// Room for its own packets on its host's link.
    fn reserve(&mut self) -> Option<Reserved> {
        let Settings {
            own,
            batch,
            timeslot,
            lead,
            ..
        } = self.settings;
        let counts = self.debts.each_mut().map(|debt| debt.take(batch));
        let endpoint = own?;
        // Where in a batch the next ones are told of.
        let told = (lead / timeslot) as usize % batch;
        let [to_send, to_receive] = counts;
        let to_send = own::together(to_send, batch - 1 - told, batch);
        let to_receive = own::spread(to_receive, batch);
        for (sum, count) in self.counters.reserved.iter_mut().zip(counts) {
            *sum += count as u64;
        }
        Some(Reserved {
            endpoint,
            to_send,
            to_receive,
        })
    }

    /// Notes what came of a timeslot. Who has no room for more is told what he was given so far.
    pub(crate) fn give(
        &mut self,
        now: u64,
        timeslot: Timeslot<'_>,
        send: &mut impl FnMut(SocketAddrV4, &[u8]),
    ) {
        let mut pathless = timeslot.pathless.iter().peekable();
        let packets = timeslot.packets.iter().zip(timeslot.paths);
        for (place, (packet, path)) in packets.enumerate() {
            let (source, stream) = (packet.source(), packet.stream(self.settings.classes));
            if pathless.next_if_eq(&&place).is_some() {
                self.counters.pathless += 1;
                continue;
            }
            self.counters.allocated += 1;
            if timeslot.is_over.get(usize::from(source)) == Some(&true) {
                self.counters.unwanted += 1;
                continue;
            }
            let peer = &mut self.peers[usize::from(source)];
            self.wanted -= 1;
            peer.wanted -= 1;
            let mut given = peer.session.give(timeslot.number, stream, *path);
            if !given {
                // The packet under way is full, if there is one.
                tell(
                    self.settings.addresses,
                    source,
                    peer,
                    now,
                    (&mut self.counters, &mut self.debts[0]),
                    send,
                );
                given = peer.session.give(timeslot.number, stream, *path);
            }
            self.counters.unwanted += u64::from(!given);
            if given && !peer.is_listed {
                peer.is_listed = true;
                self.listed.push(source);
            }
        }
    }

    /// Sees to what is to be said again.
    pub(crate) fn sweep(&mut self, now: u64) {
        if self.sweep_at > now {
            return;
        }
        self.sweep_at = now + self.settings.timeout / 2;
        for endpoint in 0..self.peers.len() as u16 {
            let session = &self.peers[usize::from(endpoint)].session;
            if session.next_poll(now).is_some_and(|at| at <= now) {
                self.list(endpoint);
            }
        }
    }

    /// Says what there is to say.
    pub(crate) fn poll(&mut self, now: u64, mut send: impl FnMut(SocketAddrV4, &[u8])) {
        for (to, endpoint, cookie) in self.resets.drain(..) {
            let mut bytes = [0; MAX_SIZE];
            let session = &mut self.peers[usize::from(endpoint)].session;
            let len = session.reset(&self.secret, cookie, &mut bytes);
            self.counters.said += 1;
            self.counters.resets += 1;
            self.debts[0].add(len);
            send(to, &bytes[..len]);
        }
        for endpoint in self.listed.drain(..) {
            let peer = &mut self.peers[usize::from(endpoint)];
            peer.is_listed = false;
            let addresses = self.settings.addresses;
            tell(
                addresses,
                endpoint,
                peer,
                now,
                (&mut self.counters, &mut self.debts[0]),
                &mut send,
            );
        }
    }
}

/// Says to an endpoint what there is to say.
fn tell(
    addresses: Addresses,
    endpoint: u16,
    peer: &mut Peer,
    now: u64,
    (counters, debt): (&mut Counters, &mut Debt),
    send: &mut impl FnMut(SocketAddrV4, &[u8]),
) {
    let Some(address) = addresses.address(endpoint).map(Ipv4Addr::from) else {
        return;
    };
    let mut bytes = [0; MAX_SIZE];
    while let Some(len) = peer.session.poll(now, &mut bytes) {
        let bytes = &bytes[..len];
        counters.said += 1;
        debt.add(len);
        send(SocketAddrV4::new(address, peer.port), bytes);
    }
}
