// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inputs that decide a result, as hashes, including files that a command line only names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use sha2::{Digest, Sha256};
use weft_load::generate::Flow;

use crate::fabric::Fabric;
use crate::testbed;
use crate::traffic::Traffic;

/// The hashes for a fabric, a scheme and a workload, in the form of results.
///
/// The flows are those of packets without a tag: a load counts bytes on the wire, so with a scheme
/// that tags packets each flow comes a little later, but they still have to be recognized as the
/// same flows.
///
/// # Errors
///
/// If the fabric cannot be planned or the flows cannot be drawn.
pub(crate) fn hashes(
    fabric: &Fabric,
    traffic: &Traffic,
    (ipv6, seed): (bool, u64),
) -> Result<BTreeMap<String, String>> {
    // The testbed's name is no input, so all have the same one.
    let commands = testbed::plan("inputs", fabric)?.fingerprint().to_string();
    let topology = format!("{:?}", fabric.topology);
    let hex = |text: String| hex(&Sha256::digest(text));
    let all = [
        ("topology", hex(topology)),
        ("scheme", hex(commands)),
        ("flows", flows(fabric, traffic, (ipv6, seed))?),
    ];
    Ok(all.map(|(name, hash)| (name.to_owned(), hash)).into())
}

/// The hash of a workload's flows.
///
/// # Errors
///
/// If they cannot be drawn.
pub(crate) fn flows(
    fabric: &Fabric,
    traffic: &Traffic,
    (ipv6, seed): (bool, u64),
) -> Result<String> {
    let framing = Fabric::untagged_framing(ipv6)?;
    let planned = traffic.workload(&fabric.topology, &framing, &framing, seed)?;
    let mut flows = Sha256::new();
    for flow in planned.workload.flows()? {
        let Flow {
            start_ns,
            src,
            dst,
            size,
            after,
            deadline_ns,
            priority,
            ..
        } = flow;
        for number in [
            start_ns,
            src.into(),
            dst.into(),
            size,
            after.map_or(u64::MAX, |after| after.first),
        ] {
            flows.update(number.to_le_bytes());
        }
        if let Some(after) = after.filter(|after| after.count > 1) {
            for number in [after.count, after.step] {
                flows.update(number.to_le_bytes());
            }
        }
        // Flows without a deadline keep the hash that they had before deadlines existed.
        if let Some(ns) = deadline_ns {
            flows.update(ns.to_le_bytes());
        }
        // The same holds for priorities.
        if let Some(priority) = priority {
            flows.update([priority]);
        }
    }
    Ok(hex(&flows.finalize()))
}

/// As hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU8, NonZeroU32};
    use std::time::Duration;

    use weft_load::generate::Until;
    use weft_load::load::Counted;

    use super::*;
    use crate::fabric::FabricOptions;
    use crate::traffic::{Drawn, LoadLinks, Origin};

    fn of(settings: &[&str], added: &str) -> BTreeMap<String, String> {
        let traffic = Traffic {
            background: None,
            incasts: None,
            added: vec![added.to_owned()],
            deadlines: None,
            priorities: None,
            until: Until::Flows(1),
            warm_up: None,
            no_cool_down: false,
        };
        on("dctcp", settings, &traffic)
    }

    /// 100 flows of random sizes.
    fn drawn(sizes: &str, deadlines: Option<&str>) -> Traffic {
        Traffic {
            background: Some(Origin::Drawn(Drawn {
                sizes: sizes.to_owned(),
                load: 0.6,
                load_of: LoadLinks::Host,
                counted: Counted::Wire,
                arrivals: "poisson".parse().unwrap(),
                pairs: "uniform".parse().unwrap(),
            })),
            incasts: None,
            added: Vec::new(),
            deadlines: deadlines.map(|text| text.parse().unwrap()),
            priorities: None,
            until: Until::Flows(100),
            warm_up: None,
            no_cool_down: false,
        }
    }

    fn on(scheme: &str, settings: &[&str], traffic: &Traffic) -> BTreeMap<String, String> {
        let options = FabricOptions {
            topology: "rack:hosts=3".to_owned(),
            dilation: NonZeroU32::MIN,
            slack: Duration::ZERO,
            scheme: scheme.to_owned(),
            settings: settings.iter().map(|it| (*it).to_owned()).collect(),
            modules: Vec::new(),
        };
        let fabric = Fabric::new(&options).unwrap();
        hashes(&fabric, traffic, (false, 1)).unwrap()
    }

    #[test]
    fn each_hash_is_of_its_own_input() {
        let one = of(&[], "h0-h1:1kB");
        assert_eq!(one, of(&[], "h0-h1:1kB"));
        let differ = |other: &BTreeMap<String, String>| -> Vec<String> {
            one.iter()
                .filter(|(name, hash)| other[*name] != **hash)
                .map(|(name, _)| name.clone())
                .collect()
        };
        assert_eq!(differ(&of(&[], "h0-h1:2kB")), ["flows"]);
        assert_eq!(differ(&of(&["mark=9000"], "h0-h1:1kB")), ["scheme"]);
        assert!(one.values().all(|hash| hash.len() == 64));
    }

    #[test]
    fn deadlines_change_the_hash_of_the_flows() {
        let hashes = [None, Some("fixed:5ms"), Some("fixed:6ms")];
        let hashes = hashes.map(|it| on("dctcp", &[], &drawn("web-search", it)));
        assert_eq!(hashes[0]["scheme"], hashes[1]["scheme"]);
        assert_ne!(hashes[0]["flows"], hashes[1]["flows"]);
        assert_ne!(hashes[1]["flows"], hashes[2]["flows"]);
    }

    #[test]
    fn priorities_change_the_hash_of_the_flows() {
        let hashes = [0, 2, 3].map(|count| {
            let traffic = Traffic {
                priorities: NonZeroU8::new(count),
                ..drawn("web-search", None)
            };
            on("dctcp", &[], &traffic)
        });
        assert_eq!(hashes[0]["scheme"], hashes[1]["scheme"]);
        assert_ne!(hashes[0]["flows"], hashes[1]["flows"]);
        assert_ne!(hashes[1]["flows"], hashes[2]["flows"]);
    }

    #[test]
    fn a_scheme_that_tags_packets_has_the_same_flows() {
        let [plain, tagged] =
            ["dctcp", "pfabric"].map(|scheme| on(scheme, &[], &drawn("web-search", None)));
        assert_eq!(plain["flows"], tagged["flows"]);
        assert_ne!(plain["scheme"], tagged["scheme"]);
        assert_ne!(
            plain["flows"],
            on("dctcp", &[], &drawn("fixed:1MB", None))["flows"]
        );
    }
}
