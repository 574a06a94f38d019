// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbitrators at one rack's switch, and their requests to other arbitrators: messages in,
//! messages out.
//!
//! A host sends one request to the arbitrators at its switch for all links of its flow's path
//! except its own. They send requests for both halves at the same time: for the sender's half to
//! the arbitrators above, and for the receiver's half to those of the receiver's rack, which ask
//! the ones above them. In each half, links are asked from the bottom up, each with the result of
//! the link below (§1, and [`weft_mechanisms::pase::path`]).
//!
//! ```text
//!       h ──ask──▶ its rack ──ask──▶ the rack that has the pod's trunk          sender's half, up
//!                      └─────ask──▶ the receiver's rack ──ask──▶ …             receiver's half, down
//! ```
//!
//! An answer goes out when all requested arbitrators have answered. If one has not answered when
//! the flow asks again, the answer combines the others: a failed arbitrator delays the answer by
//! one round-trip time, and later ones only lack its verdict.
//!
//! All state is soft: a flow that does not ask again is forgotten after the lifetime, and so is an
//! answer.

use std::collections::hash_map::Entry::Occupied;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::arbiter::{Arbiter, Link};
use weft_mechanisms::pase::message::{MAX_HOLD, Message, PATH, Says, Sequence};
use weft_mechanisms::pase::path::onward;
use weft_mechanisms::pase::{Flow, MAX_RATE, Verdict};

use crate::delegated::{Delegated, Reporting};
use crate::tree::{Half, Step, Tree};

/// Maximum of flows known at a link; the most urgent ones stay.
const FLOWS: u32 = 1 << 17;

/// Rules of arbitration.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Number of queues in each port.
    pub queues: u8,
    /// Flows in a queue below this one are not forwarded further up.
    pub ask_queues: u8,
    /// How long a flow is known without asking again, and how long an answer counts, in µs.
    pub lifetime_us: u32,
    /// Maximum of flows per link, and of remembered flows per sender at it. Requests beyond that
    /// are ignored.
    pub flows: u32,
    /// Whether a trunk of several racks is divided among them, rather than arbitrated at the first
    /// one.
    pub delegate: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            queues: 8,
            ask_queues: 1,
            lifetime_us: 25_000,
            flows: FLOWS,
            delegate: false,
        }
    }
}

/// The sender or receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A host of this rack, by its index in the tree.
    Host(usize),
    /// The arbitrators of another rack.
    Rack(usize),
}

/// Message counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Messages from hosts.
    pub from_hosts: u64,
    /// Messages to hosts.
    pub to_hosts: u64,
    /// Messages from arbitrators of other racks.
    pub from_arbitrators: u64,
    /// Messages to arbitrators of other racks.
    pub to_arbitrators: u64,
    /// Number of requests at links.
    pub updates: u64,
    /// Ignored messages: malformed, from an unauthorized sender, late, or duplicate.
    pub ignored: u64,
}

/// The state of a link, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LinkState {
    /// A host's name, or `trunk N` from 1, and the direction.
    pub link: String,
    /// In bytes/s.
    pub rate: u64,
    /// Number of known flows.
    pub flows: u32,
    /// The sum of their demands, in bytes/s.
    pub demand: u64,
}

/// The state of a flow, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FlowState {
    /// Its sender.
    pub from: String,
    /// The sender's number for it.
    pub number: u32,
    /// Its receiver.
    pub to: String,
    /// `whole`, or the half for which these arbitrators were asked.
    pub part: String,
    /// The queue that it was assigned, or would be.
    pub queue: u8,
    /// In bytes/s.
    pub rate: u64,
}

/// A flow, and the start of the arbitrated part of its path.
pub type FlowKey = (u64, u32);

/// The number in messages of the start of a part of the path: [`PATH`], or a link.
fn number(level: usize, half: Half) -> u32 {
    1 + 2 * level as u32 + u32::from(half == Half::Down)
}

/// The link of a number.
fn link(number: u32) -> Option<(usize, Half)> {
    let place = number.checked_sub(1)?;
    let half = [Half::Up, Half::Down][(place % 2) as usize];
    Some(((place / 2) as usize, half))
}

