// SPDX-License-Identifier: MIT OR Apache-2.0

//! What decides a result, as hashes: of files that only have names in a command line, too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use sha2::{Digest, Sha256};
use weft_load::generate::{Flow, Workload};

use crate::fabric::Fabric;
use crate::testbed;

/// Of a fabric, a scheme and a workload, as results have them.
///
/// # Errors
///
/// If the fabric cannot be planned or the flows cannot be drawn.
pub(crate) fn hashes(fabric: &Fabric, workload: &Workload) -> Result<BTreeMap<String, String>> {
    // The testbed's name is no input: a name for all.
    let commands = testbed::plan("inputs", fabric)?.commands().to_string();
    let topology = format!("{:?}", fabric.topology);
    let mut flows = Sha256::new();
    for flow in workload.flows()? {
        let Flow {
            start_ns,
            src,
            dst,
            size,
            after,
            ..
        } = flow;
        for number in [
            start_ns,
            src.into(),
            dst.into(),
            size,
            after.unwrap_or(u64::MAX),
        ] {
            flows.update(number.to_le_bytes());
        }
    }
    let all = [
        ("topology", Sha256::digest(topology)),
        ("scheme", Sha256::digest(commands)),
        ("flows", flows.finalize()),
    ];
    Ok(all.map(|(name, hash)| (name.to_owned(), hex(&hash))).into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use weft_load::generate::Until;

    use super::*;
    use crate::fabric::FabricOptions;
    use crate::traffic::Traffic;

    fn of(settings: &[&str], added: &str) -> BTreeMap<String, String> {
        let options = FabricOptions {
            topology: "rack:hosts=3".to_owned(),
            dilation: NonZeroU32::MIN,
            slack: Duration::ZERO,
            scheme: "dctcp".to_owned(),
            settings: settings.iter().map(|it| (*it).to_owned()).collect(),
            modules: Vec::new(),
        };
        let fabric = Fabric::new(&options).unwrap();
        let traffic = Traffic {
            background: None,
            incasts: None,
            added: vec![added.to_owned()],
            until: Until::Flows(1),
            warm_up: None,
        };
        let framing = fabric.framing(false).unwrap();
        let planned = traffic.workload(&fabric.topology, &framing, 1).unwrap();
        hashes(&fabric, &planned.workload).unwrap()
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
}
