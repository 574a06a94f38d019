// SPDX-License-Identifier: MIT OR Apache-2.0

//! What helps if a run is INVALID.

/// The start of a gate, as the reason names it, and what helps.
const CURES: [(&str, &str); 5] = [
    (
        "flows that did not end: ",
        "--patience TIME waits longer for flows after the last one has started",
    ),
    (
        "TCP's memory short: ",
        "--memory MIB gives a guest more memory; under --clock real, raise net.ipv4.tcp_mem",
    ),
    ("timer lateness, ", TOO_SLOW),
    ("generator lag, ", TOO_SLOW),
    ("idle processor: ", TOO_SLOW),
];
const TOO_SLOW: &str = "computation takes no time under --clock model; under --clock real, a larger --dilation or fewer \
                        hosts need less of this machine";

/// For these reasons, each once.
pub(crate) fn of<'a>(reasons: impl IntoIterator<Item = &'a String>) -> Vec<&'static str> {
    let mut cures = Vec::new();
    for reason in reasons {
        let found = CURES.iter().find(|(gate, _)| reason.contains(gate));
        if let Some((_, cure)) = found.filter(|(_, cure)| !cures.contains(cure)) {
            cures.push(*cure);
        }
    }
    cures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cure_is_of_a_gate() {
        let gates = include_str!("../../lab/src/gates.rs");
        for (gate, _) in CURES {
            let name = gate.trim_end_matches(": ");
            assert!(gates.contains(&format!("\"{name}")), "{gate}");
        }
    }

    #[test]
    fn each_cure_is_named_once() {
        let reasons = [
            "dctcp (seed 1): flows that did not end: 3, expected at most 0",
            "dctcp (seed 2): flows that did not end: 1, expected at most 0",
            "dctcp (seed 2): timer lateness, mean: 2 packet times, expected at most 0.05 packet times",
            "dctcp (seed 2): idle processor: 1 %, expected at least 5 %",
            "dctcp (seed 2): weft-pase ended early",
        ]
        .map(str::to_owned);
        assert_eq!(of(&reasons), [CURES[0].1, TOO_SLOW]);
        assert!(of(&reasons[4..]).is_empty());
    }
}