/// The arbitrators of another rack, as one flow knows them.
#[derive(Clone, Debug)]
struct Away {
    rack: usize,
    link: u32,
    /// Numbers of the first and of the last request.
    first: u64,
    last: u64,
    heard: Sequence,
    /// The last request has no answer yet.
    waits: bool,
    verdict: Verdict,
    /// When that verdict expires.
    until: u64,
}

/// A flow for which these arbitrators were asked.
struct Entry {
    asker: Peer,
    from: usize,
    to: usize,
    heard: Sequence,
    /// The request that is not yet answered.
    owed: Option<u64>,
    /// The verdict of the local links.
    local: Verdict,
    away: Vec<Away>,
    until: u64,
}

impl Entry {
    fn verdict(&self, now: u64) -> Verdict {
        let fresh = self.away.iter().filter(|away| away.until > now);
        fresh.fold(self.local, |all, away| all.and(away.verdict))
    }
}

/// The arbitrators of a rack; see the module's documentation. Times are in ns of one clock.
pub struct Arbitrators {
    tree: Tree,
    rack: usize,
    rules: Rules,
    /// For each host of this rack, by its index, the link from the switch to it; and for the trunks
    /// that are arbitrated here, by their numbers in messages.
    hosts: HashMap<usize, Arbiter<Heap>>,
    trunks: HashMap<u32, Arbiter<Heap>>,
    delegated: Delegated,
    /// In the order of their keys, so that a pass can visit a part of them and continue later.
    entries: BTreeMap<FlowKey, Entry>,
    /// The last entry that [`expire`](Self::expire) has visited in this pass.
    expired: Option<FlowKey>,
    /// Number of entries per sender, by its index and by the start of the part of the path; none is
    /// 0.
    asked: HashMap<(usize, u32), u32>,
    sequence: u64,
    counters: Counters,
}

/// Messages to send, with their receivers.
pub type Outgoing = Vec<(Peer, Message)>;

impl Arbitrators {
    /// The arbitrators of a rack. `sequence`: the time of day in ns; `secret`: a random number.
    pub fn new(tree: Tree, rack: usize, rules: Rules, sequence: u64, secret: u64) -> Self {
        let make = |rate| {
            let link = Link {
                rate,
                queues: rules.queues,
                lifetime: u64::from(rules.lifetime_us) * 1000,
            };
            let Ok(arbiter) = Arbiter::new(rules.flows, link, secret);
            arbiter
        };
        let own = tree.hosts.iter().enumerate();
        let own = own.filter(|(_, host)| host.rack == rack);
        let hosts = own.map(|(place, host)| (place, make(host.rate))).collect();
        let mut trunks = HashMap::new();
        let delegated = match rules.delegate {
            true => Delegated::of(&tree.racks[rack].trunks, rack, number),
            false => Delegated::default(),
        };
        for (place, trunk) in tree.racks[rack].trunks.iter().enumerate() {
            let rate = match delegated.shares.get(&number(place + 1, Half::Up)) {
                Some(share) => share.equal,
                None if trunk.leader() == rack => trunk.rate,
                None => continue,
            };
            for half in [Half::Up, Half::Down] {
                trunks.insert(number(place + 1, half), make(rate));
            }
        }
        Self {
            tree,
            rack,
            rules,
            hosts,
            trunks,
            delegated,
            entries: BTreeMap::new(),
            expired: None,
            asked: HashMap::new(),
            sequence,
            counters: Counters::default(),
        }
    }

    /// The fabric.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Message counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether no flow is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Counts a message that is malformed or from an unknown sender.
    pub fn ignore(&mut self) {
        self.counters.ignored += 1;
    }

    /// Handles a message.
    pub fn receive(&mut self, from: Peer, message: &Message, now: u64) -> Outgoing {
        let counter = match from {
            Peer::Host(_) => &mut self.counters.from_hosts,
            Peer::Rack(_) => &mut self.counters.from_arbitrators,
        };
        *counter += 1;
        let out = match message.says {
            Says::Ask { flow, to } => self.ask(from, message, flow, &to, now),
            Says::End(id) => self.end(from, message, id),
            Says::Answer {
                flow,
                verdict,
                hold,
            } => self.answered(from, message, flow, (verdict, hold), now),
            Says::Report { .. } | Says::Share { .. } => self.divided(from, message, now),
        };
        let out = out.unwrap_or_else(|| {
            self.counters.ignored += 1;
            Outgoing::new()
        });
        for (to, _) in &out {
            match to {
                Peer::Host(_) => self.counters.to_hosts += 1,
                Peer::Rack(_) => self.counters.to_arbitrators += 1,
            }
        }
        out
    }

