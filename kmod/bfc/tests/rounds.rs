// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Deficit round robin: fair in bytes, at least one packet per turn.

use proptest::prelude::*;
use std::collections::VecDeque;
use weft_mechanisms::bfc::rounds::{Rounds, Turn};

struct Queue {
    turn: Turn,
    /// The length of its packets, all equal.
    len: u32,
}

impl AsMut<Turn> for Queue {
    fn as_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

fn queues(lengths: &[u32]) -> Vec<Queue> {
    let queue = |&len: &u32| Queue {
        turn: Turn::default(),
        len,
    };
    lengths.iter().map(queue).collect()
}

/// Bytes that each queue sends within this many packets.
fn serve(rounds: &mut Rounds, queues: &mut [Queue], quantum: u32, packets: usize) -> Vec<u64> {
    let mut bytes = vec![0; queues.len()];
    for _ in 0..packets {
        let queue = rounds.serve(queues, quantum, |queue| queue.len).unwrap();
        bytes[usize::from(queue)] += u64::from(queues[usize::from(queue)].len);
    }
    bytes
}

fn all(queues: &mut [Queue]) -> Rounds {
    let mut rounds = Rounds::new();
    for queue in 0..queues.len() as u16 {
        rounds.append(queues, queue);
    }
    rounds
}

#[test]
fn an_empty_round_serves_no_queue() {
    let mut rounds = Rounds::new();
    let mut none = queues(&[100]);
    assert_eq!(rounds.head(), None);
    assert_eq!(rounds.serve(&mut none, 1500, |queue| queue.len), None);
    rounds.append(&mut none, 0);
    assert_eq!(rounds.head(), Some(0));
    rounds.remove(&mut none, 0);
    assert_eq!(rounds.head(), None);
    assert_eq!(rounds.serve(&mut none, 1500, |queue| queue.len), None);
}

#[test]
fn queues_with_packets_of_any_length_get_the_same_share() {
    let lengths = [64, 65, 500, 1000, 1499, 1500];
    let mut queues = queues(&lengths);
    let mut rounds = all(&mut queues);
    let bytes = serve(&mut rounds, &mut queues, QUANTUM, 100_000);
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    // Shreedhar and Varghese, Lemma 2: no two differ by more than a quantum and a packet, at any
    // time.
    assert!(most - least <= 2 * u64::from(QUANTUM), "{bytes:?}");
    assert!(*least > 1_000_000);
}

#[test]
fn a_turn_sends_at_least_one_packet_and_no_more_than_fit() {
    let mut queues = queues(&[1500, 600]);
    let mut rounds = all(&mut queues);
    let order: Vec<u16> = (0..8)
        .map(|_| rounds.serve(&mut queues, 1500, |queue| queue.len).unwrap())
        .collect();
    // 1500 | 600 600 (300 left over) | 1500 | 600 600 600 (0 left over) | 1500
    assert_eq!(order, [0, 1, 1, 0, 1, 1, 1, 0]);
}

#[test]
fn a_packet_longer_than_the_quantum_is_sent_in_a_turn_of_its_own() {
    let mut queues = queues(&[9000, 100]);
    let mut rounds = all(&mut queues);
    let order: Vec<u16> = (0..6)
        .map(|_| rounds.serve(&mut queues, 200, |queue| queue.len).unwrap())
        .collect();
    assert_eq!(order, [0, 1, 1, 0, 1, 1]);
}

#[test]
fn a_queue_that_comes_back_is_the_last_in_its_turn() {
    let mut queues = queues(&[100; 4]);
    let mut rounds = all(&mut queues);
    let next = |rounds: &mut Rounds, queues: &mut [Queue]| {
        rounds.serve(queues, 100, |queue| queue.len).unwrap()
    };
    assert_eq!(next(&mut rounds, &mut queues), 0);
    // From the middle, the end and the head.
    rounds.remove(&mut queues, 2);
    rounds.append(&mut queues, 2);
    assert_eq!(next(&mut rounds, &mut queues), 1);
    rounds.remove(&mut queues, 1);
    rounds.append(&mut queues, 1);
    let rest: Vec<u16> = (0..4).map(|_| next(&mut rounds, &mut queues)).collect();
    // Queue 2 returned during queue 0's turn, and queue 1 during its own.
    assert_eq!(rest, [3, 2, 0, 1]);
}

#[test]
fn a_paused_queue_keeps_its_deficit_and_an_empty_one_loses_it() {
    // After 600 of 1500, 900 are left over: for another packet of that turn, not for another turn.
    for (forfeit, packets) in [(false, 1), (true, 2)] {
        let mut queues = queues(&[600, 1]);
        let mut rounds = all(&mut queues);
        assert_eq!(serve(&mut rounds, &mut queues, 1500, 1), [600, 0]);
        rounds.remove(&mut queues, 0);
        if forfeit {
            queues[0].turn.forfeit();
        }
        rounds.remove(&mut queues, 1);
        rounds.append(&mut queues, 0);
        rounds.append(&mut queues, 1);
        assert_eq!(
            serve(&mut rounds, &mut queues, 1500, packets),
            [600 * packets as u64, 0]
        );
        assert_eq!(serve(&mut rounds, &mut queues, 1500, 1), [0, 1]);
    }
}

#[test]
fn a_turn_that_a_pause_interrupts_continues_without_extra_credit() {
    let mut queues = queues(&[1_000, 1_000]);
    let mut rounds = all(&mut queues);
    let next = |rounds: &mut Rounds, queues: &mut [Queue]| {
        rounds.serve(queues, 65_000, |queue| queue.len).unwrap()
    };
    for _ in 0..1_000 {
        while next(&mut rounds, &mut queues) != 0 {}
        rounds.remove(&mut queues, 0);
        rounds.append(&mut queues, 0);
    }
    // No queue is paused any more.
    while next(&mut rounds, &mut queues) != 0 {}
    let mut packets = 1;
    while next(&mut rounds, &mut queues) == 0 {
        packets += 1;
    }
    assert!(packets <= 65, "{packets} packets in a row");
}

/// An operation on one of the queues, or on all.
#[derive(Clone, Debug)]
enum Operation {
    Enqueue(usize, u32),
    Dequeue,
    Pause(usize),
    Resume(usize),
}

const QUANTUM: u32 = 1_500;
const QUEUES: usize = 4;

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let queue = 0..QUEUES;
    let length = prop_oneof![Just(QUANTUM), 1..=QUANTUM, 1..100_u32];
    prop::collection::vec(
        prop_oneof![
            4 => (queue.clone(), length).prop_map(|(queue, len)| Operation::Enqueue(queue, len)),
            5 => Just(Operation::Dequeue),
            1 => queue.clone().prop_map(Operation::Pause),
            2 => queue.prop_map(Operation::Resume),
        ],
        0..400,
    )
}

