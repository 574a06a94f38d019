// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every error message of a specification.

use weft_topo::{Delay, Rate, Spec};

fn refusal(text: &str) -> String {
    text.parse::<Spec>().expect_err(text).to_string()
}

#[test]
fn the_error_for_an_unknown_topology_names_the_nearest_and_all() {
    let known = format!(
        "known are {}, or a TOML file",
        weft_topo::spec::KINDS.join(", ")
    );
    for (text, kind, nearest) in [
        ("fattree:k=4", "fattree", "fat-tree"),
        ("leafspine", "leafspine", "leaf-spine"),
        ("bfc", "bfc", "bfc-testbed"),
        ("Rack:hosts=4", "Rack", "rack"),
        ("", "", ""),
        ("xyzzy", "xyzzy", ""),
    ] {
        let meant = if nearest.is_empty() {
            String::new()
        } else {
            format!("; nearest is {nearest}")
        };
        let expected = format!("There is no topology \"{kind}\"{meant}; {known}");
        assert_eq!(refusal(text), expected);
    }
}

#[test]
fn the_error_for_an_unknown_option_names_the_nearest_and_all() {
    assert_eq!(
        refusal("rack:host=4"),
        "rack has no option \"host\"; nearest is hosts; known are hosts, rate, delay, host-rate, \
         host-delay"
    );
    assert_eq!(
        refusal("rack:oversubscription=2"),
        "rack has no option \"oversubscription\"; known are hosts, rate, delay, host-rate, \
         host-delay"
    );
}

#[test]
fn an_option_is_a_name_and_a_value_given_once() {
    for text in ["rack:", "rack:hosts=4,", "rack:4", "rack:=4", "rack:hosts="] {
        let word = text
            .trim_start_matches("rack:")
            .trim_start_matches("hosts=4,");
        let expected = format!(
            "\"{word}\" is not an option of rack: write NAME=VALUE, NAME being one of hosts, \
             rate, delay, host-rate, host-delay"
        );
        assert_eq!(refusal(text), expected);
    }
    assert_eq!(
        refusal("rack:hosts=4,hosts=5"),
        "rack: hosts is given twice; give it once"
    );
}

#[test]
fn the_error_for_a_number_out_of_range_has_the_range() {
    for (kind, name, low, high) in [
        ("fat-tree", "k", 2, 32),
        ("leaf-spine", "leaves", 2, 256),
        ("leaf-spine", "spines", 1, 256),
        ("leaf-spine", "hosts", 1, 253),
        ("leaf-spine", "oversubscription", 1, 1000),
        ("rack", "hosts", 2, 253),
        ("dumbbell", "left", 1, 253),
        ("dumbbell", "right", 1, 253),
        ("bfc-testbed", "sender1", 1, 126),
        ("bfc-testbed", "sender3", 1, 126),
    ] {
        for bad in [
            (low - 1).to_string(),
            (high + 1).to_string(),
            "-1".into(),
            "+3".into(),
            "4.5".into(),
            "many".into(),
            "99999999999999999999".into(),
        ] {
            let expected = format!(
                "{kind}: {name} must be a whole number from {low} to {high}, not \"{bad}\""
            );
            assert_eq!(refusal(&format!("{kind}:{name}={bad}")), expected);
        }
    }
}

#[test]
fn the_error_for_an_odd_k_names_its_even_neighbours() {
    assert_eq!(
        refusal("fat-tree:k=5"),
        "fat-tree: k must be even, for half of a switch's ports go up; write k=4 or k=6"
    );
}

#[test]
fn the_error_for_too_many_nodes_has_their_number() {
    assert_eq!(
        refusal("leaf-spine:leaves=100,spines=4,hosts=100"),
        "leaf-spine: 10104 nodes are more than 10000; give fewer leaves, or fewer hosts a leaf"
    );
}

#[test]
fn oversubscription_and_the_rate_it_sets_exclude_each_other() {
    for (kind, rate) in [
        ("fat-tree", "fabric-rate"),
        ("fat-tree", "edge-rate"),
        ("fat-tree", "core-rate"),
        ("leaf-spine", "fabric-rate"),
        ("dumbbell", "bottleneck-rate"),
        ("dumbbell", "fabric-rate"),
    ] {
        assert_eq!(
            refusal(&format!("{kind}:{rate}=1gbit,oversubscription=2")),
            format!("{kind}: oversubscription sets {rate}; give one of the two")
        );
    }
}