    /// A flow's number in the whole fabric, and its sender: for a host's own flow, or for one that
    /// other arbitrators ask for.
    fn flow(&self, from: Peer, link: u32, id: u64) -> Option<(u64, usize)> {
        let number = u32::try_from(id & u64::from(u32::MAX)).ok()?;
        match from {
            Peer::Host(host) if link == PATH && id >> 32 == 0 && number != 0 => {
                Some(((host as u64 + 1) << 32 | id, host))
            }
            Peer::Rack(_) if link != PATH => {
                let host = usize::try_from(id >> 32).ok()?.checked_sub(1)?;
                (host < self.tree.hosts.len()).then_some((id, host))
            }
            _ => None,
        }
    }

    /// The halves of the path that the request covers, each from the level where the request was
    /// made. `None`: the request is not for these arbitrators.
    fn parts(&self, link_number: u32, from: usize, to: usize) -> Option<Vec<(Half, Vec<Step>)>> {
        if link_number == PATH {
            let halves = [Half::Up, Half::Down];
            let halves = halves.map(|half| (half, self.half(from, to, half)));
            return Some(halves.into());
        }
        let (level, half) = link(link_number)?;
        let mut steps = self.half(from, to, half);
        let place = steps.iter().position(|step| step.level == level)?;
        let steps = steps.split_off(place);
        (steps.first()?.at == self.rack).then(|| vec![(half, steps)])
    }

    fn half(&self, from: usize, to: usize, half: Half) -> Vec<Step> {
        self.tree.half(from, to, half, self.rules.delegate)
    }

