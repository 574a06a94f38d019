// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbiter's end of all sessions, the faults found, and when a batch is due.
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
//! 5. Only then its content. Even of a genuine endpoint's reports, only a limited number is read.
//!
//! A request that comes too late for a batch may take [`leftovers`](crate::leftovers) of it, which
//! is bounded as well.
//!
//! A datagram that fails step 4 is answered by a RESET, to the port that it came from, within
//! another quota.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use serde::Serialize;
use weft_mechanisms::common::xorshift::Xorshift32;
use weft_mechanisms::fastpass::frame::{Entry, Header, MAX_SIZE};
use weft_mechanisms::fastpass::session::{Demands, Has, Received, Secret, Session};
use weft_mechanisms::heap::Heap;

use crate::ahead::Ahead;
use crate::fabric::{Component, Fabric};
use crate::faults::{Fault, Faults, Times};
use crate::leftovers::{self, Leftovers};
use crate::own::{self, Link};
use crate::place;
use crate::quota::Quota;
use crate::settings::{Settings, UNPRIVILEGED};
use crate::stages::{Order, Reserved, Stages, Timeslot};

/// The fewest timeouts in a trial: several of the endpoints' reports.
const TRIAL: u64 = 8;

/// Per endpoint and timeout: datagrams from a port other than the session's that are hashed.
const STRANGERS: u32 = 256;
/// Per endpoint and timeout: RESETs to it.
const RESETS: u32 = 16;
/// Per endpoint and timeout: its reports that are read.
const REPORTS: u32 = 64;

/// The counters.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    /// Batches allocated.
    pub batches: u64,
    /// Of these, batches allocated with less than seven eighths of the lead remaining before they
    /// began (a timer is always a little late); and batches of a [`pipeline`](crate::pipeline) that
    /// were ordered in time, but completed with less than half of the lead remaining.
    pub late_batches: u64,
    /// Timeslots skipped, while there was demand, before a batch could begin.
    pub skipped_timeslots: u64,
    /// Packets given a timeslot.
    pub allocated: u64,
    /// Of these, packets given a timeslot of a batch that was already allocated, or of none, when
    /// their request came.
    pub leftover: u64,
    /// Of the allocated, packets no longer wanted, because their endpoint had begun a new session.
    pub unwanted: u64,
    /// Packets accepted from endpoints.
    pub heard: u64,
    /// Packets to endpoints, of all kinds.
    pub said: u64,
    /// Of these, RESETs.
    pub resets: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Packets that were not valid in the protocol.
    pub malformed: u64,
    /// Packets from unknown or spoofed sources, or from a port that needs no privilege.
    pub foreign: u64,
    /// Packets from ports other than a session's that were over the quota, and were dropped unread.
    pub unread: u64,
    /// Packets under no session's nonce.
    pub unsynchronised: u64,
    /// Bytes hashed to authenticate packets and to write RESETs.
    pub hashed_bytes: u64,
    /// Requests refused: for the endpoint itself, for an unknown endpoint, for more than may be
    /// outstanding.
    pub refused: u64,
    /// Of these, requests that found no room on their way to allocation, if that is a separate
    /// thread.
    #[serde(skip_serializing_if = "is_none")]
    pub crowded: u64,
    /// Timeslots kept free on the link of the arbiter's host for its own packets: to send in, and
    /// to receive in.
    pub reserved: [u64; 2],
    /// Timeslots that are wanted now.
    pub wanted: u64,
    /// Packets that were allocated and given no path, because the rest of the fabric had no room:
    /// they wait for another timeslot.
    pub pathless: u64,
    /// Entries about other endpoints and paths in endpoints' reports.
    pub reported: u64,
    /// Of these, ignored entries: about unknown endpoints, from the future, out of date, over the
    /// quota, beyond the number stored.
    pub unheeded: u64,
    /// Packets that endpoints report as lost, on paths that were not avoided.
    pub lost: u64,
}

/// Whether a count is 0, so that figures omit it.
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// The arbiter's state of an endpoint.
struct Peer {
    session: Session<Heap>,
    /// The port of its session; 0 before it has one.
    port: u16,
    strangers: Quota,
    resets: Quota,
    reports: Quota,
    /// Timeslots requested and not given.
    wanted: u64,
    /// Whether it is listed for a message, and whether its timeslots cannot wait for others.
    is_listed: bool,
    is_hurried: bool,
}

/// A leftover timeslot that has to be sent to its endpoint.
struct Late {
    source: u16,
    stream: u16,
    timeslot: u64,
    path: u8,
}

