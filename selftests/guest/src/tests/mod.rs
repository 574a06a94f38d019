// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests, one file per part.

use crate::ktap::Part;

mod congestion;
mod leaks;
mod lifecycle;
mod options;
mod parents;
mod pfabric_options;
mod pfabric_order;
mod plugin;
mod traffic;
mod wire_children;
mod wire_options;
mod wire_sockets;
mod wire_timing;

/// All parts, in the order in which they run.
pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "pfabric_options",
        tests: pfabric_options::TESTS,
    },
    Part {
        name: "wire_options",
        tests: wire_options::TESTS,
    },
    Part {
        name: "pfabric_order",
        tests: pfabric_order::TESTS,
    },
    Part {
        name: "wire_timing",
        tests: wire_timing::TESTS,
    },
    Part {
        name: "wire_sockets",
        tests: wire_sockets::TESTS,
    },
    Part {
        name: "parents",
        tests: parents::TESTS,
    },
    Part {
        name: "wire_children",
        tests: wire_children::TESTS,
    },
    Part {
        name: "lifecycle",
        tests: lifecycle::TESTS,
    },
    Part {
        name: "traffic",
        tests: traffic::TESTS,
    },
    Part {
        name: "congestion",
        tests: congestion::TESTS,
    },
    Part {
        name: "plugin",
        tests: plugin::TESTS,
    },
    Part {
        name: "leaks",
        tests: leaks::TESTS,
    },
];