    fn arbiter(&mut self, level: usize, half: Half, to: usize) -> Option<&mut Arbiter<Heap>> {
        match level {
            0 => self.hosts.get_mut(&to),
            _ => self.trunks.get_mut(&number(level, half)),
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn ask(
        &mut self,
        from: Peer,
        message: &Message,
        flow: Flow,
        to: &[u8; 16],
        now: u64,
    ) -> Option<Outgoing> {
        let (id, sender) = self.flow(from, message.link, flow.id)?;
        let receiver = self.tree.host(to)?;
        let parts = self.parts(message.link, sender, receiver)?;
        let key = (id, message.link);
        let known = self.entries.remove(&key);
        if known.is_none() && !self.has_room(sender, message.link) {
            return None;
        }
        let mut entry = match known {
            Some(entry) if entry.to == receiver => entry,
            // A flow to another receiver is a new flow.
            Some(_) | None => Entry {
                asker: from,
                from: sender,
                to: receiver,
                heard: known.map_or(Sequence::NONE, |entry| entry.heard),
                owed: None,
                local: Verdict::FREE,
                away: Vec::new(),
                until: 0,
            },
        };
        if !entry.heard.is_news(message.sequence) {
            self.entries.insert(key, entry);
            return None;
        }
        entry.asker = from;
        entry.until = now + u64::from(self.rules.lifetime_us) * 1000;
        entry.local = Verdict::FREE;
        let mut out = Outgoing::new();
        let asked = Flow { id, ..flow };
        for (half, steps) in parts {
            self.climb(&mut entry, half, &steps, asked, to, now, &mut out);
        }
        // Do not wait for arbitrators that have not answered since the flow's last request.
        let late = entry.owed.replace(message.sequence).is_some();
        if late || !entry.away.iter().any(|away| away.waits) {
            out.extend(self.answer(&mut entry, key, now));
        }
        self.entries.insert(key, entry);
        Some(out)
    }

    /// Whether there is room to remember one more flow of a sender; counts it if so. A host can use
    /// any number of flow numbers.
    fn has_room(&mut self, sender: usize, link: u32) -> bool {
        let asked = self.asked.entry((sender, link)).or_default();
        let has_room = *asked < self.rules.flows;
        *asked += u32::from(has_room);
        has_room
    }

    /// Asks the links of a half that are arbitrated here, and the arbitrators of the next link.
    #[expect(clippy::too_many_arguments)]
    fn climb(
        &mut self,
        entry: &mut Entry,
        half: Half,
        steps: &[Step],
        flow: Flow,
        to: &[u8; 16],
        now: u64,
        out: &mut Outgoing,
    ) {
        let mut asks = Some(flow);
        for step in steps {
            if step.at != self.rack {
                let place = number(step.level, half);
                self.pass_on(entry, (step.at, place), asks, (flow.id, to), out);
                return;
            }
            let deepest = self.rules.ask_queues;
            let Some(link) = self.arbiter(step.level, half, entry.to) else {
                return;
            };
            asks = match asks {
                Some(flow) => {
                    let verdict = link.update(&flow, now);
                    entry.local = entry.local.and(verdict);
                    self.counters.updates += 1;
                    onward(&flow, verdict, deepest)
                }
                None => {
                    link.remove(flow.id);
                    None
                }
            };
        }
    }

    /// Asks the arbitrators of a link in another rack, or tells them that the flow no longer uses
    /// it.
    fn pass_on(
        &mut self,
        entry: &mut Entry,
        (rack, link): (usize, u32),
        asks: Option<Flow>,
        (id, to): (u64, &[u8; 16]),
        out: &mut Outgoing,
    ) {
        let known = entry.away.iter().position(|away| away.link == link);
        let (sequence, says) = match (asks, known) {
            (None, None) => return,
            (None, Some(place)) => {
                entry.away.swap_remove(place);
                (self.next_sequence(), Says::End(id))
            }
            (Some(flow), known) => {
                let sequence = self.next_sequence();
                let place = known.unwrap_or_else(|| {
                    entry.away.push(Away {
                        rack,
                        link,
                        first: sequence,
                        last: sequence,
                        heard: Sequence::NONE,
                        waits: true,
                        verdict: Verdict::FREE,
                        until: 0,
                    });
                    entry.away.len() - 1
                });
                entry.away[place].last = sequence;
                entry.away[place].waits = true;
                (sequence, Says::Ask { flow, to: *to })
            }
        };
        let message = Message {
            sequence,
            link,
            says,
        };
        out.push((Peer::Rack(rack), message));
    }

    /// The pending answer, if there is one.
    fn answer(
        &self,
        entry: &mut Entry,
        (id, link): (u64, u32),
        now: u64,
    ) -> Option<(Peer, Message)> {
        let sequence = entry.owed.take()?;
        let flow = match entry.asker {
            Peer::Host(_) => id & u64::from(u32::MAX),
            Peer::Rack(_) => id,
        };
        let message = Message {
            sequence,
            link,
            says: Says::Answer {
                flow,
                verdict: entry.verdict(now),
                hold: self.rules.lifetime_us.clamp(1, MAX_HOLD),
            },
        };
        Some((entry.asker, message))
    }

    fn answered(
        &mut self,
        from: Peer,
        message: &Message,
        id: u64,
        (verdict, hold): (Verdict, u32),
        now: u64,
    ) -> Option<Outgoing> {
        let (_, half) = link(message.link)?;
        // The start of that part of the path: the host, or a link below.
        let (level, _) = link(message.link)?;
        let starts = std::iter::once(PATH).chain((0..level).map(|below| number(below, half)));
        let is_of = |away: &Away| away.link == message.link && from == Peer::Rack(away.rack);
        let key = starts.map(|start| (id, start)).find(|key| {
            let entry = self.entries.get(key);
            entry.is_some_and(|entry| entry.away.iter().any(is_of))
        })?;
        let mut entry = self.entries.remove(&key)?;
        let away = entry.away.iter_mut().find(|away| is_of(away));
        let news = away.is_some_and(|away| {
            let asked = (away.first..=away.last).contains(&message.sequence);
            let news = asked && away.heard.is_news(message.sequence);
            if news {
                away.verdict = verdict;
                away.until = now + u64::from(hold) * 1000;
                away.waits = message.sequence != away.last;
            }
            news
        });
        let mut out = Outgoing::new();
        if news && !entry.away.iter().any(|away| away.waits) {
            out.extend(self.answer(&mut entry, key, now));
        }
        self.entries.insert(key, entry);
        news.then_some(out)
    }

    fn end(&mut self, from: Peer, message: &Message, id: u64) -> Option<Outgoing> {
        let (id, _) = self.flow(from, message.link, id)?;
        let key = (id, message.link);
        let entry = self.entries.get_mut(&key)?;
        if entry.asker != from || !entry.heard.is_news(message.sequence) {
            return None;
        }
        let entry = self.entries.remove(&key)?;
        Some(self.forget(key, &entry))
    }

    /// Forgets a flow here, and tells the arbitrators that were asked for it.
    fn forget(&mut self, (id, start): (u64, u32), entry: &Entry) -> Outgoing {
        if let Occupied(mut asked) = self.asked.entry((entry.from, start)) {
            *asked.get_mut() -= 1;
            if *asked.get() == 0 {
                asked.remove();
            }
        }
        let parts = self.parts(start, entry.from, entry.to);
        let rack = self.rack;
        for (half, steps) in parts.unwrap_or_default() {
            for step in steps.iter().take_while(|step| step.at == rack) {
                if let Some(link) = self.arbiter(step.level, half, entry.to) {
                    link.remove(id);
                }
            }
        }
        let ends = entry.away.iter().map(|away| {
            self.sequence += 1;
            let message = Message {
                sequence: self.sequence,
                link: away.link,
                says: Says::End(id),
            };
            (Peer::Rack(away.rack), message)
        });
        ends.collect()
    }

    /// Handles a message about a delegated trunk.
    fn divided(&mut self, from: Peer, message: &Message, now: u64) -> Option<Outgoing> {
        match message.says {
            Says::Report { child, demand } => self.reported(from, message, child, demand, now),
            Says::Share { child, rate, hold } => {
                self.shared(from, message, child, (rate, hold), now)
            }
            _ => None,
        }
    }

    /// The leader receives the demand of one rack.
    fn reported(
        &mut self,
        from: Peer,
        message: &Message,
        child: u64,
        demand: u64,
        now: u64,
    ) -> Option<Outgoing> {
        let Peer::Rack(rack) = from else {
            return None;
        };
        let divided = self.delegated.divided.get_mut(&message.link)?;
        let place = divided.child(rack)?;
        let of = divided.children.get_mut(place)?;
        if child != place as u64 {
            return None;
        }
        let lifetime = u64::from(self.rules.lifetime_us) * 1000;
        let is_news = of.heard.is_news(message.sequence, now, now + lifetime);
        (is_news && divided.delegation.report(place as u32, demand)).then(Outgoing::new)
    }

    /// This rack receives its share of a trunk.
    fn shared(
        &mut self,
        from: Peer,
        message: &Message,
        child: u64,
        (rate, hold): (u64, u32),
        now: u64,
    ) -> Option<Outgoing> {
        let share = self.delegated.shares.get_mut(&message.link)?;
        let own = from == Peer::Rack(share.leader) && child == u64::from(share.child);
        let until = now + u64::from(hold) * 1000;
        if !own || !share.heard.is_news(message.sequence, now, until) {
            return None;
        }
        share.rate = rate;
        self.resize(message.link, now);
        Some(Outgoing::new())
    }

    /// Sets the rate of a virtual link to its current share.
    fn resize(&mut self, number: u32, now: u64) {
        let rate = self.delegated.shares.get(&number).map(|it| it.now(now));
        if let Some((trunk, rate)) = self.trunks.get_mut(&number).zip(rate) {
            let link = trunk.link();
            trunk.set_link(Link { rate, ..link });
        }
    }

    /// Whether it has a part of a delegated trunk.
    pub fn delegates(&self) -> bool {
        !self.delegated.shares.is_empty()
    }

    /// Ends a period: divides the trunks that this rack leads, and reports its demand on other
    /// trunks. The caller must call it several times per lifetime, because a share expires after
    /// one.
    pub fn renew(&mut self, now: u64) -> Outgoing {
        let mut out = Outgoing::new();
        let numbers: Vec<u32> = self.delegated.shares.keys().copied().collect();
        for link in numbers {
            let demand = self.trunks.get(&link).map_or(0, Arbiter::demand);
            let sequence = self.next_sequence();
            let Some(share) = self.delegated.shares.get(&link) else {
                continue;
            };
            let says = Says::Report {
                child: share.child.into(),
                demand: demand.min(MAX_RATE),
            };
            let to = Peer::Rack(share.leader);
            let message = Message {
                sequence,
                link,
                says,
            };
            self.tell(to, message, now, &mut out);
            self.resize(link, now);
        }
        let numbers: Vec<u32> = self.delegated.divided.keys().copied().collect();
        let hold = self.rules.lifetime_us.clamp(1, MAX_HOLD);
        for link in numbers {
            let Some(divided) = self.delegated.divided.get_mut(&link) else {
                continue;
            };
            divided.delegation.renew();
            let share = |(child, of): (u32, &Reporting)| {
                let rate = divided.delegation.share(child)?;
                let child = child.into();
                Some((of.rack, Says::Share { child, rate, hold }))
            };
            let shares: Vec<_> = (0..).zip(&divided.children).filter_map(share).collect();
            for (rack, says) in shares {
                let message = Message {
                    sequence: self.next_sequence(),
                    link,
                    says,
                };
                self.tell(Peer::Rack(rack), message, now, &mut out);
            }
        }
        out
    }

    /// Sends a message, or handles it at once if it is for this rack.
    fn tell(&mut self, to: Peer, message: Message, now: u64, out: &mut Outgoing) {
        if to == Peer::Rack(self.rack) {
            drop(self.divided(to, &message, now));
            return;
        }
        self.counters.to_arbitrators += 1;
        out.push((to, message));
    }

    /// Visits the next `count` flows and forgets those that have not asked for a lifetime; returns
    /// whether that completed a pass over all flows. The caller must complete several passes per
    /// lifetime.
    pub fn expire(&mut self, now: u64, count: usize) -> bool {
        let after = self.expired.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.entries.range((after, Bound::Unbounded)).take(count);
        let looked: Vec<_> = next
            .map(|(key, entry)| (*key, entry.until <= now))
            .collect();
        for (key, is_over) in &looked {
            if let Some(entry) = is_over.then(|| self.entries.remove(key)).flatten() {
                // Other arbitrators forget it in the same way.
                self.forget(*key, &entry);
            }
        }
        self.expired = looked.last().map(|(key, _)| *key);
        let is_over = looked.len() < count;
        if is_over {
            self.expired = None;
        }
        is_over
    }

    /// The links, hosts' links first.
    pub fn links(&self) -> Vec<LinkState> {
        let seen = |link: String, arbiter: &Arbiter<Heap>| LinkState {
            link,
            rate: arbiter.link().rate,
            flows: arbiter.len(),
            demand: arbiter.demand(),
        };
        let mut hosts: Vec<_> = self.hosts.iter().collect();
        hosts.sort_by_key(|(place, _)| **place);
        let hosts = hosts.into_iter();
        let hosts =
            hosts.map(|(&place, it)| seen(format!("{} down", self.tree.hosts[place].name), it));
        let mut trunks: Vec<_> = self.trunks.iter().collect();
        trunks.sort_by_key(|(number, _)| **number);
        let trunks = trunks.into_iter();
        let trunks = trunks.map(|(&number, it)| seen(told(number), it));
        hosts.chain(trunks).collect()
    }

    /// The flows, ordered by sender.
    pub fn flows(&self, now: u64) -> Vec<FlowState> {
        let flows = self.flows_after(None, usize::MAX, now).into_iter();
        flows.map(|(_, flow)| flow).collect()
    }

    /// At most `count` flows after a given flow, or the first ones, ordered by sender.
    pub fn flows_after(
        &self,
        after: Option<FlowKey>,
        count: usize,
        now: u64,
    ) -> Vec<(FlowKey, FlowState)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.entries.range((after, Bound::Unbounded)).take(count);
        let flows = next.map(|(&(id, start), entry)| {
            let Verdict { queue, rate } = entry.verdict(now);
            let flow = FlowState {
                from: self.tree.hosts[entry.from].name.clone(),
                number: id as u32,
                to: self.tree.hosts[entry.to].name.clone(),
                part: told(start),
                queue,
                rate,
            };
            ((id, start), flow)
        });
        flows.collect()
    }
}

/// The name of a number in messages.
fn told(start: u32) -> String {
    match link(start) {
        None => "whole".to_owned(),
        Some((0, _)) => "receiver down".to_owned(),
        Some((level, Half::Up)) => format!("trunk {level} up"),
        Some((level, Half::Down)) => format!("trunk {level} down"),
    }
}