/// A session's requests.
struct Ask<'a> {
    source: u16,
    /// The number of endpoints, and of their classes of urgency.
    endpoints: usize,
    classes: u16,
    /// The endpoint that gets no leftovers, if any.
    own: Option<u16>,
    leftovers: &'a mut Leftovers,
    /// The timeslots that may be left over.
    range: Range<u64>,
    tries: u32,
    late: &'a mut Vec<Late>,
    ahead: &'a mut Ahead,
    /// Timeslots of a batch.
    batch: u64,
    /// The first timeslot of the next batch.
    next: u64,
    /// The first timeslot that a batch could have if it were ordered now.
    earliest: u64,
    stages: &'a mut dyn Stages,
    wanted: &'a mut u64,
    now: u64,
    faults: &'a mut Faults,
    quota: &'a mut Quota,
    random: &'a mut Xorshift32,
    /// Whether the packet's reports are within the quota, once that was checked.
    is_within: Option<bool>,
    /// Entries of reports, and the ignored ones among them.
    reported: [u64; 2],
}

impl Ask<'_> {
    /// Finds leftovers for a stream that is owed nothing.
    fn find_leftovers(&mut self, stream: u16, slots: u16) {
        let (source, destination) = (self.source, stream / self.classes);
        // The timeslots of its link that are kept free for the arbiter's packets are not known
        // here.
        let is_own = [source, destination].map(Some).contains(&self.own);
        if is_own || place(self.endpoints, source, destination).is_err() {
            return;
        }
        let late = &mut *self.late;
        let found = |timeslot, path| {
            late.push(Late {
                source,
                stream,
                timeslot,
                path,
            });
        };
        let most = slots.min(leftovers::MOST);
        let pair = (source, destination);
        self.leftovers
            .find(pair, &self.range, most, &mut self.tries, found);
    }
}

impl Demands for Ask<'_> {
    fn request(&mut self, stream: u16, slots: u32, has: Has) -> bool {
        let Ok(few) = u16::try_from(slots) else {
            return false;
        };
        let before = self.late.len();
        // A stream with timeslots that were allocated ahead does not wait.
        let is_supplied = has.until >= self.earliest.saturating_add(self.batch);
        if has.owed == 0 && !is_supplied {
            self.find_leftovers(stream, few);
        }
        let found = self.late.len() - before;
        let rest = few - found as u16;
        if rest > 0 && !self.stages.request(self.source, stream, rest) {
            self.late.truncate(before);
            return false;
        }
        *self.wanted += u64::from(rest);
        let late = self.late[before..].iter().map(|late| late.timeslot);
        let until = late.fold(has.until.max(self.earliest), u64::max);
        if rest > 0 && has.owed == 0 && until.saturating_add(self.batch) < self.next {
            self.ahead.wait(self.now);
        }
        let destination = stream / self.classes;
        for late in &self.late[before..] {
            self.leftovers
                .take(late.timeslot, late.source, destination, late.path);
        }
        true
    }

    fn forget(&mut self) {
        let source = self.source;
        self.late.retain(|late| late.source != source);
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
    /// The endpoints with a message to send.
    listed: Vec<u16>,
    /// RESETs to send: the destination, the endpoint, and the cookie that it repeats.
    resets: Vec<(SocketAddrV4, u16, u64)>,
    /// The first timeslot after the last ordered batch, and after the last one whose result is
    /// known.
    next: u64,
    known: u64,
    /// The first timeslot of the first batch. Endpoints may have earlier ones from another arbiter.
    first: Option<u64>,
    ahead: Ahead,
    /// The first timeslot of batches that has not been sent to its endpoints.
    unsent: Option<u64>,
    leftovers: Leftovers,
    /// Leftovers that have to be sent to their endpoints.
    late: Vec<Late>,
    wanted: u64,
    /// When all sessions are checked for messages to repeat.
    sweep_at: u64,
    /// The use of its host's link by its own packets.
    link: Link,
    counters: Counters,
}

impl Sessions {
    /// Without sessions. The secret must be different each time.
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
                is_hurried: false,
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
            known: 0,
            first: None,
            ahead: Ahead::new(settings.timeslot, settings.batch as u64, settings.ahead),
            unsent: None,
            leftovers: Leftovers::new(&settings),
            late: Vec::new(),
            wanted: 0,
            sweep_at: 0,
            link: Link::default(),
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

    /// Keeps found faults; returns the components to avoid.
    pub(crate) fn keep_faults(&mut self, found: &[Fault]) -> &[Component] {
        self.faults.keep(found);
        self.avoid()
    }

    pub(crate) fn clear_faults(&mut self) {
        self.faults.clear();
        self.avoid();
    }

    /// Returns the components to avoid from now on, if a fault was found.
    pub(crate) fn judge(&mut self, now: u64) -> Option<&[Component]> {
        self.faults.judge(now)?;
        Some(self.avoid())
    }

