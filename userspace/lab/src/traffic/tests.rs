// SPDX-License-Identifier: MIT OR Apache-2.0

use std::fs;
use std::num::NonZeroU32;

use weft_load::arrivals::Process;

use super::*;

fn pairs(text: &str) -> Vec<(u32, u32)> {
    let topology = topology::parse("bfc-testbed:sender1=2,sender3=3").unwrap();
    let flows = added(&topology, text).unwrap();
    flows.iter().map(|flow| (flow.src, flow.dst)).collect()
}

fn drawn(load: f64, pairs: &str) -> Drawn {
    Drawn {
        sizes: "fixed:1MB".to_owned(),
        load,
        load_of: LoadLinks::Host,
        counted: Counted::Wire,
        arrivals: "poisson".parse().unwrap(),
        pairs: pairs.parse().unwrap(),
    }
}

/// One of three hosts has a link with a tenth of the rate.
#[test]
fn a_load_is_that_of_the_busiest_links() {
    let link = |(n, rate): (usize, &str)| {
        format!("[[link]]\nends = [\"h{n}\", \"s\"]\nrate = \"{rate}\"\ndelay = \"1us\"\n")
    };
    let links: String = ["10gbit", "1gbit", "10gbit"]
        .into_iter()
        .enumerate()
        .map(link)
        .collect();
    let text = "hosts = [\"h0\", \"h1\", \"h2\"]\nswitches = [\"s\"]\n".to_owned() + &links;
    let path = std::env::temp_dir().join(format!("weft-unequal-{}.toml", std::process::id()));
    fs::write(&path, text).unwrap();
    let topology = topology::parse(path.to_str().unwrap());
    fs::remove_file(&path).unwrap();
    let topology = topology.unwrap();
    let of = |pairs: &str| {
        let drawn = drawn(0.5, pairs);
        drawn.load_of(&topology, &drawn.pairs.on(&topology, 1).unwrap())
    };
    let (rate, share) = (1e9, 1.0 / 3.0);
    match of("uniform") {
        LoadOf::Host { rate: r, share: s } => assert!(r == rate && (s - share).abs() < 1e-12),
        LoadOf::Core { .. } => panic!(),
    }
    // Half of the flows are from h1, whose link has five times the load of the receiver's.
    let slow = LoadOf::Host { rate, share: 0.5 };
    assert_eq!(of("all-to-one:h2"), slow);
}

/// The load of the core that `pairs` cause on a dumbbell with three hosts on the left and two
/// on the right.
fn of_core(pairs: &str) -> (f64, f64) {
    let topology = topology::parse("dumbbell:left=3,right=2").unwrap();
    let drawn = Drawn {
        load_of: LoadLinks::Core,
        ..drawn(0.5, pairs)
    };
    match drawn.load_of(&topology, &drawn.pairs.on(&topology, 1).unwrap()) {
        LoadOf::Core { rate, share } => (rate, share),
        LoadOf::Host { .. } => panic!(),
    }
}

#[test]
fn a_load_of_the_core_is_that_of_the_busiest_direction() {
    let is = |pairs, rate, share: f64| {
        let (r, s) = of_core(pairs);
        assert!(r == rate && (s - share).abs() < 1e-12, "{pairs}: {r} {s}");
    };
    // One rack sends, and the other one's uplink is idle.
    is("left-right", 10e9, 1.0);
    is("h4-left", 10e9, 1.0);
    // Three of the four senders are on the other side, and none sends in the other direction.
    is("all-to-one:h3", 10e9, 0.75);
    // The same in both directions.
    is("uniform", 20e9, 0.6);
}

