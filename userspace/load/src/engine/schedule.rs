// SPDX-License-Identifier: MIT OR Apache-2.0

//! Decides which flow starts when: at a given time, or after other flows.

use std::collections::{HashMap, VecDeque};

use crate::error::{Result, invalid};
use crate::generate::{Flow, Predecessors};

/// Marks the end of a list.
const NONE: u32 = u32::MAX;

/// Flows that have not started, by their index in the workload.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Flows with a start time, by that time.
    timed: Vec<(u64, u32)>,
    next: usize,
    /// Flows released by the end of others, and when they were released.
    released: VecDeque<(u64, u32)>,
    /// Gates of waiting flows; flows that wait for the same flows share a gate.
    gates: Vec<Gate>,
    /// The next flow behind the same gate. Empty if no flow waits.
    sibling: Vec<u32>,
    /// For each flow, the first key that its end turns. Empty if no flow waits.
    first_key: Vec<u32>,
    keys: Vec<Key>,
}

/// Opens when as many more flows have ended as it counts.
#[derive(Debug)]
struct Gate {
    left: u64,
    /// The first flow behind it.
    first: u32,
}

/// A gate that waits for a flow, and the next key of the same flow.
#[derive(Debug)]
struct Key {
    gate: u32,
    next: u32,
}

impl Schedule {
    pub(super) fn new(flows: &[Flow], hosts: usize) -> Result<Self> {
        let waits = flows.iter().any(|flow| flow.after.is_some());
        let links = if waits { flows.len() } else { 0 };
        let mut schedule = Self {
            timed: Vec::with_capacity(if waits { 0 } else { flows.len() }),
            next: 0,
            released: VecDeque::new(),
            gates: Vec::new(),
            sibling: vec![NONE; links],
            first_key: vec![NONE; links],
            keys: Vec::new(),
        };
        if flows.len() >= NONE as usize {
            return invalid("a run has at most 2^32 - 2 flows");
        }
        for (place, flow) in (0..NONE).zip(flows) {
            check(flow, place, hosts)?;
            match flow.after {
                None => schedule.timed.push((flow.start_ns, place)),
                Some(after) if !after.is_before(flow.id) => {
                    return invalid(format!(
                        "flow {place} waits for {} from flow {} on: expected earlier ones",
                        after.count, after.first
                    ));
                }
                Some(_) => {}
            }
        }
        let mut gates = HashMap::new();
        // In reverse, so that the first flow is at the head of each list.
        for (place, flow) in (0..NONE).zip(flows).rev() {
            if let Some(after) = flow.after {
                let gate = *gates.entry(after).or_insert_with(|| schedule.gate(after));
                let head = &mut schedule.gates[gate as usize].first;
                schedule.sibling[place as usize] = *head;
                *head = place;
            }
        }
        schedule.timed.sort_unstable();
        Ok(schedule)
    }

    /// The gate of flows that wait for these, which are among the flows.
    fn gate(&mut self, after: Predecessors) -> u32 {
        let gate = self.gates.len() as u32;
        self.gates.push(Gate {
            left: after.count,
            first: NONE,
        });
        for flow in after.flows() {
            let head = &mut self.first_key[flow as usize];
            let next = std::mem::replace(head, self.keys.len() as u32);
            self.keys.push(Key { gate, next });
        }
        gate
    }

    /// Adds a flow that has a start time.
    pub(super) fn push(&mut self, flow: &Flow, place: u32, hosts: usize) -> Result<()> {
        check(flow, place, hosts)?;
        // Entries of started flows are no longer needed.
        self.timed.drain(..self.next);
        self.next = 0;
        let timed = (flow.start_ns, place);
        let at = self.timed.partition_point(|it| *it < timed);
        self.timed.insert(at, timed);
        Ok(())
    }

    /// The flow that has been due longest, and its due time.
    pub(super) fn pop(&mut self, now: u64) -> Option<(u64, u32)> {
        let timed = self.timed.get(self.next).filter(|(due, _)| *due <= now);
        if let Some(timed) = timed
            && self
                .released
                .front()
                .is_none_or(|released| timed < released)
        {
            self.next += 1;
            return Some(*timed);
        }
        self.released.pop_front()
    }

    /// Whether one of the first `own` flows is due, or has a start time.
    pub(super) fn has_any_of_first(&self, own: usize) -> bool {
        let mut left = self.released.iter().chain(&self.timed[self.next..]);
        left.any(|(_, place)| (*place as usize) < own)
    }

    /// Handles the end of a flow, successful or not: releases flows that waited only for it.
    pub(super) fn ended(&mut self, flow: u32, now: u64) {
        let mut key = self.first_key.get(flow as usize).copied().unwrap_or(NONE);
        while let Some(Key { gate, next }) = self.keys.get(key as usize) {
            let gate = &mut self.gates[*gate as usize];
            gate.left -= 1;
            let mut waiting = if gate.left == 0 { gate.first } else { NONE };
            while waiting != NONE {
                self.released.push_back((now, waiting));
                waiting = self.sibling[waiting as usize];
            }
            key = *next;
        }
    }

    /// When `pop` will have a flow, as far as known; 0 means at once.
    pub(super) fn next_ns(&self) -> Option<u64> {
        if self.released.is_empty() {
            self.timed.get(self.next).map(|(due, _)| *due)
        } else {
            Some(0)
        }
    }
}

