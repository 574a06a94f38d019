// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's init (PID 1): sets up the machine, runs one command, hands out its result, powers
//! off.
//!
//! Two separate serial lines lead out of the guest: the kernel logs to `ttyS0`, and `ttyS1` is the
//! command's terminal. If init itself fails, it prints the error and exits; the kernel then panics,
//! and the host reports the panic.

mod foreign;
mod limits;
mod mounts;
mod output;
mod randomness;
mod session;

use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::reboot::{RebootMode, reboot};
use weft_guest::request::{self, Request};
use weft_guest::transfer::{Header, State};

/// A few jiffies.
const TICKS: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    anyhow::ensure!(
        std::process::id() == 1,
        "weft-guest is the guest's init; it is of no use elsewhere"
    );
    mounts::set_up().context("setting up the guest")?;
    let mut region = output::Region::open().context("opening what leads out of the guest")?;
    if matches!(region, output::Region::File(_)) {
        // Timers are exact only after the first tick. This kernel boots in zero time, so it has had
        // none yet.
        std::thread::sleep(TICKS);
        limits::set().context("setting limits of memory")?;
        randomness::begin_anew()?;
    }
    region.write_header(Header {
        state: State::Running,
        status: 0,
        length: 0,
    })?;
    let content =
        std::fs::read(request::PATH).with_context(|| format!("reading {}", request::PATH))?;
    let request =
        Request::decode(&content).with_context(|| format!("{} is malformed", request::PATH))?;
    let status = session::run(&request).context("running the command")?;
    output::save_kernel_log().context("saving the kernel log")?;
    region.hand_out(status)?;
    reboot(RebootMode::RB_POWER_OFF)?;
    unreachable!("reboot(2) returned although it powered off")
}
