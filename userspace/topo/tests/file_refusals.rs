// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every error message of a topology file.

use weft_topo::Spec;

fn refusal(content: &str) -> String {
    let sentence = Spec::from_toml(content).expect_err(content).to_string();
    assert!(!sentence.contains('\n'), "{sentence}");
    sentence
}

/// A valid file with `replaced` replaced by `by`.
fn with(replaced: &str, by: &str) -> String {
    let good = r#"name = "good"
hosts = ["h0", "h1"]
switches = ["tor0"]
rate = "1gbit"
delay = "1us"
link = [{ ends = ["h0", "tor0"] }, { ends = ["h1", "tor0"], rate = "10gbit" }]
"#;
    assert!(Spec::from_toml(good).is_ok());
    assert!(good.contains(replaced), "{replaced}");
    good.replacen(replaced, by, 1)
}

#[test]
fn malformed_toml_is_refused_with_its_line() {
    for (content, line) in [
        ("hosts = [", 1),
        ("name = \"x\"\nhosts = [\"h0\" \"h1\"]", 2),
        ("name = \"x\"\n\n[[link]\n", 3),
        ("\u{0}", 1),
    ] {
        let said = refusal(content);
        assert!(
            said.starts_with(&format!("The topology file's line {line}: ")),
            "{said}"
        );
    }
}

