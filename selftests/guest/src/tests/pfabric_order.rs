// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `pfabric` sends and drops, seen on the wire behind it, is what §4.1 of the paper says.

use std::time::Duration;

use anyhow::{Result, ensure};
use weft_mechanisms::pfabric::options::{Config, Options};

use crate::clock::monotonic;
use crate::model::{self, Packet};
use crate::netlink::{Handle, Nest, Verb};
use crate::packets::MIN_FRAME;
use crate::port::{INDEX, Port, rate};
use crate::random::Random;
use weft_ktap::{Context, tests};

tests![
    #[exact = "each system call has 1 ms"]
    order_and_drops_equal_the_model,
    #[exact = "each system call has 1 ms"]
    changes_keep_the_most_urgent_packets,
    the_least_urgent_packet_is_dropped,
    of_equally_urgent_packets_the_latest_is_dropped,
    the_earliest_packet_of_the_most_urgent_flow_is_sent,
    without_starvation_prevention_the_most_urgent_packet_is_sent,
    every_rank_of_32_bits_counts,
    a_gso_packet_is_one_packet_with_the_bytes_of_all_its_frames,
];

/// Slow: the shortest frame takes 4.3 ms, and a burst is sent within less.
const RATE: u64 = 100_000;
/// How near to the wire's choice of a packet none is sent, as clock and model differ by the time a
/// system call takes.
const MARGIN: u64 = 1_000_000;
/// Longer than any backlog here.
const PATIENCE: Duration = Duration::from_secs(60);

const WIRE: Handle = Handle::new(1, 0);
const PFABRIC: Handle = Handle::new(2, 0);

/// What may happen to a port.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { rank: u32, flow: u32, len: u32 },
    Pause(Duration),
    Change(Options),
}

/// Sends a burst of packets of equal length.
fn burst(packets: &[(u32, u32)]) -> Vec<Step> {
    packets
        .iter()
        .map(|&(rank, flow)| Step::Send {
            rank,
            flow,
            len: 100,
        })
        .collect()
}

/// The machine was away for so long that the model cannot know what came first.
#[derive(Debug)]
struct Disturbed;

impl std::fmt::Display for Disturbed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the machine is too busy for this test: a system call took over 1 ms")
    }
}

impl std::error::Error for Disturbed {}

/// Plays `steps` until the machine does so undisturbed, which in virtual time is the first time.
fn play(port: &mut Port, options: &Options, steps: &[Step]) -> Result<(Vec<u64>, model::PFabric)> {
    const ATTEMPTS: u32 = 20;
    let mut attempt = 1;
    loop {
        let result = play_once(port, options, steps);
        match &result {
            Err(error) if error.is::<Disturbed>() && attempt < ATTEMPTS => {
                port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
                attempt += 1;
            }
            _ => return result,
        }
    }
}

/// Plays `steps` on a port with a fresh `wire` and `pfabric` and compares everything that can be
/// seen with the model. Returns what arrived and the model.
fn play_once(
    port: &mut Port,
    options: &Options,
    steps: &[Step],
) -> Result<(Vec<u64>, model::PFabric)> {
    port.add_wire_and_pfabric(&rate(RATE), options)?;
    let config = Config::new(options).map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    let mut model = model::PortModel::new(config, RATE / 8);
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let mut next_id = 0;
    for &step in steps {
        if let Step::Pause(time) = step {
            std::thread::sleep(time);
            continue;
        }
        let mut now = monotonic();
        model.advance(now - MARGIN);
        while model
            .next_choice()
            .is_some_and(|choice| choice < now + MARGIN)
        {
            std::thread::sleep(Duration::from_nanos(2 * MARGIN));
            now = monotonic();
            model.advance(now - MARGIN);
        }
        // Whether the packet was taken, by the model and by the kernel.
        let taken = match step {
            Step::Send { rank, flow, len } => {
                let packet = Packet {
                    id: next_id,
                    rank,
                    flow,
                    len,
                };
                next_id += 1;
                (model.arrive(now, packet), sender.send(&packet)?)
            }
            Step::Change(options) => {
                model.change(now, |config| config.updated(&options))?;
                let payload = Nest::of(|nest| options.put(nest));
                port.qdisc(Verb::Change, "pfabric", Handle::new(1, 1), PFABRIC, payload)?;
                (true, true)
            }
            Step::Pause(_) => (true, true),
        };
        if monotonic() - now > MARGIN {
            return Err(Disturbed.into());
        }
        ensure!(
            taken.0 == taken.1,
            "{step:?}: taken by model and kernel: {taken:?}"
        );
    }
    model.advance(u64::MAX);
    port.drain(PATIENCE)?;
    let arrived: Vec<u64> = receiver
        .arrivals()?
        .iter()
        .map(|arrival| arrival.id)
        .collect();
    ensure!(
        arrived == model.sent,
        "the order differs from the model's\n  seen:  {arrived:?}\n  model: {:?}",
        model.sent
    );
    let (_, stats) = port.pfabric(PFABRIC)?;
    let model = model.queue;
    ensure!(
        (stats.evicted, stats.evicted_bytes) == (model.evicted, model.evicted_bytes)
            && (stats.rejected, stats.rejected_bytes) == (model.rejected, model.rejected_bytes)
            && stats.overtaken == model.overtaken
            && stats.highest_backlog == model.highest_backlog
            && stats.highest_backlog_bytes == model.highest_backlog_bytes
            && stats.flows == 0,
        "the statistics differ from the model's\n  seen:  {stats:?}\n  model: {model:?}"
    );
    // A drop counts in the queue and in the wire above it.
    let drops = model.evicted + model.rejected;
    for handle in [WIRE, PFABRIC] {
        let qdisc = port.find(handle)?;
        ensure!(
            u64::from(qdisc.drops) == drops,
            "{drops} were dropped, not {}",
            qdisc.drops
        );
        ensure!(
            qdisc.sent_packets as usize == arrived.len(),
            "{} has sent {} packets, not {}",
            qdisc.kind,
            qdisc.sent_packets,
            arrived.len()
        );
    }
    port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
    Ok((arrived, model))
}