fn check(flow: &Flow, place: u32, hosts: usize) -> Result<()> {
    if flow.id != u64::from(place) {
        return invalid(format!(
            "flow {} is in place {place}: flows are numbered from 0",
            flow.id
        ));
    }
    if flow.src == flow.dst || flow.src.max(flow.dst) as usize >= hosts {
        return invalid(format!(
            "flow {place} goes from h{} to h{}: expected two different of {hosts} hosts",
            flow.src, flow.dst
        ));
    }
    if flow.size == 0 {
        return invalid(format!("flow {place} is of 0 bytes: expected at least 1"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Class;

    fn flow(id: u64, start_ns: u64, after: Option<u64>) -> Flow {
        Flow {
            id,
            start_ns,
            after: after.map(Predecessors::one),
            src: 0,
            dst: 1,
            size: 1,
            class: Class::Background,
            deadline_ns: None,
            priority: None,
            warm_up: false,
        }
    }

    #[test]
    fn flows_come_by_time_then_by_number() {
        let flows = [flow(0, 5, None), flow(1, 3, None), flow(2, 5, None)];
        let mut schedule = Schedule::new(&flows, 2).unwrap();
        assert_eq!(schedule.next_ns(), Some(3));
        assert_eq!(schedule.pop(2), None);
        assert_eq!(schedule.pop(5), Some((3, 1)));
        assert_eq!(schedule.pop(5), Some((5, 0)));
        assert_eq!(schedule.pop(5), Some((5, 2)));
        assert_eq!((schedule.pop(5), schedule.next_ns()), (None, None));
    }

    #[test]
    fn flows_that_wait_for_the_same_one_come_by_number_when_it_ends() {
        let after = |id, after| flow(id, 0, Some(after));
        let flows = [flow(0, 0, None), after(1, 0), after(2, 1), after(3, 0)];
        let mut schedule = Schedule::new(&flows, 2).unwrap();
        assert_eq!(schedule.pop(0), Some((0, 0)));
        assert_eq!((schedule.pop(9), schedule.next_ns()), (None, None));
        schedule.ended(0, 7);
        assert_eq!(schedule.next_ns(), Some(0));
        assert_eq!(schedule.pop(9), Some((7, 1)));
        schedule.ended(1, 8);
        assert_eq!(schedule.pop(9), Some((7, 3)));
        assert_eq!(schedule.pop(9), Some((8, 2)));
    }

    #[test]
    fn a_flow_that_waits_for_several_is_due_with_the_last_of_their_ends() {
        let mut flows: Vec<Flow> = (0..6).map(|id| flow(id, 0, None)).collect();
        let after = |first, count, step| Some(Predecessors { first, count, step });
        for (id, after) in [
            (3, after(0, 3, 1)),
            (4, after(0, 2, 2)),
            (5, after(0, 3, 1)),
        ] {
            flows[id].after = after;
        }
        let mut schedule = Schedule::new(&flows, 2).unwrap();
        for id in 0..3 {
            assert_eq!(schedule.pop(0), Some((0, id)));
        }
        schedule.ended(2, 5);
        assert_eq!(schedule.pop(9), None);
        schedule.ended(0, 6);
        assert_eq!(schedule.pop(9), Some((6, 4)));
        assert_eq!(schedule.pop(9), None);
        schedule.ended(1, 7);
        assert_eq!(schedule.pop(9), Some((7, 3)));
        assert_eq!(schedule.pop(9), Some((7, 5)));
    }

    #[test]
    fn no_flow_waits_for_one_that_is_due_later() {
        let flows = [flow(0, 0, None), flow(1, 5, None), flow(2, 0, Some(0))];
        for (end, order) in [(4, [2, 1]), (6, [1, 2])] {
            let mut schedule = Schedule::new(&flows, 2).unwrap();
            assert_eq!(schedule.pop(0), Some((0, 0)));
            schedule.ended(0, end);
            assert_eq!(order, [(); 2].map(|()| schedule.pop(9).unwrap().1));
        }
    }

    #[test]
    fn background_flows_are_ordered_by_time_among_pending_flows() {
        let flows = [flow(0, 1, None), flow(1, 5, None), flow(2, 9, None)];
        let mut schedule = Schedule::new(&flows, 2).unwrap();
        assert_eq!(schedule.pop(1), Some((1, 0)));
        for (place, start_ns) in [(3, 9), (4, 3)] {
            let next = flow(place.into(), start_ns, None);
            schedule.push(&next, place, 2).unwrap();
        }
        let order = [(); 4].map(|()| schedule.pop(9));
        assert_eq!(order, [(3, 4), (5, 1), (9, 2), (9, 3)].map(Some));
        assert_eq!(schedule.pop(9), None);
    }

    #[test]
    fn flows_that_do_not_fit_are_refused() {
        let refused = |flow: Flow| Schedule::new(&[flow], 2).unwrap_err().to_string();
        assert_eq!(
            refused(flow(1, 0, None)),
            "flow 1 is in place 0: flows are numbered from 0"
        );
        assert_eq!(
            refused(flow(0, 0, Some(0))),
            "flow 0 waits for 1 from flow 0 on: expected earlier ones"
        );
        let to = |dst, size| Flow {
            dst,
            size,
            ..flow(0, 0, None)
        };
        for dst in [0, 2] {
            assert!(refused(to(dst, 1)).contains("expected two different of 2 hosts"));
        }
        assert!(refused(to(1, 0)).contains("is of 0 bytes"));
    }
}