/// 20 hosts of 1 Gbit/s are on each side of a link of 10 Gbit/s, so hosts have half the load.
/// At 90 %, the time is half a flow's time on that link over (1 - √0.9)², 189.9 flows' times,
/// of which 170.9 have arrivals; at 40 % hosts take longer: 1.636 of their flows' times, each
/// of which has 4 arrivals.
#[test]
fn a_warm_up_is_as_long_as_the_slowest_links_need() {
    let spec = "dumbbell:left=20,right=20,host-rate=1gbit,bottleneck-rate=10gbit";
    let topology = topology::parse(spec).unwrap();
    let framing = Framing::ethernet_tcp(1500, true).unwrap();
    let all = |load| {
        let traffic = Traffic {
            background: Some(Origin::Drawn(Drawn {
                load_of: LoadLinks::Core,
                ..drawn(load, "left-right")
            })),
            incasts: None,
            added: Vec::new(),
            deadlines: None,
            priorities: None,
            until: Until::Flows(1000),
            warm_up: None,
            no_cool_down: false,
        };
        let planned = traffic.workload(&topology, &framing, &framing, 1).unwrap();
        planned.workload.flows().unwrap().count()
    };
    assert_eq!(all(0.9), 1171);
    assert_eq!(all(0.4), 1007);
}

/// Flows of one size at 50 %: the time is half a flow's time over (1 - √½)², 5.83 flows' times,
/// of which 2.91 have arrivals.
#[test]
fn a_warm_up_is_as_long_as_the_link_needs_and_at_most_as_long_as_the_measurement() {
    let topology = topology::parse("rack:hosts=2").unwrap();
    let framing = Framing::ethernet_tcp(1500, true).unwrap();
    let traffic = |warm_up, until| Traffic {
        background: Some(Origin::Drawn(drawn(0.5, "all-to-one"))),
        incasts: None,
        added: Vec::new(),
        deadlines: None,
        priorities: None,
        until,
        warm_up,
        no_cool_down: false,
    };
    let flows = |warm_up, until| {
        let planned = traffic(warm_up, until)
            .workload(&topology, &framing, &framing, 1)
            .unwrap();
        let flows: Vec<_> = planned.workload.flows().unwrap().collect();
        (
            flows.len(),
            flows.iter().filter(|flow| flow.warm_up).count(),
        )
    };
    assert_eq!(flows(None, Until::Flows(100)), (103, 3));
    assert_eq!(flows(None, Until::Flows(2)), (4, 2));
    assert_eq!(flows(Some(0.1), Until::Flows(100)), (100, 10));
    assert_eq!(flows(Some(0.0), Until::Flows(100)), (100, 0));
}

#[test]
fn schemes_with_and_without_tags_have_the_same_flows_at_a_payload_load() {
    let topology = topology::parse("rack:hosts=4").unwrap();
    let [untagged, tagged] =
        [false, true].map(|tagged| Framing::ethernet_tcp(1500, tagged).unwrap());
    let flows = |counted, until, framing| {
        let drawn = Drawn {
            sizes: "web-search".to_owned(),
            counted,
            ..drawn(0.8, "uniform")
        };
        let traffic = Traffic {
            background: Some(Origin::Drawn(drawn)),
            incasts: None,
            added: Vec::new(),
            deadlines: None,
            priorities: None,
            until,
            warm_up: None,
            no_cool_down: false,
        };
        let planned = traffic.workload(&topology, framing, &untagged, 1).unwrap();
        planned.workload.flows().unwrap().collect::<Vec<_>>()
    };
    for until in [Until::Flows(5000), Until::Time(2_000_000_000)] {
        let [one, other] = [&untagged, &tagged].map(|it| flows(Counted::Payload, until, it));
        assert_eq!(one, other);
    }
    // The warm-up has the same number of flows, and their rate is what the wire has time for.
    let [one, other] = [&untagged, &tagged].map(|it| flows(Counted::Wire, Until::Flows(5000), it));
    assert_eq!(one.len(), other.len());
    assert!(one[one.len() - 1].start_ns < other[other.len() - 1].start_ns);
}