fn random_steps(random: &mut Random, count: usize) -> Vec<Step> {
    let flows = random.choose(&[1, 2, 4, 30]);
    let ranks = random.choose(&[1, 2, 4, u32::MAX]);
    let lens: &[u32] = if random.one_in(2) {
        &[100]
    } else {
        &[MIN_FRAME, 64, 100, 576, 1514]
    };
    let pauses = random.choose(&[5, 10, 60]);
    (0..count)
        .flat_map(|_| {
            let pause = random
                .one_in(pauses)
                .then(|| Step::Pause(Duration::from_micros(u64::from(random.between(0, 150_000)))));
            let rank = random.below(ranks);
            let flow = random.below(flows);
            let send = Step::Send {
                rank,
                flow,
                len: random.choose(lens),
            };
            pause.into_iter().chain([send])
        })
        .collect()
}

fn order_and_drops_equal_the_model(cx: &Context) -> Result<()> {
    const SEQUENCES: u64 = 72;
    const PACKETS: usize = 60;
    let mut port = Port::new()?;
    let (mut evicted, mut rejected, mut overtaken, mut sent) = (0, 0, 0, 0);
    for seed in 0..SEQUENCES {
        let options = Options {
            limit: [Some(1), Some(3), Some(24)][seed as usize % 3],
            limit_bytes: [None, Some(1514), Some(4000)][seed as usize / 3 % 3],
            starvation_prevention: Some(seed / 9 % 2 == 0),
        };
        let steps = random_steps(&mut Random::new(seed), PACKETS);
        let (arrived, model) = play(&mut port, &options, &steps)
            .map_err(|error| error.context(format!("sequence {seed}, {options:?}")))?;
        sent += arrived.len();
        evicted += model.evicted;
        rejected += model.rejected;
        overtaken += model.overtaken;
    }
    cx.note(format!(
        "{SEQUENCES} sequences of {PACKETS} packets: {sent} sent, {evicted} evicted, \
         {rejected} rejected, {overtaken} overtaken"
    ));
    // Each of the things that can happen did happen.
    ensure!(evicted > 100 && rejected > 100 && overtaken > 100);
    Ok(())
}

fn changes_keep_the_most_urgent_packets(cx: &Context) -> Result<()> {
    const SEQUENCES: u64 = 30;
    let mut port = Port::new()?;
    let (mut evicted, mut overtaken, mut sent) = (0, 0, 0);
    for seed in 0..SEQUENCES {
        let mut random = Random::new(1000 + seed);
        let mut steps = random_steps(&mut random, 50);
        // Limits shrink and grow, and starvation prevention comes and goes, with a backlog.
        for _ in 0..10 {
            let options = Options {
                limit: random.choose(&[None, Some(1), Some(4), Some(24), Some(60)]),
                limit_bytes: random.choose(&[None, Some(0), Some(1514), Some(9000)]),
                starvation_prevention: random.choose(&[None, Some(false), Some(true)]),
            };
            steps.insert(
                random.below(steps.len() as u32) as usize,
                Step::Change(options),
            );
        }
        let options = Options {
            limit: Some(24),
            ..Options::default()
        };
        let (arrived, model) = play(&mut port, &options, &steps)
            .map_err(|error| error.context(format!("sequence {seed}: {steps:?}")))?;
        sent += arrived.len();
        evicted += model.evicted;
        overtaken += model.overtaken;
    }
    cx.note(format!(
        "{SEQUENCES} sequences of 50 packets and 10 changes: {sent} sent, {evicted} evicted, \
         {overtaken} overtaken"
    ));
    ensure!(evicted > 100 && overtaken > 20);
    Ok(())
}

