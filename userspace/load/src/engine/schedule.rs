// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which flow starts when: at a time, or after another.

use std::collections::VecDeque;

use crate::error::{Result, invalid};
use crate::generate::Flow;

/// No flow.
const NONE: u32 = u32::MAX;

/// Flows that have not started, by their place in the workload.
#[derive(Debug)]
pub(super) struct Schedule {
    /// By start.
    timed: Vec<(u64, u32)>,
    next: usize,
    /// Those whose turn came with the end of another, and when that was.
    released: VecDeque<(u64, u32)>,
    /// The first that waits for each flow. Empty if none waits for any.
    first: Vec<u32>,
    /// The next that waits for the same flow.
    sibling: Vec<u32>,
}

impl Schedule {
    pub(super) fn new(flows: &[Flow], hosts: usize) -> Result<Self> {
        let waits = flows.iter().any(|flow| flow.after.is_some());
        let links = if waits { flows.len() } else { 0 };
        let mut schedule = Self {
            timed: Vec::with_capacity(if waits { 0 } else { flows.len() }),
            next: 0,
            released: VecDeque::new(),
            first: vec![NONE; links],
            sibling: vec![NONE; links],
        };
        if flows.len() >= NONE as usize {
            return invalid("a run has at most 2^32 - 2 flows");
        }
        for (place, flow) in (0..NONE).zip(flows) {
            check(flow, place, hosts)?;
            match flow.after {
                None => schedule.timed.push((flow.start_ns, place)),
                Some(after) if after >= flow.id => {
                    return invalid(format!(
                        "flow {place} waits for flow {after}: expected an earlier one"
                    ));
                }
                Some(_) => {}
            }
        }
        // Last first, so that the first is at each list's head.
        for (place, flow) in (0..NONE).zip(flows).rev() {
            if let Some(after) = flow.after {
                // Below `place`, as seen above.
                let head = &mut schedule.first[after as usize];
                schedule.sibling[place as usize] = *head;
                *head = place;
            }
        }
        schedule.timed.sort_unstable();
        Ok(schedule)
    }

    /// Adds a flow, once all that begin at a time have started: it waits for no other.
    pub(super) fn push(&mut self, flow: &Flow, place: u32, hosts: usize) -> Result<()> {
        check(flow, place, hosts)?;
        // What has started is not needed any more.
        self.timed.clear();
        self.next = 0;
        self.timed.push((flow.start_ns, place));
        Ok(())
    }

    /// The flow that has been due for longest, and since when.
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

    /// The flow ended, well or not: those that wait for it are due.
    pub(super) fn ended(&mut self, flow: u32, now: u64) {
        let mut waiting = self.first.get(flow as usize).copied().unwrap_or(NONE);
        while waiting != NONE {
            self.released.push_back((now, waiting));
            waiting = self.sibling[waiting as usize];
        }
    }

    /// When `pop` will have a flow, as far as that is known: at once is 0.
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
            after,
            src: 0,
            dst: 1,
            size: 1,
            class: Class::Background,
            deadline_ns: None,
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
    fn flows_that_do_not_fit_are_refused() {
        let refused = |flow: Flow| Schedule::new(&[flow], 2).unwrap_err().to_string();
        assert_eq!(
            refused(flow(1, 0, None)),
            "flow 1 is in place 0: flows are numbered from 0"
        );
        assert_eq!(
            refused(flow(0, 0, Some(0))),
            "flow 0 waits for flow 0: expected an earlier one"
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