/// Queues as in a port: the round contains those with packets that are not paused.
struct Port {
    rounds: Rounds,
    turns: [TurnOf; QUEUES],
    paused: [bool; QUEUES],
    /// The textbook's list, with the head's turn begun, and each queue's deficit.
    list: VecDeque<usize>,
    begun: bool,
    deficits: [u32; QUEUES],
}

#[derive(Default)]
struct TurnOf {
    turn: Turn,
    packets: VecDeque<u32>,
}

impl AsMut<Turn> for TurnOf {
    fn as_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl TurnOf {
    fn first(&self) -> u32 {
        *self.packets.front().expect("it is in the round")
    }
}

impl Port {
    fn new() -> Self {
        Self {
            rounds: Rounds::new(),
            turns: Default::default(),
            paused: [false; QUEUES],
            list: VecDeque::new(),
            begun: false,
            deficits: [0; QUEUES],
        }
    }

    /// Inserts a queue into the round or removes it, according to its state.
    fn update(&mut self, queue: usize) {
        let is_active = !self.turns[queue].packets.is_empty() && !self.paused[queue];
        match self.list.iter().position(|other| *other == queue) {
            None if is_active => {
                self.rounds.append(&mut self.turns, queue as u16);
                self.list.push_back(queue);
            }
            Some(place) if !is_active => {
                self.rounds.remove(&mut self.turns, queue as u16);
                self.list.remove(place);
                self.begun &= place != 0;
            }
            _ => {}
        }
        if self.turns[queue].packets.is_empty() {
            self.turns[queue].turn.forfeit();
            self.deficits[queue] = 0;
        }
    }