#[test]
fn an_oversubscription_that_leaves_no_possible_rate_is_refused() {
    let end = "which are not between 1kbit and 400gbit; choose another, or give the rates";
    assert_eq!(
        refusal("fat-tree:rate=10kbit,oversubscription=11"),
        format!("fat-tree: oversubscription=11 makes links of 904 bit/s, {end}")
    );
    assert_eq!(
        refusal("leaf-spine:spines=1,hosts=100,oversubscription=1"),
        format!("leaf-spine: oversubscription=1 makes links of 1000000000000 bit/s, {end}")
    );
}

#[test]
fn the_error_for_a_rate_or_delay_names_its_option() {
    assert_eq!(
        refusal("rack:host-rate=10"),
        "rack: host-rate: \"10\" is not a rate: write a number and one of bit, kbit, mbit, gbit, \
         for example 10gbit"
    );
    assert_eq!(
        refusal("fat-tree:core-delay=1h"),
        "fat-tree: core-delay: \"1h\" is not a delay: write a number and one of ns, us, ms, s, \
         for example 200ns"
    );
}

#[test]
fn the_option_of_a_layer_overrides_a_general_one_in_any_order() {
    for text in [
        "fat-tree:rate=1gbit,fabric-rate=2gbit,core-rate=3gbit",
        "fat-tree:core-rate=3gbit,fabric-rate=2gbit,rate=1gbit",
    ] {
        let spec = text.parse::<Spec>().unwrap();
        let rate = |layer| {
            let fabric = spec.topology();
            let link = fabric
                .links()
                .iter()
                .find(|link| link.layer == layer)
                .unwrap()
                .clone();
            link.wire.rate.bits_per_second() / 1_000_000_000
        };
        assert_eq!([rate("host"), rate("edge"), rate("core")], [1, 2, 3]);
    }
}

#[test]
fn rates_are_parsed_as_tc_does() {
    for (text, bits) in [
        ("10gbit", 10_000_000_000),
        ("2.5Gbit", 2_500_000_000),
        ("0.001mbit", 1_000),
        ("1000bit", 1_000),
        ("400GBIT", 400_000_000_000),
    ] {
        assert_eq!(
            text.parse::<Rate>().unwrap().bits_per_second(),
            bits,
            "{text}"
        );
    }
    for text in [
        "", "gbit", "1", "1 gbit", ".5gbit", "1.gbit", "-1gbit", "1e3bit", "1gb", "1bps",
    ] {
        let said = text.parse::<Rate>().unwrap_err().to_string();
        assert!(
            said.starts_with(&format!("\"{text}\" is not a rate: ")),
            "{said}"
        );
    }
    let range = "is not between 1kbit and 400gbit, or not a whole number of bit/s";
    for text in [
        "0bit",
        "992bit",
        "400.000000008gbit",
        "99999999999999999999gbit",
        "1000.5bit",
    ] {
        assert_eq!(
            text.parse::<Rate>().unwrap_err().to_string(),
            format!("\"{text}\" {range}")
        );
    }
    assert_eq!(
        "1001bit".parse::<Rate>().unwrap_err().to_string(),
        "\"1001bit\" is no whole number of bytes per second: write a multiple of 8 bit/s"
    );
}

#[test]
fn delays_are_parsed_as_tc_does() {
    for (text, ns) in [
        ("0ns", 0),
        ("2.7us", 2_700),
        ("62.5US", 62_500),
        ("10s", 10_000_000_000),
    ] {
        assert_eq!(text.parse::<Delay>().unwrap().ns(), ns, "{text}");
    }
    for text in ["", "us", "1", "1m", "1.us", "-1us", "1,5us"] {
        let said = text.parse::<Delay>().unwrap_err().to_string();
        assert!(
            said.starts_with(&format!("\"{text}\" is not a delay: ")),
            "{said}"
        );
    }
    let range = "is not between 0ns and 10s, or not a whole number of ns";
    for text in [
        "10.000000001s",
        "0.5ns",
        "0.0000000000000000000000000000000000000001s",
    ] {
        assert_eq!(
            text.parse::<Delay>().unwrap_err().to_string(),
            format!("\"{text}\" {range}")
        );
    }
    assert_eq!(Delay::new(10_000_000_001), None);
}

#[test]
fn rates_and_delays_are_displayed_in_the_largest_unit_that_keeps_them_whole() {
    for text in ["10gbit", "2500mbit", "1kbit", "1008bit"] {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
    for text in ["0ns", "200ns", "62500ns", "3us", "10s"] {
        assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
    }
}
