// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A law of every queueing discipline: each packet that goes in comes out once.

use proptest::prelude::*;
use weft_mechanisms::common::discipline::{Discipline, Fate, Next};
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pfabric::queue::{Arrival, Limits, PFabric};

#[derive(Clone, Copy, Debug)]
enum Step<A> {
    Enqueue(A),
    Dequeue,
    Clear,
}

/// Runs `steps`, then empties the discipline; every packet is numbered.
fn conserve<D>(mut discipline: D, steps: Vec<Step<D::Arrival>>) -> Result<(), TestCaseError>
where
    D: Discipline<Packet = usize, Shared = ()>,
{
    // How often each packet came back.
    let mut back: Vec<u32> = Vec::new();
    let mut inside = 0;
    let clock = || 0;
    for step in steps {
        match step {
            Step::Enqueue(arrival) => {
                let packet = back.len();
                back.push(0);
                let mut evicted = Vec::new();
                match discipline.enqueue(&mut (), packet, &arrival, clock, |it| evicted.push(it)) {
                    Fate::Queued => inside += 1,
                    Fate::Refused(refused) => {
                        prop_assert_eq!(refused, packet);
                        prop_assert!(evicted.is_empty(), "evicted for a packet that is refused");
                        back[refused] += 1;
                    }
                }
                for evicted in evicted {
                    back[evicted] += 1;
                    inside -= 1;
                }
            }
            Step::Dequeue => match discipline.dequeue(&mut (), clock) {
                Next::Packet(packet) => {
                    back[packet] += 1;
                    inside -= 1;
                }
                Next::Wait { .. } => prop_assert_ne!(inside, 0),
                Next::Nothing => prop_assert_eq!(inside, 0),
            },
            Step::Clear => {
                discipline.clear(&mut (), |packet| {
                    back[packet] += 1;
                    inside -= 1;
                });
                prop_assert_eq!(inside, 0);
            }
        }
        prop_assert_eq!(discipline.packets(), inside);
    }
    discipline.clear(&mut (), |packet| back[packet] += 1);
    prop_assert!(back.iter().all(|&times| times == 1), "{:?}", back);
    Ok(())
}

fn steps<A: std::fmt::Debug + Clone>(
    arrival: impl Strategy<Value = A>,
) -> impl Strategy<Value = Vec<Step<A>>> {
    let step = prop_oneof![
        60 => arrival.prop_map(Step::Enqueue),
        39 => Just(Step::Dequeue),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn pfabric(
        packets in 1..40_u32,
        bytes in prop_oneof![Just(0_u32), 1..60_000_u32],
        starvation_prevention in any::<bool>(),
        steps in steps((0..8_u32, 0..5_u32, 1..9_000_u32).prop_map(|(rank, flow, len)| Arrival {
            rank,
            flow,
            len,
        })),
    ) {
        let limits = Limits { packets, bytes, starvation_prevention };
        let queue = PFabric::<usize, Heap>::new(limits).unwrap();
        conserve(queue, steps)?;
    }
}
