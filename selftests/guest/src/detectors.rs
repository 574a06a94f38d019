// SPDX-License-Identifier: MIT OR Apache-2.0

//! A debug kernel is believed once it has reported errors made on purpose, one of each kind that it
//! is to find in weft: those of `vm/um/debug/control`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};
use weft_ktap::{KernelLog, Report, kmemleak};

use crate::faults::Faults;

/// The module of deliberate errors.
const MODULE: &str = "/usr/lib/weft-debug/control.ko";

/// Each error, and what the kernel has to say of it. Lockdep is turned off by its own report, and
/// by KASAN's, hence what it is asked comes first.
const ERRORS: [(&str, &str); 14] = [
    ("rcu_without_a_lock", "suspicious rcu_dereference_check()"),
    (
        "sleep_in_atomic",
        "BUG: sleeping function called from invalid context",
    ),
    (
        "lock_inversion",
        "possible circular locking dependency detected",
    ),
    ("use_after_free", "BUG: KASAN: slab-use-after-free"),
    ("out_of_bounds", "BUG: KASAN: slab-out-of-bounds"),
    ("vmalloc_out_of_bounds", "BUG: KASAN: vmalloc-out-of-bounds"),
    ("double_free", "BUG: KASAN: double-free"),
    ("list_corruption", "list_del corruption"),
    ("active_timer_freed", "ODEBUG: free active"),
    ("refcount_underflow", "refcount_t: underflow"),
    ("lost_reference", "weft_control"),
    ("shift_out_of_bounds", "UBSAN: shift-out-of-bounds"),
    (
        "preemptible_processor",
        "BUG: using smp_processor_id() in preemptible",
    ),
    ("warning", "WARNING:"),
];

/// Makes all of them and reports in KTAP which were seen.
///
/// # Errors
///
/// How many were not.
pub(crate) fn run() -> Result<()> {
    ensure!(
        Path::new(MODULE).exists(),
        "no {MODULE}: this is for the debug kernel, cargo xtask test --kernel debug"
    );
    let mut log = KernelLog::open()?;
    let mut report = Report::of_program(ERRORS.len() + 2);
    let mut failed = 0;
    let mut say = |name: &str, result: Result<()>| {
        if let Err(error) = &result {
            report.note(&format!("{error:#}"));
            failed += 1;
        }
        report.result(name, result.is_ok(), "");
    };
    // While nothing else has left traces of itself.
    say("leak", leak());
    say("failed_allocation", failed_allocation());
    for (name, sign) in ERRORS {
        say(name, seen(&mut log, name, sign));
    }
    ensure!(failed == 0, "{failed} detectors were silent");
    Ok(())
}

/// Makes an error.
fn make(name: &str) -> Result<()> {
    let module = fs::File::open(MODULE)?;
    let parameters = std::ffi::CString::new(format!("what={name}"))?;
    match finit_module(&module, &parameters, ModuleInitFlags::empty()) {
        Err(Errno::ECANCELED) => Ok(()),
        Err(error) => bail!("the module knows no {name}: {error}"),
        Ok(()) => bail!("the module stays"),
    }
}

fn seen(log: &mut KernelLog, name: &str, sign: &str) -> Result<()> {
    log.lines()?;
    make(name)?;
    // Some is said by a thread of its own.
    for _ in 0..20 {
        if log.lines()?.iter().any(|line| line.contains(sign)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the kernel did not say `{sign}`")
}

/// Ten small objects to which nothing points. Of each something may still lie about somewhere, on a
/// stack say, but not of all.
fn leak() -> Result<()> {
    const MOST: usize = 8;
    make("leak")?;
    let lost = kmemleak::lost()?;
    ensure!(
        lost.len() >= MOST,
        "kmemleak found {} of 10 objects:\n{}",
        lost.len(),
        lost.concat()
    );
    Ok(())
}

/// Of a system call that allocates, the first allocation fails.
fn failed_allocation() -> Result<()> {
    let faults = Faults::prepare()?;
    let (result, failed) = faults.at(1, nix::sys::eventfd::EventFd::new)?;
    ensure!(failed, "nothing was made to fail");
    let errno = result.err();
    ensure!(
        errno == Some(Errno::ENOMEM),
        "eventfd without memory: {errno:?}"
    );
    Ok(())
}
