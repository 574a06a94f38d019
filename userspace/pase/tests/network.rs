// SPDX-License-Identifier: MIT OR Apache-2.0

//! Arbitrators of several racks that exchange messages, compared with a central arbitrator that
//! knows all links; and messages that are lost, late, duplicated or forged.

use std::collections::VecDeque;

use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::arbiter::{Arbiter, Link};
use weft_mechanisms::pase::message::{Message, PATH, Says};
use weft_mechanisms::pase::path::climb;
use weft_mechanisms::pase::{Flow, Verdict};
use weft_pase::arbitrators::{Arbitrators, Peer, Rules};
use weft_pase::tree::{Half, Tree};
use weft_topo::Spec;

const LIFETIME_US: u32 = 1_000;
const LIFETIME: u64 = 1_000_000;
/// 10 Gbit/s in bytes/s.
const LINE: u64 = 1_250_000_000;

fn rules() -> Rules {
    Rules {
        lifetime_us: LIFETIME_US,
        flows: 1000,
        ..Rules::default()
    }
}

/// A fabric's arbitrators, and the messages between them.
struct Network {
    tree: Tree,
    racks: Vec<Arbitrators>,
    sequence: u64,
    now: u64,
    /// Racks that receive no messages.
    gone: Vec<usize>,
    between: u32,
}

impl Network {
    fn new(topology: &str) -> Self {
        Self::with(topology, rules())
    }

    fn with(topology: &str, rules: Rules) -> Self {
        let tree = Tree::new(&topology.parse::<Spec>().unwrap().topology());
        let racks = 0..tree.racks.len();
        let racks = racks.map(|rack| Arbitrators::new(tree.clone(), rack, rules, 1, 7));
        Self {
            racks: racks.collect(),
            tree,
            sequence: 0,
            now: 0,
            gone: Vec::new(),
            between: 0,
        }
    }

    /// A host sends a message to its switch; returns the answers to hosts. `fate` decides how many
    /// copies of a message between racks arrive, or none.
    fn tell(
        &mut self,
        host: usize,
        message: Message,
        fate: &mut dyn FnMut() -> usize,
    ) -> Vec<Message> {
        let rack = self.tree.hosts[host].rack;
        let mut under_way = VecDeque::from([(Peer::Host(host), rack, message)]);
        let mut answers = Vec::new();
        while let Some((from, at, message)) = under_way.pop_front() {
            if self.gone.contains(&at) {
                continue;
            }
            for (to, message) in self.racks[at].receive(from, &message, self.now) {
                match to {
                    Peer::Host(to) => {
                        assert_eq!(self.tree.hosts[to].rack, at, "not its own host");
                        answers.push(message);
                    }
                    Peer::Rack(to) => {
                        self.between += 1;
                        for _ in 0..fate() {
                            // Copies arrive last.
                            under_way.push_back((Peer::Rack(at), to, message));
                        }
                    }
                }
            }
        }
        answers
    }

