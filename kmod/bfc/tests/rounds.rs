// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Deficit round robin: fair in bytes, one packet per turn at least.

use weft_mechanisms::bfc::rounds::{Rounds, Turn};

struct Queue {
    turn: Turn,
    /// Lengths of its packets, all of them the same.
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

/// Bytes that each queue sends in so many packets.
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
fn an_empty_round_serves_nobody() {
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
    const QUANTUM: u32 = 1500;
    let lengths = [64, 65, 500, 1000, 1499, 1500];
    let mut queues = queues(&lengths);
    let mut rounds = all(&mut queues);
    let bytes = serve(&mut rounds, &mut queues, QUANTUM, 100_000);
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    // Shreedhar and Varghese, Lemma 2: no two differ by more than a quantum and a packet, at any time.
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
    // Queue 2 came back in queue 0's turn, and queue 1 in its own.
    assert_eq!(rest, [3, 2, 0, 1]);
}

#[test]
fn what_is_left_over_is_kept_by_a_pause_and_lost_by_an_empty_queue() {
    // After 600 of 1500, 900 are left over.
    for (forfeit, packets) in [(false, 4), (true, 2)] {
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