    /// Leftovers avoid what faults make other packets avoid; returns these components.
    fn avoid(&mut self) -> &[Component] {
        let avoided = self.faults.avoided();
        self.leftovers.avoid(avoided);
        avoided
    }

    /// Processes a datagram; passes on its requests.
    pub(crate) fn receive(
        &mut self,
        now: u64,
        from: SocketAddrV4,
        bytes: &[u8],
        stages: &mut dyn Stages,
    ) {
        self.link.heard(bytes.len());
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
        let range = self.leftover_range(now);
        let Settings { timeslot, lead, .. } = self.settings;
        let peer = &mut self.peers[usize::from(endpoint)];
        let is_stranger = from.port() != peer.port;
        if is_stranger && !peer.strangers.take(now, &mut self.random) {
            self.counters.unread += 1;
            return;
        }
        let before = peer.wanted;
        let mut ask = Ask {
            source: endpoint,
            endpoints: self.settings.addresses.count() as usize,
            classes: self.settings.classes,
            own: self.settings.own,
            leftovers: &mut self.leftovers,
            range,
            tries: leftovers::TRIES,
            late: &mut self.late,
            ahead: &mut self.ahead,
            batch: self.settings.batch as u64,
            next: self.next,
            earliest: earliest(now, lead, timeslot),
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

    /// The timeslots that may be left over: from the first one before which an ALLOC sent now
    /// arrives, up to the first one that a batch may still take.
    fn leftover_range(&self, now: u64) -> Range<u64> {
        let Settings {
            timeslot,
            lead,
            travel,
            ..
        } = self.settings;
        let Some(first) = self.first else {
            return 0..0;
        };
        let arrives = self.link.free_at(now).saturating_add(travel);
        let is_all_known = self.known == self.next;
        let end = match is_all_known && self.next < latest(now, lead, timeslot) {
            // The next batch begins a lead from now, or later: see `order`.
            true => earliest(now, lead, timeslot),
            false => self.known,
        };
        first.max(arrives.div_ceil(timeslot))..end
    }

    /// Whether there are leftovers that have to be sent soon.
    pub(crate) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// The latest time to order the next batch; `None` while there is no demand.
    pub(crate) fn due_at(&self) -> Option<u64> {
        let begin = self.next.saturating_mul(self.settings.timeslot);
        (self.wanted > 0).then(|| begin.saturating_sub(self.settings.lead))
    }

    /// When to order the next batch, which may be [ahead](crate::ahead); `None` while there is no
    /// demand.
    pub(crate) fn batch_at(&self) -> Option<u64> {
        let is_all_known = self.known == self.next;
        let due = self.due_at()?;
        Some(match is_all_known {
            true => self.ahead.order_at(due),
            false => due,
        })
    }

    /// When the timeslots of batches have to be sent: a lead before the first begins.
    fn send_at(&self) -> Option<u64> {
        let Settings { timeslot, lead, .. } = self.settings;
        let begin = self.unsent?.saturating_mul(timeslot);
        // A batch that is ordered in time begins up to a timeslot after the lead.
        Some(begin.saturating_sub(lead.saturating_add(timeslot)))
    }

    /// When another event is due.
    pub(crate) fn next_event(&self) -> u64 {
        let judged = self.faults.next_event().unwrap_or(u64::MAX);
        judged
            .min(self.sweep_at)
            .min(self.send_at().unwrap_or(u64::MAX))
    }

    /// The next batch that can reach the endpoints in time.
    pub(crate) fn order(&mut self, now: u64) -> Order {
        let Settings {
            timeslot,
            lead,
            batch,
            ..
        } = self.settings;
        let earliest = earliest(now, lead, timeslot);
        let latest = latest(now, lead, timeslot);
        let punctual = now.saturating_add(lead - lead / 8).div_ceil(timeslot);
        let is_late = (latest..punctual).contains(&self.next);
        self.counters.late_batches += u64::from(is_late);
        let first = match self.next {
            next if next >= latest => next,
            next => {
                // Not after a time without demand.
                if next + batch as u64 > latest {
                    self.counters.skipped_timeslots += earliest - next;
                }
                self.ahead.wait(now);
                earliest
            }
        };
        let skipped = first - self.next;
        self.next = first + batch as u64;
        self.counters.batches += 1;
        self.first.get_or_insert(first);
        self.ahead.begin();
        Order {
            first,
            skipped,
            is_late,
            reserved: self.reserve(),
        }
    }

    /// Reserves timeslots for its own packets on its host's link.
    fn reserve(&mut self) -> Option<Reserved> {
        let Settings {
            own,
            batch,
            timeslot,
            lead,
            ..
        } = self.settings;
        let counts = self.link.take(batch);
        let endpoint = own?;
        // The place in a batch at which the next ones are sent.
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

    /// Records the result of a timeslot. If an endpoint's packet has no room for more, it is sent.
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
            self.wanted -= 1;
            self.peers[usize::from(source)].wanted -= 1;
            let destination = packet.destination();
            self.leftovers
                .take(timeslot.number, source, destination, *path);
            self.hand(now, source, (timeslot.number, stream, *path), send);
            self.unsent.get_or_insert(timeslot.number);
            if self.peers[usize::from(source)].session.owed(stream) == 0 {
                self.ahead.shorten();
            }
        }
        self.known = timeslot.number + 1;
    }

    /// Hands the leftovers that were found to their endpoints.
    pub(crate) fn give_late(&mut self, now: u64, send: &mut impl FnMut(SocketAddrV4, &[u8])) {
        let mut late = std::mem::take(&mut self.late);
        for it in late.drain(..) {
            self.counters.allocated += 1;
            self.counters.leftover += 1;
            self.hand(now, it.source, (it.timeslot, it.stream, it.path), send);
            self.peers[usize::from(it.source)].is_hurried = true;
        }
        self.late = late;
    }

    /// Gives an endpoint a timeslot of a stream, by a path. If its packet has no room for more, it
    /// is sent.
    fn hand(
        &mut self,
        now: u64,
        source: u16,
        (timeslot, stream, path): (u64, u16, u8),
        send: &mut impl FnMut(SocketAddrV4, &[u8]),
    ) {
        let peer = &mut self.peers[usize::from(source)];
        let mut given = peer.session.give(timeslot, stream, path);
        if !given {
            // The packet being filled is full, if there is one.
            let own = (&mut self.counters, &mut self.link);
            tell(&self.settings, source, peer, (now, false), own, send);
            given = peer.session.give(timeslot, stream, path);
        }
        self.counters.unwanted += u64::from(!given);
        if given && !peer.is_listed {
            peer.is_listed = true;
            self.listed.push(source);
        }
    }

    /// Schedules messages to repeat.
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

    /// Sends all messages.
    pub(crate) fn poll(&mut self, now: u64, mut send: impl FnMut(SocketAddrV4, &[u8])) {
        self.give_late(now, &mut send);
        for (to, endpoint, cookie) in self.resets.drain(..) {
            let mut bytes = [0; MAX_SIZE];
            let session = &mut self.peers[usize::from(endpoint)].session;
            let len = session.reset(&self.secret, cookie, &mut bytes);
            self.counters.said += 1;
            self.counters.resets += 1;
            self.link.sent(now, len, self.settings.timeslot);
            send(to, &bytes[..len]);
        }
        let holds = self.send_at().is_some_and(|at| at > now);
        if !holds {
            self.unsent = None;
        }
        let mut listed = std::mem::take(&mut self.listed);
        listed.retain(|endpoint| {
            let peer = &mut self.peers[usize::from(*endpoint)];
            let holds = holds && !std::mem::take(&mut peer.is_hurried);
            let own = (&mut self.counters, &mut self.link);
            tell(
                &self.settings,
                *endpoint,
                peer,
                (now, holds),
                own,
                &mut send,
            );
            peer.is_listed = peer.session.has_timeslots();
            peer.is_listed
        });
        self.listed = listed;
    }
}

/// The first timeslot of a batch that is ordered now: an earlier one cannot reach the endpoints in
/// time.
fn earliest(now: u64, lead: u64, timeslot: u64) -> u64 {
    now.saturating_add(lead).div_ceil(timeslot)
}

/// The earliest timeslot with which a batch may begin that is ordered now, if that is where the
/// last one ended. Timers are a little late. It is better to be equally late, by up to half of the
/// lead, than to skip timeslots.
fn latest(now: u64, lead: u64, timeslot: u64) -> u64 {
    now.saturating_add(lead / 2).div_ceil(timeslot)
}

/// Sends an endpoint its messages; if it `holds` them, timeslots of batches wait for others.
fn tell(
    settings: &Settings,
    endpoint: u16,
    peer: &mut Peer,
    (now, holds): (u64, bool),
    (counters, link): (&mut Counters, &mut Link),
    send: &mut impl FnMut(SocketAddrV4, &[u8]),
) {
    let Some(address) = settings.addresses.address(endpoint).map(Ipv4Addr::from) else {
        return;
    };
    let mut bytes = [0; MAX_SIZE];
    while let Some(len) = peer.session.poll(now, holds, &mut bytes) {
        let bytes = &bytes[..len];
        counters.said += 1;
        link.sent(now, len, settings.timeslot);
        send(SocketAddrV4::new(address, peer.port), bytes);
    }
}