    fn ask_with(
        &mut self,
        (host, number): (usize, u32),
        to: usize,
        urgency: u64,
        fate: &mut dyn FnMut() -> usize,
    ) -> Option<Verdict> {
        self.sequence += 1;
        let flow = Flow {
            id: number.into(),
            urgency,
            demand: LINE,
        };
        let to = self.tree.hosts[to].addresses[(number % 2) as usize];
        let message = Message {
            sequence: self.sequence,
            link: PATH,
            says: Says::Ask { flow, to },
        };
        let answers = self.tell(host, message, fate);
        let answer = answers.last()?;
        assert!(answer.sequence <= self.sequence && answer.link == PATH);
        match answer.says {
            Says::Answer { flow, verdict, .. } if flow == u64::from(number) => Some(verdict),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, flow: (usize, u32), to: usize, urgency: u64) -> Option<Verdict> {
        self.ask_with(flow, to, urgency, &mut || 1)
    }

    fn end(&mut self, (host, number): (usize, u32)) {
        self.sequence += 1;
        let message = Message {
            sequence: self.sequence,
            link: PATH,
            says: Says::End(number.into()),
        };
        self.tell(host, message, &mut || 1);
    }

    /// A period of delegation ends.
    fn renew(&mut self) {
        self.now += LIFETIME / 4;
        for at in 0..self.racks.len() {
            if self.gone.contains(&at) {
                continue;
            }
            for (to, message) in self.racks[at].renew(self.now) {
                let Peer::Rack(to) = to else {
                    panic!("{message:?}");
                };
                assert!(to != at && !self.gone.contains(&at));
                self.between += 1;
                if !self.gone.contains(&to) {
                    let out = self.racks[to].receive(Peer::Rack(at), &message, self.now);
                    assert_eq!(out, [], "nobody answers {message:?}");
                }
            }
        }
    }

    /// The racks' shares of their pods' trunks, up.
    fn shares(&self) -> Vec<u64> {
        let up = |rack: &Arbitrators| {
            let links = rack.links().into_iter();
            let up: Vec<_> = links.filter(|it| it.link == "trunk 2 up").collect();
            up.first().map(|it| it.rate)
        };
        self.racks.iter().filter_map(up).collect()
    }

    fn known(&self) -> usize {
        self.racks.iter().map(|it| it.flows(self.now).len()).sum()
    }
}

fn says(queue: u8, rate: u64) -> Option<Verdict> {
    Some(Verdict { queue, rate })
}

/// "For intra-rack communication … only the source and destination are involved" (§1).
#[test]
fn within_a_rack_the_shorter_flow_has_the_receivers_link() {
    let mut network = Network::new("rack:hosts=3,rate=10gbit");
    assert_eq!(network.ask((0, 1), 2, 500), says(1, LINE));
    assert_eq!(network.ask((1, 1), 2, 300), says(1, LINE));
    assert_eq!(network.ask((0, 1), 2, 490), says(2, 0));
    network.end((1, 1));
    assert_eq!(network.ask((0, 1), 2, 490), says(1, LINE));
    assert_eq!(network.between, 0);
}

/// Two hosts of one rack send to two of others over a trunk as fast as one link.
#[test]
fn a_trunk_is_arbitrated_for_both_halves() {
    let mut network = Network::new("leaf-spine:leaves=3,spines=1,hosts=2,rate=10gbit");
    assert_eq!(network.ask((0, 1), 2, 500), says(1, LINE));
    assert_eq!(network.ask((1, 1), 4, 600), says(2, 0));
    // The same at the receivers' end: from two racks to two hosts of the third.
    let mut network = Network::new("leaf-spine:leaves=3,spines=1,hosts=2,rate=10gbit");
    assert_eq!(network.ask((0, 1), 4, 500), says(1, LINE));
    assert_eq!(network.ask((2, 1), 5, 600), says(2, 0));
    assert!(network.between > 0);
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A link: its level, the rack that arbitrates it, whether up, and for level 0 the host.
type Place = (usize, usize, bool, usize);

/// A central arbitrator for all links of a flow's path.
struct Central {
    tree: Tree,
    links: Vec<(Place, Arbiter<Heap>)>,
}

impl Central {
    fn climb(&mut self, from: usize, to: usize, half: Half, flow: &Flow) -> Verdict {
        let mut way = Vec::new();
        for step in self.tree.half(from, to, half, false) {
            let receiver = if step.level == 0 { to } else { 0 };
            let key = (step.level, step.at, half == Half::Up, receiver);
            let place = self.links.iter().position(|(it, _)| *it == key);
            way.push(place.unwrap_or_else(|| {
                let rate = match step.level {
                    0 => self.tree.hosts[to].rate,
                    level => self.tree.racks[step.at].trunks[level - 1].rate,
                };
                let link = Link {
                    rate,
                    queues: 8,
                    lifetime: LIFETIME,
                };
                let Ok(arbiter) = Arbiter::new(1000, link, 3);
                self.links.push((key, arbiter));
                self.links.len() - 1
            }));
        }
        let mut taken: Vec<_> = self.links.iter_mut().map(|(_, it)| Some(it)).collect();
        let half = way.into_iter().map(|place| taken[place].take().unwrap());
        climb(half, flow, 1, 0).verdict
    }
}

/// Several hundred flows on trees of three depths, in any order: each answer equals that of the
/// central arbitrator.
#[test]
fn together_the_arbitrators_answer_like_a_single_one_for_all_links() {
    for topology in [
        "rack:hosts=6",
        "leaf-spine:leaves=3,spines=2,hosts=3,host-rate=10gbit,fabric-rate=10gbit",
        "fat-tree:k=4",
    ] {
        let mut network = Network::new(topology);
        let mut central = Central {
            tree: network.tree.clone(),
            links: Vec::new(),
        };
        let hosts = network.tree.hosts.len() as u64;
        let mut state = 0x9E37_79B9_7F4A_7C15;
        let mut lower = 0;
        for _ in 0..600 {
            let from = (random(&mut state) % hosts) as usize;
            let to = (from + 1 + (random(&mut state) % (hosts - 1)) as usize) % hosts as usize;
            let number = 1 + to as u32;
            let urgency = random(&mut state) % 1000;
            let flow = Flow {
                id: (from as u64 + 1) << 32 | u64::from(number),
                urgency,
                demand: LINE,
            };
            let halves = [Half::Up, Half::Down];
            let halves = halves.map(|half| central.climb(from, to, half, &flow));
            let expected = halves[0].and(halves[1]);
            let verdict = network.ask((from, number), to, urgency);
            assert_eq!(verdict, Some(expected), "{topology}: {from} to {to}");
            lower += u32::from(expected.queue > 1);
        }
        assert!(lower > 100, "{topology}: all were in the top queue");
    }
}

/// A rack whose arbitrators are gone costs every second answer at first. After that, only its
/// verdict is missing.
#[test]
fn without_remote_answers_local_ones_count_alone_until_they_return() {
    let mut network = Network::new("leaf-spine:leaves=3,spines=1,hosts=2,rate=10gbit");
    // It has priority at the receiver's link, in the receiver's rack.
    assert_eq!(network.ask((3, 1), 2, 10), says(1, LINE));
    assert_eq!(network.ask((0, 1), 2, 500), says(2, 0));
    network.gone = vec![1];
    assert_eq!(network.ask((0, 1), 2, 500), None);
    // The earlier verdict still counts,
    assert_eq!(network.ask((0, 1), 2, 500), says(2, 0));
    network.now += LIFETIME + 1;
    network.ask((0, 1), 2, 500);
    // and now it has expired.
    assert_eq!(network.ask((0, 1), 2, 500), says(1, LINE));
    network.gone = Vec::new();
    assert_eq!(network.ask((3, 1), 2, 10), says(1, LINE));
    assert_eq!(network.ask((0, 1), 2, 500), says(2, 0));
}

/// All state is soft: every rack forgets a flow that has ended.
#[test]
fn a_flow_that_ends_or_falls_silent_is_forgotten_everywhere() {
    let mut network = Network::new("fat-tree:k=4");
    for host in 0..8 {
        network.ask((host, 1), 15 - host, 5);
    }
    assert!(network.known() > 8);
    for host in 0..4 {
        network.end((host, 1));
    }
    for host in 4..8 {
        network.ask((host, 1), 15 - host, 5);
    }
    let left = network.known();
    network.now += LIFETIME;
    for rack in &mut network.racks {
        assert!(rack.expire(network.now, usize::MAX));
    }
    assert!(
        left > 4 && network.known() == 0,
        "{left}, then {}",
        network.known()
    );
    let links = network.racks.iter().flat_map(Arbitrators::links);
    assert_eq!(links.map(|link| link.flows).sum::<u32>(), 0);
}

/// A third of the messages between racks is lost, and another third is duplicated. Answers are late
/// at most, and once messages arrive again, they are right.
#[test]
fn lost_and_repeated_messages_only_make_answers_older() {
    let mut network = Network::new("leaf-spine:leaves=3,spines=1,hosts=2,rate=10gbit");
    let mut state = 5;
    let mut fate = || (random(&mut state) % 3) as usize;
    let mut answered = 0;
    for round in 0..200 {
        network.now += 1_000;
        network.ask_with((3, 1), 2, 10 + round, &mut fate);
        answered += u32::from(network.ask_with((0, 1), 2, 500, &mut fate).is_some());
    }
    assert!(answered > 100, "{answered} of 200");
    network.ask((3, 1), 2, 9);
    network.ask((0, 1), 2, 500);
    assert_eq!(network.ask((0, 1), 2, 500), says(2, 0));
}

/// No sender can speak for another one, or answer a request that was not made.
#[test]
fn forged_messages_change_nothing() {
    let mut network = Network::new("leaf-spine:leaves=3,spines=1,hosts=2,rate=10gbit");
    assert_eq!(network.ask((0, 1), 2, 500), says(1, LINE));
    let before = network.racks[0].flows(0);
    let to = network.tree.hosts[2].addresses[0];
    let id = 1 << 32 | 1;
    let answer = |sequence, link| Message {
        sequence,
        link,
        says: Says::Answer {
            flow: id,
            verdict: Verdict { queue: 8, rate: 0 },
            hold: 1000,
        },
    };
    let ask = |id, link, to| Message {
        sequence: u64::MAX,
        link,
        says: Says::Ask {
            flow: Flow {
                id,
                urgency: 0,
                demand: LINE,
            },
            to,
        },
    };
    let mut forged = vec![
        // A host that sends an answer, ends another host's flow, uses another host's number, or
        // asks for an unknown receiver or a link.
        (Peer::Host(1), answer(2, 2)),
        (
            Peer::Host(1),
            Message {
                says: Says::End(1),
                ..answer(9, PATH)
            },
        ),
        (Peer::Host(1), ask(id, PATH, to)),
        (Peer::Host(0), ask(2, PATH, [1; 16])),
        (Peer::Host(0), ask(2, 2, to)),
        (Peer::Host(0), ask(0, PATH, to)),
        // Arbitrators that ask for a host's whole path, for a link of another rack, or for a host
        // that does not exist.
        (Peer::Rack(1), ask(id, PATH, to)),
        (Peer::Rack(1), ask(id, 2, to)),
        (Peer::Rack(1), ask(99 << 32 | 1, 2, to)),
        (Peer::Rack(1), ask(id, u32::MAX, to)),
    ];
    // An answer from the wrong rack, and an answer without a request.
    for sequence in 0..20 {
        forged.push((Peer::Rack(2), answer(sequence, 2)));
        forged.push((Peer::Rack(1), answer(100 + sequence, 2)));
        forged.push((Peer::Rack(1), answer(sequence, 1)));
    }
    let count = forged.len() as u64;
    for (from, message) in forged {
        let out = network.racks[0].receive(from, &message, 0);
        assert_eq!(out, [], "{from:?}: {message:?}");
    }
    assert_eq!(network.racks[0].flows(0), before);
    assert_eq!(network.racks[0].counters().ignored, count);
    assert_eq!(network.ask((0, 1), 2, 500), says(1, LINE));
}

fn delegating() -> Network {
    Network::with(
        "fat-tree:k=4",
        Rules {
            delegate: true,
            ..rules()
        },
    )
}

/// 40 Gbit/s, the rate of a pod's four links up.
const TRUNK: u64 = 4 * LINE;

/// A sixteenth of a trunk is divided equally between its two racks, the rest by demand.
#[test]
fn a_pods_trunk_is_divided_by_the_demand_of_its_racks() {
    let mut network = delegating();
    assert_eq!(network.shares(), [TRUNK / 2; 8]);
    // Both hosts of the first rack, and one of the second, send to other pods.
    for (host, to) in [(0, 8), (1, 9), (2, 10)] {
        assert_eq!(network.ask((host, 1), to, 500), says(1, LINE));
    }
    network.renew();
    network.renew();
    let shares = network.shares();
    let part = |asked: u64| TRUNK / 32 + TRUNK / 16 * 15 * asked / 3;
    assert!(shares[0].abs_diff(part(2)) < 10_000, "{shares:?}");
    assert!(shares[1].abs_diff(part(1)) < 10_000, "{shares:?}");
    assert_eq!(shares[2..], [TRUNK / 2; 6]);
    for _ in 0..20 {
        let shares = network.shares();
        for pod in shares.chunks(2) {
            assert!(pod.iter().sum::<u64>() <= TRUNK, "{shares:?}");
        }
        let (host, to) = (network.sequence as usize % 4, 15);
        network.ask((host, network.sequence as u32 + 1), to, 500);
        network.renew();
    }
    // The share of ended flows goes to others.
    network.now += LIFETIME;
    for rack in &mut network.racks {
        assert!(rack.expire(network.now, usize::MAX));
    }
    network.renew();
    network.renew();
    assert_eq!(network.shares(), [TRUNK / 2; 8]);
}

/// "This significantly reduces the control overhead on ToR-Aggregation links" (§4.3.1): no request
/// for a flow goes to another rack of its pod.
#[test]
fn no_message_of_a_flow_goes_to_another_rack_of_its_pod() {
    let mut between = Vec::new();
    for delegate in [false, true] {
        let mut network = Network::with(
            "fat-tree:k=4",
            Rules {
                delegate,
                ask_queues: 8,
                ..rules()
            },
        );
        for host in 0..8 {
            // Hosts in the second racks of their pods.
            let (from, to) = ([2, 3, 6, 7][host % 4], 8 + [2, 3, 6, 7][host / 2]);
            network.ask((from, host as u32 + 1), to, 5);
        }
        between.push(network.between);
    }
    // Requests to the receiver's rack and back remain. Without delegation, the pods' trunks would
    // need two more in each direction.
    assert_eq!(between, [48, 16]);
}

#[test]
fn a_rack_without_its_leader_has_an_equal_share_until_the_leader_returns() {
    let mut network = delegating();
    let asks = |network: &mut Network| {
        network.ask((2, 1), 8, 500);
        network.ask((3, 1), 9, 500);
        network.renew();
    };
    asks(&mut network);
    asks(&mut network);
    let most = network.shares()[1];
    assert!(most > TRUNK / 8 * 7, "{most}");
    network.gone = vec![0];
    asks(&mut network);
    assert_eq!(network.shares()[1], most);
    for _ in 0..4 {
        asks(&mut network);
    }
    assert_eq!(network.shares()[1], TRUNK / 2);
    network.gone = Vec::new();
    asks(&mut network);
    asks(&mut network);
    assert_eq!(network.shares()[1], most);
}

/// Sequence numbers begin with the time of day. A leader and another rack restart with clocks that
/// were set back. Their messages count again once the earlier ones have expired.
#[test]
fn an_arbitrator_whose_clock_was_set_back_is_accepted_again() {
    let mut network = delegating();
    let asks = |network: &mut Network| {
        network.ask((2, 1), 8, 500);
        network.ask((3, 1), 9, 500);
        network.renew();
    };
    let hour = 3_600_000_000_000;
    let anew = |network: &mut Network, rack: usize, sequence: u64| {
        let tree = network.tree.clone();
        let rules = Rules {
            delegate: true,
            ..rules()
        };
        network.racks[rack] = Arbitrators::new(tree, rack, rules, sequence, 7);
    };
    for rack in [0, 1] {
        anew(&mut network, rack, hour);
    }
    asks(&mut network);
    asks(&mut network);
    let most = network.shares()[1];
    assert!(most > TRUNK / 8 * 7, "{most}");
    for rack in [0, 1] {
        anew(&mut network, rack, 1);
        for _ in 0..7 {
            asks(&mut network);
        }
        assert_eq!(network.shares()[1], most, "rack {rack} began anew");
    }
}

/// A host can use any number of flow numbers.
#[test]
fn a_host_that_asks_for_unlimited_flows_takes_one_links_table_at_most() {
    let most = 16;
    let few = Rules {
        flows: most,
        ..rules()
    };
    let mut network = Network::with("fat-tree:k=4", few);
    for number in 1..=1000 {
        let answer = network.ask((0, number), 15, 5);
        assert_eq!(answer.is_some(), number <= most, "{number}");
    }
    // Its earlier flows continue, and may end to make room; other hosts' flows are accepted.
    assert!(network.ask((0, 1), 15, 5).is_some());
    network.end((0, 2));
    assert!(network.ask((0, 1001), 14, 5).is_some());
    assert!(network.ask((0, 1002), 14, 5).is_none());
    assert!(network.ask((1, 1), 15, 5).is_some());
    for rack in &network.racks {
        assert!(rack.flows(network.now).len() <= 2 * most as usize);
    }
    // The refused flows leave no trace.
    network.now += LIFETIME;
    for rack in &mut network.racks {
        assert!(rack.expire(network.now, usize::MAX));
    }
    assert_eq!(network.known(), 0);
    for number in 2000..2000 + most {
        assert!(network.ask((0, number), 15, 5).is_some(), "{number}");
    }
    assert!(network.ask((0, 3000), 15, 5).is_none());
}

#[test]
fn forged_reports_and_shares_change_nothing() {
    let mut network = delegating();
    network.ask((0, 1), 8, 500);
    network.renew();
    network.renew();
    let before = network.shares();
    // Messages for its second trunk up: from a host, from a rack of another pod, with another
    // rack's number, for another link.
    let up = 5;
    let report = |child| Says::Report {
        child,
        demand: 100 * LINE,
    };
    let share = |child| Says::Share {
        child,
        rate: 1,
        hold: 1000,
    };
    let forged = [
        (0, Peer::Host(1), up, report(1)),
        (0, Peer::Rack(2), up, report(1)),
        (0, Peer::Rack(1), up, report(0)),
        (0, Peer::Rack(1), 3, report(1)),
        (1, Peer::Host(2), up, share(1)),
        (1, Peer::Rack(2), up, share(1)),
        (1, Peer::Rack(0), up, share(0)),
        (1, Peer::Rack(0), 3, share(1)),
        (0, Peer::Rack(1), up, share(0)),
    ];
    for (at, from, link, says) in forged {
        let message = Message {
            sequence: 1 << 40,
            link,
            says,
        };
        let ignored = network.racks[at].counters().ignored;
        assert_eq!(network.racks[at].receive(from, &message, network.now), []);
        assert_eq!(
            network.racks[at].counters().ignored,
            ignored + 1,
            "{from:?}: {says:?}"
        );
    }
    network.renew();
    network.renew();
    assert_eq!(network.shares(), before);
}

#[test]
fn a_pass_over_flows_in_parts_forgets_every_expired_flow() {
    let mut network = Network::new("rack:hosts=3");
    let [to, _] = network.tree.hosts[2].addresses;
    let rack = &mut network.racks[0];
    for (sender, id) in (0..2).flat_map(|sender| (1..=50).map(move |id| (sender, id))) {
        let flow = Flow {
            id,
            urgency: 5,
            demand: 1,
        };
        let says = Says::Ask { flow, to };
        let (sequence, link) = (1, PATH);
        let message = Message {
            sequence,
            link,
            says,
        };
        // Every other flow will expire.
        let at = (id % 2) * LIFETIME;
        rack.receive(Peer::Host(sender), &message, at);
    }
    assert_eq!(rack.flows(0).len(), 100);
    let mut parts = 1;
    while !rack.expire(LIFETIME, 7) {
        parts += 1;
        assert!(rack.flows(0).len() + 7 * parts >= 100);
    }
    assert_eq!(parts, 100 / 7 + 1);
    assert_eq!(rack.flows(0).len(), 50);
    // The list of flows in parts equals the whole list.
    let (mut after, mut all) = (None, Vec::new());
    loop {
        let part = rack.flows_after(after, 8, 0);
        let Some((last, _)) = part.last() else {
            break;
        };
        after = Some(*last);
        all.extend(part.into_iter().map(|(_, flow)| flow));
    }
    assert_eq!(all, rack.flows(0));
}