    fn enqueue(&mut self, queue: usize, len: u32) {
        self.turns[queue].packets.push_back(len);
        self.update(queue);
    }

    fn pause(&mut self, queue: usize, paused: bool) {
        self.paused[queue] = paused;
        self.update(queue);
    }

    /// Whether a pause of the queue would interrupt its turn.
    fn is_in_its_turn(&self, queue: usize) -> bool {
        let is_head = self.begun && self.list.front() == Some(&queue);
        is_head && self.turns[queue].first() <= self.deficits[queue]
    }

    /// The queue whose turn it is by Shreedhar and Varghese, who have no pauses: each turn gets a
    /// quantum.
    fn textbook(&mut self) -> Option<usize> {
        let head = *self.list.front()?;
        if self.begun && self.turns[head].first() > self.deficits[head] {
            self.list.rotate_left(1);
            self.begun = false;
        }
        let head = *self.list.front()?;
        if !std::mem::replace(&mut self.begun, true) {
            self.deficits[head] += QUANTUM;
        }
        self.deficits[head] -= self.turns[head].first();
        Some(head)
    }

    /// The queue that sends, and how much.
    fn dequeue(&mut self) -> Option<(usize, u32)> {
        let served = self
            .rounds
            .serve(&mut self.turns, QUANTUM, TurnOf::first)
            .map(usize::from)?;
        let len = self.turns[served].packets.pop_front()?;
        Some((served, len))
    }
}

proptest! {
    /// Queues join and leave, and are paused between their turns.
    #[test]
    fn without_interrupted_turns_it_matches_textbook_deficit_round_robin(operations in operations()) {
        let mut port = Port::new();
        for operation in operations {
            match operation {
                Operation::Enqueue(queue, len) => port.enqueue(queue, len),
                Operation::Pause(queue) if port.is_in_its_turn(queue) => {}
                Operation::Pause(queue) => port.pause(queue, true),
                Operation::Resume(queue) => port.pause(queue, false),
                Operation::Dequeue => {
                    let expected = port.textbook();
                    let served = port.dequeue();
                    prop_assert_eq!(served.map(|(queue, _)| queue), expected);
                    if let Some(queue) = expected {
                        port.update(queue);
                    }
                }
            }
        }
    }

    /// Shreedhar and Varghese's bound for queues that always have packets (Lemma 2): while another
    /// queue waits, a queue sends less than a quantum plus its deficit, which is less than a
    /// packet. Pauses do not change this, whenever they come.
    #[test]
    fn no_queue_sends_more_than_a_turn_while_another_one_waits(operations in operations()) {
        let mut port = Port::new();
        // By waiting queue: the bytes that each other one has sent meanwhile.
        let mut meanwhile = [[0; QUEUES]; QUEUES];
        for operation in operations {
            match operation {
                Operation::Enqueue(queue, len) => port.enqueue(queue, len),
                Operation::Pause(queue) => port.pause(queue, true),
                Operation::Resume(queue) => port.pause(queue, false),
                Operation::Dequeue => {
                    if let Some((served, len)) = port.dequeue() {
                        for sent in &mut meanwhile {
                            sent[served] += len;
                        }
                        meanwhile[served] = [0; QUEUES];
                        port.update(served);
                    }
                }
            }
            for (queue, sent) in meanwhile.iter_mut().enumerate() {
                if !port.list.contains(&queue) {
                    *sent = [0; QUEUES];
                }
                prop_assert!(sent.iter().all(|sent| *sent < 2 * QUANTUM), "{sent:?}");
            }
        }
    }
}
