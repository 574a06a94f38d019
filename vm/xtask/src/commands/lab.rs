// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask lab`: `weft lab` in a guest, under the model clock.

use anyhow::Result;
use weft_build::base::cache::Cache;
use weft_build::options::ClockKind;
use weft_machine::failure::Failure;

use crate::commands::vm;

/// Run your own programs on a fabric, in virtual time: weft lab in the guest
#[derive(clap::Args, Debug)]
#[command(after_help = "\
What follows -- are the words of weft lab; `cargo xtask vm -- weft lab --help` says which there are. It is \
cargo xtask vm with another default: under the model clock hosts and switches compute in no time, idle time is \
skipped, and the same words and --seed give the same output to the byte.

Exit status: the command's; else as of cargo xtask vm.

Examples:
  cargo xtask lab -- rack:hosts=2 --from h0 ping -c 3 h1
  cargo xtask lab --package redis -- fat-tree:k=4 --dilation 1000 --scheme pfabric \\
      --on h3 'redis-server --protected-mode no' --from h7 redis-benchmark -h h3 -n 1000 -q
  cargo xtask lab --file ./server --file ./client --out result -- rack:hosts=2 --dilation 100 \\
      --on h0 /root/server --logs /out --from h1 /root/client h0")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) vm: vm::Args,
}

/// Runs `lab`, and returns the command's exit status.
///
/// # Errors
/// Those of [`vm::run`].
pub(crate) fn run(cache: &Cache, lab: &Args) -> Result<u8> {
    if lab.vm.command.is_empty() {
        let message = "give the words of weft lab after --, for example\n    \
                       cargo xtask lab -- rack:hosts=2 --from h0 ping -c 3 h1";
        return Err(Failure::setup(message).into());
    }
    let mut command = vec!["weft".into(), "lab".into()];
    command.extend(lab.vm.command.iter().cloned());
    let vm = vm::Args {
        clock: lab.vm.clock.or(Some(ClockKind::Model)),
        command,
        ..lab.vm.clone()
    };
    vm::run(cache, &vm)
}