#[test]
fn a_group_selects_each_of_its_hosts() {
    assert_eq!(pairs("h0-h1:1MB"), [(0, 1)]);
    assert_eq!(pairs("sender1-receiver2:1MB"), [(0, 7), (1, 7)]);
    assert_eq!(
        pairs("sender3-h0:2x1MB"),
        [3, 3, 4, 4, 5, 5].map(|src| (src, 0))
    );
    assert_eq!(pairs("sender1-sender1:1MB"), [(0, 1), (1, 0)]);
    assert_eq!(pairs("sender1-h1:1MB"), [(0, 1)]);
}

/// Hosts around one switch, from a file of this name.
fn star(file: &str, hosts: &[&str]) -> Topology {
    let link = |host: &&str| {
        format!("[[link]]\nends = [\"{host}\", \"s\"]\nrate = \"10gbit\"\ndelay = \"1us\"\n")
    };
    let links: String = hosts.iter().map(link).collect();
    let path = in_a_file(
        &format!("{file}.toml"),
        &format!("hosts = {hosts:?}\nswitches = [\"s\"]\n{links}"),
    );
    let topology = topology::parse(&path);
    fs::remove_file(path).unwrap();
    topology.unwrap()
}

fn in_a_file(name: &str, text: &str) -> String {
    let name = format!("weft-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn of_a_list(topology: &Topology, text: &str) -> Result<Vec<(u32, u32)>> {
    // Tests run at the same time, so each needs its own file.
    let path = in_a_file(&format!("{:?}.txt", std::thread::current().id()), text);
    let pairs = path.parse::<Pattern>().unwrap().on(topology, 1);
    fs::remove_file(path).unwrap();
    Ok(pairs?.all().into_iter().map(|(pair, _)| pair).collect())
}

fn of_a_trace(path: &str) -> Traffic {
    Traffic {
        background: Some(Origin::Trace(path.to_owned())),
        incasts: None,
        added: Vec::new(),
        deadlines: None,
        priorities: None,
        until: Until::TraceEnd,
        warm_up: None,
        no_cool_down: false,
    }
}

/// A mistaken unit would make a run that never ends.
#[test]
fn a_trace_is_no_longer_than_a_run() {
    let topology = topology::parse("rack:hosts=4").unwrap();
    let framing = Framing::ethernet_tcp(1500, true).unwrap();
    let refused = |last: &str| {
        let path = in_a_file(
            &format!("long-{last}.txt"),
            &format!("{last} h1 h2 9\n0 h0 h1 9\n"),
        );
        let planned = of_a_trace(&path).workload(&topology, &framing, &framing, 1);
        fs::remove_file(path).unwrap();
        planned.err().map(|error| error.to_string())
    };
    assert_eq!(refused("99999999999999"), None);
    let said = refused("100000000000000").unwrap();
    let expected =
        "the last flow starts after 100000 s, but a run has at most 100000 s of the fabric";
    assert!(said.contains(expected), "{said}");
    assert!(refused("18446744073709551615").is_some());
}

#[test]
fn files_name_hosts_or_give_their_positions() {
    let topology = star("names", &["h1", "h2", "h3", "a-b"]);
    let path = in_a_file("trace.txt", "0 h1 h2 1000\n5 h2 a-b 10\n9 1 3 10\n");
    let traffic = of_a_trace(&path);
    let framing = Framing::ethernet_tcp(1500, true).unwrap();
    let planned = traffic.workload(&topology, &framing, &framing, 1).unwrap();
    fs::remove_file(path).unwrap();
    let flows = planned.workload.flows().unwrap();
    let pairs: Vec<_> = flows.map(|flow| (flow.src, flow.dst)).collect();
    assert_eq!(pairs, [(0, 1), (1, 3), (1, 3)]);
    let pairs = of_a_list(&topology, "h3 h1\n0 3\n").unwrap();
    assert_eq!(pairs, [(2, 0), (0, 3)]);
    let refused = |text| of_a_list(&topology, text).unwrap_err().to_string();
    let expected = "there is no host `h0`: expected a name such as h1, or a place from 0 to 3";
    assert!(
        refused("h1 h0\n").ends_with(expected),
        "{}",
        refused("h1 h0\n")
    );
    // Generated fabrics name hosts by index.
    let rack = topology::parse("rack:hosts=4").unwrap();
    assert_eq!(of_a_list(&rack, "h3 0\n1 h2\n").unwrap(), [(3, 0), (1, 2)]);
}

#[test]
fn names_of_both_ends_may_have_a_hyphen() {
    let topology = star("hyphens", &["a-b", "c", "rack-1-h0", "a"]);
    let of = |text: &str| {
        let flows = added(&topology, &format!("{text}:1MB"))?;
        let pairs = text.parse::<Pattern>()?.on(&topology, 1)?.all();
        let flows: Vec<_> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
        let pairs: Vec<_> = pairs.into_iter().map(|(pair, _)| pair).collect();
        assert_eq!(flows, pairs);
        anyhow::Ok(flows)
    };
    assert_eq!(of("a-b-c").unwrap(), [(0, 1)]);
    assert_eq!(of("c-a-b").unwrap(), [(1, 0)]);
    assert_eq!(of("rack-1-h0-a-b").unwrap(), [(2, 0)]);
    assert_eq!(of("a-b-rack-1-h0").unwrap(), [(0, 2)]);
    assert_eq!(of("c-a").unwrap(), [(1, 3)]);
    let refused = |text| of(text).unwrap_err().to_string();
    assert!(
        refused("rack-1-h0-d").contains("no host or group `d`"),
        "{}",
        refused("rack-1-h0-d")
    );
    assert!(
        refused("d-a-b").contains("no host or group `d`"),
        "{}",
        refused("d-a-b")
    );
    let topology = star("both", &["a", "b-c", "a-b", "c"]);
    let error = added(&topology, "a-b-c:1MB").unwrap_err().to_string();
    let expected = "a-b-c is from a to b-c as well as from a-b to c: give one of them another name";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn patterns_are_written_as_they_are_read() {
    for text in [
        "uniform",
        "permutation",
        "intra-rack",
        "local:0.5",
        "local:0.25",
        "all-to-one",
        "all-to-one:h3",
        "without:h3",
        "left-right",
        "h1-rack0",
        "./mine",
        "pairs.txt",
    ] {
        assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
    }
    assert_eq!(
        "local:0.50".parse::<Pattern>().unwrap(),
        Pattern::Local(0.5)
    );
    assert!("everybody".parse::<Pattern>().is_err());
    for fraction in ["0", "1", "-0.5", "2", "nan", "", "half", "local:0.5"] {
        let refused = format!("local:{fraction}").parse::<Pattern>().unwrap_err();
        let expected = "expected a fraction above 0 and below 1, such as local:0.5";
        assert!(refused.to_string().ends_with(expected), "{refused}");
    }
}

/// With half as many uplinks as hosts and half of the flows local, all links have the same load.
#[test]
fn local_pairs_load_the_links_of_hosts_and_racks_alike() {
    let topology = topology::parse("leaf-spine:leaves=4,spines=2,hosts=4,rate=10gbit").unwrap();
    let load_of = |load_of, pairs: &str| {
        let drawn = Drawn {
            load_of,
            ..drawn(0.5, pairs)
        };
        match drawn.load_of(&topology, &drawn.pairs.on(&topology, 1).unwrap()) {
            LoadOf::Host { rate, share } | LoadOf::Core { rate, share } => share / rate,
        }
    };
    let of = |pairs| [LoadLinks::Core, LoadLinks::Host].map(|it| load_of(it, pairs));
    let [core, hosts] = of("local:0.5");
    assert!((core / hosts - 1.0).abs() < 1e-9, "{core} {hosts}");
    let [core, hosts] = of("local:0.75");
    assert!((core / hosts - 0.5).abs() < 1e-9, "{core} {hosts}");
}

#[test]
fn local_pairs_that_do_not_fit_are_refused() {
    let framing = Framing::ethernet_tcp(1500, true).unwrap();
    let refused = |topology: &str, arrivals: &str| {
        let traffic = Traffic {
            background: Some(Origin::Drawn(Drawn {
                arrivals: arrivals.parse().unwrap(),
                ..drawn(0.5, "local:0.5")
            })),
            incasts: None,
            added: Vec::new(),
            deadlines: None,
            priorities: None,
            until: Until::Flows(10),
            warm_up: None,
            no_cool_down: false,
        };
        let topology = topology::parse(topology).unwrap();
        let planned = traffic.workload(&topology, &framing, &framing, 1);
        planned.err().map(|error| error.to_string())
    };
    let fits = "leaf-spine:leaves=2,spines=1,hosts=2";
    assert_eq!(refused(fits, "poisson"), None);
    for (topology, arrivals, expected) in [
        (
            "rack:hosts=4",
            "poisson",
            "there is only one rack, so no flow can leave it",
        ),
        (
            "leaf-spine:leaves=2,spines=1,hosts=1",
            "poisson",
            "no rack has two hosts, so none can send within it",
        ),
        (
            "dumbbell:left=3,right=1",
            "poisson",
            "host 3 is alone in its rack, so none of its flows can stay there",
        ),
        (
            fits,
            "closed:2",
            "--pairs local:0.5: with --arrivals closed all pairs have equally many flows",
        ),
    ] {
        assert_eq!(refused(topology, arrivals).as_deref(), Some(expected));
    }
}

#[test]
fn a_pattern_whose_name_is_also_a_pair_is_refused() {
    for (text, names, pair) in [
        ("intra-rack", ["intra", "rack", "h2"], "from intra to rack"),
        ("all-to-one", ["all-to", "h1", "one"], "from all-to to one"),
    ] {
        let pattern: Pattern = text.parse().unwrap();
        let topology = star(&format!("pattern-{}", names[0]), &names);
        let error = pattern.on(&topology, 1).unwrap_err().to_string();
        assert!(
            error.contains(&format!("--pairs {text} is a pattern as well as {pair}")),
            "{error}"
        );
        let others = star(&format!("others-{}", names[0]), &[names[0], "h1", "h2"]);
        pattern.on(&others, 1).unwrap();
    }
}

#[test]
fn a_pattern_pairs_all_hosts_except_those_without_flows() {
    let topology = topology::parse("rack:hosts=4").unwrap();
    let on = |text: &str| text.parse::<Pattern>().unwrap().on(&topology, 1);
    let mut pairs = on("without:h1").unwrap().all();
    pairs.sort_by_key(|(pair, _)| *pair);
    let expected = [(0, 2), (0, 3), (2, 0), (2, 3), (3, 0), (3, 2)];
    let all: Vec<_> = pairs.iter().map(|(pair, _)| *pair).collect();
    assert_eq!(all, expected);
    assert!(
        pairs
            .iter()
            .all(|(_, share)| (share - 1.0 / 6.0).abs() < 1e-12)
    );
    assert!(on("without:h9").is_err());
}

#[test]
fn arrivals_are_open_or_closed() {
    let of = |text: &str| text.parse::<Arrivals>().map(|it| it.when);
    assert_eq!(of("poisson").unwrap(), When::Open(Process::Poisson));
    assert_eq!(of("balanced").unwrap(), When::Open(Process::Balanced));
    let lognormal = When::Open(Process::LogNormal { sigma: 1.5 });
    assert_eq!(of("lognormal:1.5").unwrap(), lognormal);
    assert_eq!(of("closed").unwrap(), When::Closed(NonZeroU32::MIN));
    let three = NonZeroU32::new(3).unwrap();
    assert_eq!(of("closed:3").unwrap(), When::Closed(three));
    for text in ["closed:0", "closed3", "often", "lognormal:x", "poissonian"] {
        assert!(of(text).is_err(), "{text}");
    }
}