/// Sends a burst into a queue; the first packet passes it and is on the wire meanwhile.
fn burst_arrives_as(limit: u32, starvation: bool, sent: &[(u32, u32)], seen: &[u64]) -> Result<()> {
    let options = Options {
        limit: Some(limit),
        limit_bytes: None,
        starvation_prevention: Some(starvation),
    };
    let (arrived, _) = play(&mut Port::new()?, &options, &burst(sent))?;
    ensure!(arrived == seen, "{arrived:?} arrived, not {seen:?}");
    Ok(())
}

fn the_least_urgent_packet_is_dropped(_: &Context) -> Result<()> {
    let sent = [(0, 0), (5, 1), (9, 2), (7, 3), (6, 4), (8, 5)];
    // 2 (rank 9) is evicted for 4, 5 (rank 8) is the least urgent itself.
    burst_arrives_as(3, true, &sent, &[0, 1, 4, 3])
}

fn of_equally_urgent_packets_the_latest_is_dropped(_: &Context) -> Result<()> {
    let sent = [(0, 0), (5, 1), (5, 2), (5, 3), (5, 4), (1, 5)];
    // 3 and 4 find the queue full of their like; 5 evicts 2, the later of the two.
    burst_arrives_as(2, true, &sent, &[0, 5, 1])
}

/// The paper: "we dequeue the earliest packet of the flow that has the highest-priority packet".
const TWO_FLOWS: [(u32, u32); 6] = [(0, 0), (7, 1), (9, 2), (8, 2), (3, 1), (2, 2)];

fn the_earliest_packet_of_the_most_urgent_flow_is_sent(_: &Context) -> Result<()> {
    // 5 (rank 2) is the most urgent, so its flow's earlier packets 2 and 3 go first. Then 4's.
    burst_arrives_as(10, true, &TWO_FLOWS, &[0, 2, 3, 5, 1, 4])
}

fn without_starvation_prevention_the_most_urgent_packet_is_sent(_: &Context) -> Result<()> {
    burst_arrives_as(10, false, &TWO_FLOWS, &[0, 5, 4, 1, 3, 2])
}

fn every_rank_of_32_bits_counts(_: &Context) -> Result<()> {
    let sent = [
        (0, 0),
        (u32::MAX, 1),
        (1 << 31, 2),
        ((1 << 31) - 1, 3),
        (u32::MAX - 1, 4),
        (0, 5),
    ];
    burst_arrives_as(10, true, &sent, &[0, 5, 3, 2, 4, 1])
}

fn a_gso_packet_is_one_packet_with_the_bytes_of_all_its_frames(_: &Context) -> Result<()> {
    // A payload of 3000 bytes becomes frames of 1000 bytes, each with headers of 42.
    const HEADERS: u32 = 42;
    const LEN: u32 = HEADERS + 3000;
    const ON_THE_WIRE: u32 = 3 * (HEADERS + 1000);
    let mut port = Port::new()?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let of_bytes = |limit_bytes| Options {
        limit_bytes: Some(limit_bytes),
        ..Options::default()
    };
    for (limit_bytes, fits) in [(ON_THE_WIRE, true), (ON_THE_WIRE - 1, false)] {
        port.add_wire_and_pfabric(&rate(RATE), &of_bytes(limit_bytes))?;
        let first = Packet {
            id: 1,
            rank: 0,
            flow: 1,
            len: 100,
        };
        ensure!(sender.send(&first)?, "the first packet was dropped");
        let gso = Packet {
            id: 2,
            rank: 1,
            flow: 2,
            len: LEN,
        };
        ensure!(
            sender.send_gso(&gso, 1000)? == fits,
            "{LEN} bytes in {limit_bytes}: not {fits}"
        );
        let (_, stats) = port.pfabric(PFABRIC)?;
        let bytes = if fits { ON_THE_WIRE } else { 0 };
        let rejected_bytes = if fits { 0 } else { ON_THE_WIRE };
        let backlog = port.find(PFABRIC)?.backlog;
        ensure!(
            backlog == bytes,
            "the backlog is {backlog} bytes, not {bytes}"
        );
        ensure!(
            stats.rejected_bytes == u64::from(rejected_bytes),
            "{stats:?}"
        );
        port.drain(PATIENCE)?;
        let arrived = receiver.arrivals()?.len();
        ensure!(
            arrived == 1 + usize::from(fits),
            "{arrived} packets arrived"
        );
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
    }
    Ok(())
}
