// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results in the format of `weft run`, without a fabric: deterministic for given numbers.

use weft_load::record::{Class, FORMAT, Flow, Gate, Header, Limit, PortSample, Summary, Workload};
use weft_load::statistics::Buckets;

pub(crate) const BUCKETS: [u64; 3] = [100_000, 1_000_000, 10_000_000];
pub(crate) const DILATION: f64 = 1000.0;

/// The result of a run.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) header: Header,
    pub(crate) flows: Vec<Flow>,
    pub(crate) ports: Vec<PortSample>,
    pub(crate) summary: Summary,
}

/// Pseudorandom numbers from 0 to 1: Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn gates(valid: bool) -> Vec<Gate> {
    let lag = if valid { 0.014 } else { 4.177_303_9 };
    vec![
        Gate::new(
            "timer lateness, mean",
            Some(0.0014),
            Limit::AtMost(0.05),
            "packet times",
        ),
        Gate::new(
            "generator lag, mean",
            Some(lag),
            Limit::AtMost(0.5),
            "packet times",
        ),
        Gate::new("idle processor", Some(61.3), Limit::AtLeast(5.0), "%"),
    ]
}

/// A run of a scheme whose flows take about `slowness` times the best possible. The same seed has
/// the same flows under every scheme, as in `weft run`.
pub(crate) fn sample(scheme: &str, seed: u64, flows: u64, slowness: f64) -> Sample {
    let mut random = Random(seed);
    let flow = |id: u64| {
        // Between 1 kB and 30 MB, uniform in the logarithm.
        let size = 1_000.0 * 30_000_f64.powf(random.next());
        let slowdown = 1.0 + (slowness - 1.0) * -2.0 * (1.0 - random.next()).ln().max(-6.0);
        // 10 Gbit/s, 5 µs away.
        let fct = (slowdown * (5_000.0 + size * 0.8)).round() as u64;
        Flow {
            id,
            src: (id % 16) as u32,
            dst: ((id + 5) % 16) as u32,
            class: Class::Background,
            warm_up: id < flows / 10,
            start_ns: id * 135_000,
            size: size as u64,
            fct_ns: Some(fct),
            deadline_ns: None,
            priority: None,
            slowdown: Some(slowdown),
            retransmissions: id % 3,
            spurious: Some(id % 2),
            timeouts: Some(u64::from(id.is_multiple_of(50))),
            hops: None,
            partial: None,
        }
    };
    let flows: Vec<Flow> = (0..flows).map(flow).collect();
    let mut ports = Vec::new();
    for tick in 0..4 * flows.len() as u64 / 3 {
        for port in 0..6_u64 {
            let packets = (random.next() * slowness * 10.0) as u64;
            if packets > 0 {
                ports.push(PortSample {
                    time_ns: tick * 123_000,
                    node: format!("edge{port}"),
                    port: "agg0".into(),
                    backlog_packets: packets,
                    backlog_bytes: packets * 1514,
                    busy_ns: tick * 60_000,
                    ..PortSample::default()
                });
            }
        }
        // The backlog of a host is not a switch's.
        ports.push(PortSample {
            time_ns: tick * 123_000,
            node: "h0".into(),
            port: "edge0".into(),
            host: true,
            backlog_packets: 3_000,
            backlog_bytes: 4_500_000,
            busy_ns: tick * 60_000,
            ..PortSample::default()
        });
    }
    let options = "fat-tree:k=4 --dilation 1000 --workload web-search --load 0.6 --flows";
    let mut options: Vec<String> = options.split(' ').map(str::to_owned).collect();
    options.push(flows.len().to_string());
    let header = Header {
        format: FORMAT,
        weft: "0.1.0".into(),
        kernel: Some("7.2.12+deb14-amd64".into()),
        clock: None,
        seed,
        topology: "fat-tree:k=4".into(),
        scheme: scheme.into(),
        parameters: [("buffer".to_owned(), "150".to_owned())].into(),
        workload: Workload {
            sizes: "web-search".into(),
            arrivals: "poisson".into(),
            pairs: "uniform".into(),
            load: Some("0.6 of host links (wire bytes)".into()),
            collective: None,
            incast: None,
            added: Vec::new(),
            deadline: None,
            priorities: None,
            flows: flows.len() as u64,
            warm_up: 0.1,
            no_cool_down: false,
        },
        dilation: DILATION,
        buckets: BUCKETS.to_vec(),
        options,
        inputs: std::collections::BTreeMap::new(),
        inherited: std::collections::BTreeMap::new(),
    };
    let mut sample = Sample {
        header,
        flows,
        ports,
        summary: Summary::new(&[], &Buckets::default(), Vec::new(), None),
    };
    sample.summarize(true);
    sample
}

impl Sample {
    /// Adds the summary; an invalid run has a failed gate.
    pub(crate) fn summarize(&mut self, valid: bool) {
        let buckets = Buckets::new(&BUCKETS).unwrap();
        self.summary = Summary::new(&self.flows, &buckets, gates(valid), Some(0.0123));
    }
}
