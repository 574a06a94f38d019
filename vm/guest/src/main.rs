// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's init (PID 1): sets up the machine, runs one command, hands its result out, powers
//! off.
//!
//! Two serial lines lead out of the guest and never mix: the kernel logs to `ttyS0`, the command
//! talks on `ttyS1`. A failure of init itself is printed and ends PID 1, which the kernel answers
//! with a panic and the host reports as such.

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

/// Some jiffies.
const TICKS: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    anyhow::ensure!(
        std::process::id() == 1,
        "weft-guest is the guest's init; it is of no use elsewhere"
    );
    mounts::set_up().context("setting up the guest")?;
    let mut region = output::Region::open().context("opening what leads out of the guest")?;
    if matches!(region, output::Region::File(_)) {
        // Timers are only exact from the first tick on, which this kernel, booting in no time, has
        // not seen yet.
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