#[test]
fn invalid_fields_and_values_are_named() {
    for (content, line, words) in [
        (
            with("switches", "swiches"),
            3,
            "unknown field `swiches`, expected one of `name`",
        ),
        (with("hosts =", "# hosts ="), 1, "missing field `hosts`"),
        (
            with("\"1gbit\"", "10"),
            4,
            "invalid type: integer `10`, expected a string",
        ),
        (
            with("rate = \"10gbit\"", "loss = 1"),
            6,
            "unknown field `loss`",
        ),
        (
            with("ends = [\"h0\", \"tor0\"]", "rate = \"1gbit\""),
            6,
            "missing field `ends`",
        ),
        (
            with("rate = \"1gbit\"", "rate = \"1gbit\"\nrate = \"1gbit\""),
            5,
            "duplicate key",
        ),
    ] {
        let said = refusal(&content);
        assert!(
            said.starts_with(&format!("The topology file's line {line}: ")),
            "{said}"
        );
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_title_is_short_and_plain() {
    for bad in ["", "a\\\"b", "a\\\\b", "a\\nb", &"x".repeat(65)] {
        let said = refusal(&with("good", bad));
        assert!(said.starts_with("The name \""), "{said}");
        assert!(said.contains("must be 1 to 64 characters"), "{said}");
    }
}

#[test]
fn one_host_is_not_a_fabric() {
    assert_eq!(
        refusal("hosts = [\"h0\"]"),
        "A fabric has 2 hosts or more, this has 1; name more in hosts = [\"h0\", \"h1\"]"
    );
}

#[test]
fn too_many_nodes_are_counted() {
    let hosts: Vec<_> = (0..10_001).map(|i| format!("h{i}")).collect();
    assert_eq!(
        refusal(&format!("hosts = {hosts:?}")),
        "10001 nodes are more than 10000; leave some out"
    );
}

#[test]
fn names_must_suit_an_interface() {
    for bad in [
        "",
        "H0",
        "a b",
        "a/b",
        "a.b",
        "-a",
        "_a",
        "é",
        "abcdefghijklmnop",
    ] {
        assert_eq!(
            refusal(&with("\"tor0\"]\n", &format!("\"{bad}\"]\n"))),
            format!(
                "\"{bad}\" cannot name a node: names are 1 to 15 of a-z, 0-9, _ and -, and begin \
                 with a letter or digit, for they name network interfaces too"
            )
        );
    }
    for (bad, why) in [
        (
            &["lo", "all", "default"][..],
            "it would name network interfaces, where Linux uses it for something else; choose another",
        ),
        (
            &[
                "sit0",
                "tunl0",
                "gre0",
                "ip6tnl0",
                "ip_vti0",
                "bonding_masters",
            ],
            "it would name network interfaces, and a module of Linux takes that name in every namespace; \
             choose another",
        ),
        (
            &["tap0", "tap12"],
            "weft gives network interfaces of machines such names; choose another",
        ),
        (
            &["localhost", "ip6-localhost", "ip6-allnodes"],
            "/etc/hosts has it for something else; choose another",
        ),
        (
            &["host", "hosts", "switches", "first-host", "last-host"],
            "weft means nodes of a kind by it; choose another",
        ),
    ] {
        for bad in bad {
            assert_eq!(
                refusal(&with("\"tor0\"]\n", &format!("\"{bad}\"]\n"))),
                format!("\"{bad}\" cannot name a node, for {why}")
            );
        }
    }
    // `ping 1` goes to 0.0.0.1, `ping 0x10` to 0.0.0.16.
    for bad in ["1", "010", "08", "4294967296", "0x10", "0xffff", "0x"] {
        assert_eq!(
            refusal(&with("\"tor0\"]\n", &format!("\"{bad}\"]\n"))),
            format!(
                "\"{bad}\" cannot name a node, for programs such as ping read it as an IPv4 address; choose \
                 another, for example \"h{bad}\""
            )
        );
    }
    for (bad, why) in [
        ("host0", "its layer would be \"host\""),
        ("hosts1", "its layer would be \"hosts\""),
    ] {
        assert_eq!(
            refusal(&with("", "").replace("tor0", bad)),
            format!(
                "\"{bad}\" cannot name a switch, for {why}, by which weft means nodes of a kind; choose another"
            )
        );
    }
    assert_eq!(
        refusal(&with("", "").replace("\"h1\"", "\"tor\"")),
        "\"tor\" cannot name a node, for it names the layer of switch \"tor0\"; rename one"
    );
    // Nodes with these names do not conflict with interfaces.
    for good in [
        "tap", "tapir", "tap0-1", "1-2", "1a", "0xg", "x10", "switch", "switch0", "sit1", "host-1",
    ] {
        let text = with("name = \"good\"", "").replace("tor0", good);
        assert!(Spec::from_toml(&text).is_ok(), "{good}");
    }
    assert_eq!(
        refusal(&with("\"tor0\"]\n", "\"h1\"]\n")),
        "Two nodes are named \"h1\"; rename one"
    );
}

#[test]
fn an_error_in_a_link_names_the_link_and_the_missing_field() {
    assert_eq!(
        refusal(&with("[\"h0\", \"tor0\"]", "[\"h0\"]")),
        "Link 1 (h0): a link has 2 ends, not 1; write ends = [\"h0\", \"tor0\"]"
    );
    assert_eq!(
        refusal(&with("[\"h1\", \"tor0\"]", "[\"h1\", \"tor1\"]")),
        "Link 2 (h1 to tor1): there is no node \"tor1\"; nearest is tor0; add it to hosts or \
         switches, or correct it"
    );
    assert_eq!(
        refusal(&with("[\"h1\", \"tor0\"]", "[\"h1\", \"backbone\"]")),
        "Link 2 (h1 to backbone): there is no node \"backbone\"; add it to hosts or switches, or \
         correct it"
    );
    assert_eq!(
        refusal(&with("[\"h0\", \"tor0\"]", "[\"h0\", \"h0\"]")),
        "Link 1 (h0 to h0): both ends are the same node; name two"
    );
    assert_eq!(
        refusal(&with("rate = \"1gbit\"\n", "")),
        "Link 1 (h0 to tor0): it has no rate; write rate = \"10gbit\" in it, or once at the \
         file's top"
    );
    assert_eq!(
        refusal(&with("\"10gbit\"", "\"10\"")),
        "Link 2 (h1 to tor0): \"10\" is not a rate: write a number and one of bit, kbit, mbit, \
         gbit, for example 10gbit"
    );
    assert_eq!(
        refusal(&with("\"1us\"", "\"11s\"")),
        "Link 1 (h0 to tor0): \"11s\" is not between 0ns and 10s, or not a whole number of ns"
    );
}

#[test]
fn all_nodes_must_be_connected_without_crossing_a_host() {
    assert_eq!(
        refusal(&with("{ ends = [\"h0\", \"tor0\"] }, ", "")),
        "h0 has no link; add a [[link]] with it, or leave it out"
    );
    assert_eq!(
        refusal(&with("\"tor0\"]\n", "\"tor0\", \"tor1\"]\n")),
        "tor1 has no link; add a [[link]] with it, or leave it out"
    );
    let two = with("\"tor0\"]\n", "\"tor0\", \"tor1\"]\n");
    assert_eq!(
        refusal(&two.replace("[\"h1\", \"tor0\"]", "[\"h1\", \"tor1\"]")),
        "h0 cannot reach h1 through switches; add links that connect them"
    );
    let chain = r#"
        hosts = ["h0", "h1", "h2"]
        rate = "1gbit"
        link = [{ ends = ["h0", "h1"] }, { ends = ["h1", "h2"] }]
    "#;
    assert_eq!(
        refusal(chain),
        "h0 cannot reach h2 through switches; add links that connect them"
    );
}

#[test]
fn two_hosts_back_to_back_are_a_fabric() {
    let content = "hosts = [\"a\", \"b\"]\nrate = \"1gbit\"\n[[link]]\nends = [\"a\", \"b\"]\n";
    let fabric = Spec::from_toml(content).unwrap().topology();
    assert_eq!(
        fabric.hops(fabric.find("a").unwrap(), fabric.find("b").unwrap()),
        Some(1)
    );
    let [of_a, _] = &fabric.routes()[..] else {
        panic!("two tables")
    };
    assert_eq!(of_a.v4[0].prefix.to_string(), "0.0.0.0/0");
    assert_eq!(of_a.v4[0].next_hops[0].gateway.to_string(), "10.0.0.3");
}

#[test]
fn parallel_links_need_names_that_stay_unique_when_shortened() {
    let links = "hosts = [\"h0\", \"h1\"]\nrate = \"1gbit\"\nlink = [{ ends = [\"h0\", \"S\"] }, \
                 { ends = [\"h0\", \"S\"] }, { ends = [\"h1\", \"S\"] }, { ends = [\"h0\", \"T\"] }]";
    let of = |s: &str, t: &str| {
        let content = links
            .replace("\"S\"", &format!("\"{s}\""))
            .replace("\"T\"", &format!("\"{t}\""));
        format!("switches = [\"{s}\", \"{t}\"]\n{content}")
    };
    assert!(Spec::from_toml(&of("tor", "other")).is_ok());
    assert_eq!(
        refusal(&of("a-very-long-tor", "other")),
        "h0 has 2 links to a-very-long-tor, so one port is \"a-very-long-tor-0\", which is longer \
         than 15 characters; give a-very-long-tor a shorter name"
    );
    assert_eq!(
        refusal(&of("tor", "tor-1")),
        "Two ports of h0 would be \"tor-1\", for it has parallel links; give one of its \
         neighbours another name"
    );
}

#[test]
fn a_switch_has_addresses_for_253_hosts() {
    let of = |n: usize| {
        let hosts: Vec<_> = (0..n).map(|i| format!("h{i}")).collect();
        let links = hosts
            .iter()
            .map(|host| format!("[[link]]\nends = [\"{host}\", \"tor\"]\n"));
        let links: String = links.collect();
        format!("hosts = {hosts:?}\nswitches = [\"tor\"]\nrate = \"1gbit\"\n{links}")
    };
    assert!(Spec::from_toml(&of(253)).is_ok());
    assert_eq!(
        refusal(&of(254)),
        "More than 253 hosts at tor; add switches and spread them"
    );
}
