// SPDX-License-Identifier: MIT OR Apache-2.0

//! An error in a file is reported with its line.

use super::{WIRE, folder, plan, refusal};

/// A scheme with this file among other files that are right.
fn with(name: &str, file: &str, text: &str) -> anyhow::Result<weft_net::Plan> {
    let mut files = vec![
        ("scheme.toml", "about = \"One wire.\"\n"),
        ("switch.tc", WIRE),
        ("host.tc", WIRE),
    ];
    files.retain(|(other, _)| *other != file);
    files.push((file, text));
    plan(&folder(name, &files))
}

#[test]
fn an_error_in_a_line_has_its_number_in_the_file() {
    let first = format!("# About.\n\n{WIRE}");
    for (name, file, text, expected) in [
        (
            "wrong-option",
            "switch.tc",
            format!("{first}# More.\nqdisc add dev $dev parent 1: handle 10: pfabric limi 5\n"),
            "wrong-option/switch.tc:5: pfabric: `limi` is no option",
        ),
        (
            "wrong-option-of-two-lines",
            "host.tc",
            format!(
                "{first}qdisc add dev $dev \\\n parent 1: \\ # half\n handle 10: pfabric limi 5"
            ),
            "wrong-option-of-two-lines/host.tc:4: ",
        ),
        (
            "wrong-variable",
            "switch.tc",
            format!("{first}qdisc add dev $dev parent 1: pfifo limit $bufer\n"),
            "wrong-variable/switch.tc, line 4: `$bufer` is not known",
        ),
        (
            "wrong-form",
            "host.sysctl",
            "# About.\n\nnet.ipv4.tcp_ecn\n".to_owned(),
            "wrong-form/host.sysctl, line 3: `net.ipv4.tcp_ecn` is no sysctl: write KEY = VALUE",
        ),
        (
            "wrong-sysctl",
            "switch.sysctl",
            "net.ipv4.tcp_ecn = 1\n# About.\nkernel.panic = 1\n".to_owned(),
            "wrong-sysctl/switch.sysctl, line 3: sysctl `kernel.panic` is the machine's",
        ),
        (
            "wrong-metric",
            "host.route",
            "# About.\ninitcwnd many\n".to_owned(),
            "wrong-metric/host.route: ",
        ),
    ] {
        let refusal = refusal(with(name, file, &text));
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn a_comment_may_contain_anything() {
    let batch = WIRE.replace('\n', " # costs $5, and \\\n# nothing $more\n");
    for (name, file, text) in [
        ("comment-switch", "switch.tc", batch.as_str()),
        ("comment-host", "host.tc", batch.as_str()),
        (
            "comment-sysctl",
            "host.sysctl",
            "net.ipv4.tcp_ecn = 1 # $5\n",
        ),
        ("comment-route", "host.route", "initcwnd $bdp # $5\n"),
    ] {
        let plan = with(name, file, text).unwrap();
        // Without the script's helper function, which has its own `$1`.
        let commands = plan.fingerprint().to_string();
        assert!(
            !commands.contains('$') && !commands.contains("costs"),
            "{commands}"
        );
    }
}
