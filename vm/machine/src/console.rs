// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks the kernel's log for signs of trouble. A run with an oops is a failed run, whatever the
//! command's exit status.

/// Text that a healthy kernel never logs. Case matters: `oops=panic` on the command line is not an
/// oops.
const SIGNS: [&str; 26] = [
    "Kernel panic",
    "Oops",
    "BUG:",
    "kernel BUG at",
    "WARNING:",
    "------------[ cut here ]------------",
    "KASAN:",
    "KFENCE:",
    "UBSAN:",
    "KCSAN:",
    "rust_kernel: panicked",
    "panicked at",
    "general protection fault",
    "INFO: rcu",
    "rcu: INFO:",
    "blocked for more than",
    "soft lockup",
    "hard LOCKUP",
    "possible recursive locking",
    "possible circular locking",
    "inconsistent lock state",
    "suspicious RCU usage",
    "unreferenced object",
    "new suspected memory leaks",
    "refcount_t:",
    "unregister_netdevice: waiting for",
];
/// Lines shown before and after the first sign.
const BEFORE: usize = 5;
const AFTER: usize = 60;

/// Index and sign of the first line that shows trouble.
fn first_sign(lines: &[&str]) -> Option<(usize, &'static str)> {
    lines.iter().enumerate().find_map(|(index, line)| {
        let sign = SIGNS.iter().find(|sign| line.contains(**sign))?;
        Some((index, *sign))
    })
}

/// The log around the first sign of trouble, if there is one.
pub fn trouble(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let (index, _) = first_sign(&lines)?;
    let end = lines.len().min(index + AFTER);
    let shown: Vec<String> = lines[index.saturating_sub(BEFORE)..end]
        .iter()
        .map(|line| format!("    {line}"))
        .collect();
    Some(shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTHY: &str = "\
[    0.000000] Command line: console=ttyS0 panic=-1 oops=panic
[    0.000000] kfence: initialized - using 2097152 bytes for 255 objects
[    0.031000] kasan: KernelAddressSanitizer initialized
[    0.500000] ivshmem 0000:00:03.0: enabling device
[    1.000000] sch_pfabric: loading out-of-tree module taints kernel.
";

    #[test]
    fn a_healthy_log_has_no_trouble() {
        assert_eq!(trouble(HEALTHY), None);
    }

    #[test]
    fn each_kind_of_splat_is_trouble() {
        for line in [
            "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100",
            "Oops: Oops: 0002 [#1] SMP NOPTI",
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "WARNING: CPU: 0 PID: 1 at net/sched/sch_generic.c:1 qdisc_destroy+0x1/0x2",
            "BUG: KFENCE: use-after-free read in pfabric_dequeue",
            "UBSAN: array-index-out-of-bounds in net/x.c:1:2",
            "rust_kernel: panicked at kmod/x.rs:1:2:",
            "INFO: task tc:77 blocked for more than 120 seconds.",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "WARNING: possible recursive locking detected",
            "unreferenced object 0xffff888004a3c000 (size 256):",
            "refcount_t: underflow; use-after-free.",
            "unregister_netdevice: waiting for eth0 to become free. Usage count = 2",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
        ] {
            let log = format!("{HEALTHY}[    2.000000] {line}\n");
            assert!(
                trouble(&log).is_some_and(|shown| shown.contains(line)),
                "{line}"
            );
        }
    }

    #[test]
    fn the_log_around_it_is_shown() {
        let mut lines: Vec<String> = (0..200).map(|n| format!("line {n}")).collect();
        lines[100] = "BUG: here".into();
        let shown = trouble(&lines.join("\n")).unwrap();
        assert!(
            shown.starts_with("    line 95\n") && shown.ends_with("    line 159"),
            "{shown}"
        );
    }
}
