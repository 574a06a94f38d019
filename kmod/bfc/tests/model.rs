// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `bfc` and the naive model behave identically, operation by operation.

use super::naive::Scenario;
use crate::tests::corpus::replay;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_scenario_matches_the_naive_model(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        Scenario::decode(&bytes).run();
    }
}

/// The fuzzer's corpus, including its past findings.
#[test]
#[cfg_attr(miri, ignore = "reads files, which Miri's isolation does not allow")]
fn the_fuzz_corpus_passes() {
    replay("bfc", |bytes| Scenario::decode(bytes).run());
}
