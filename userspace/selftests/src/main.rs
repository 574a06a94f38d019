// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of fabrics through the user's interface: they create fabrics and run workloads with
//! `weft`, and read its results. In the guest, as KTAP.

mod folder;
mod machine;
mod random;
mod tests;
mod weft;

use std::process::ExitCode;

use weft_ktap::Program;

fn main() -> ExitCode {
    let program = Program {
        name: "weft-fabric-selftests",
        about: "\
Tests of fabrics, woven and measured by weft, as KTAP. Needs root and a kernel with weft's modules:
run it in the guest, `cargo xtask vm -- weft-fabric-selftests`.",
        parts: tests::PARTS,
        watch_kernel_log: true,
        settle: weft::none_is_up,
        ..Program::DEFAULT
    };
    program.main()
}
