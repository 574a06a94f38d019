// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel log: a passing test with a warning in it is a failure.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::Result;

/// Messages of this level (`KERN_WARNING`) and above fail a test.
const WARNING: u32 = 4;

/// Warnings that say nothing about the modules' behaviour.
const HARMLESS: [&str; 4] = [
    "loading out-of-tree module taints kernel",
    "module verification failed",
    // The clock of a virtual machine in real time.
    "clocksource:",
    "hrtimer: interrupt took",
];

/// Signs of trouble whatever their level.
const TROUBLE: [&str; 9] = [
    "WARNING:",
    "BUG:",
    "Oops",
    "KFENCE",
    "non-work-conserving",
    "isn't work conserving",
    "refcount_t",
    "unregister_netdevice: waiting",
    "blocked for more than",
];

/// The part of the kernel log that was not read yet.
pub struct KernelLog {
    file: File,
}

impl KernelLog {
    /// Starts with the next message.
    ///
    /// # Errors
    ///
    /// If `/dev/kmsg` cannot be read.
    pub fn open() -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// New messages that tell of trouble, but those that contain one of `expected`.
    pub(crate) fn complaints(&mut self, expected: &[&str]) -> io::Result<Vec<String>> {
        let records = self.records()?;
        let judged = records.iter().filter_map(|record| match record {
            Some(record) => judge(record, expected),
            // What is lost may have been trouble.
            None => Some("too many messages: some were lost".to_owned()),
        });
        Ok(judged.collect())
    }

    /// New messages, all of them.
    ///
    /// # Errors
    ///
    /// If `/dev/kmsg` cannot be read.
    pub fn lines(&mut self) -> io::Result<Vec<String>> {
        let records = self.records()?;
        let texts = records.iter().flatten().filter_map(|record| text(record));
        Ok(texts.map(str::to_owned).collect())
    }

    /// New records; `None` where the ring overtook us.
    fn records(&mut self) -> io::Result<Vec<Option<String>>> {
        let mut records = Vec::new();
        // One read is one record; the kernel's longest is far shorter.
        let mut record = [0; 16 * 1024];
        loop {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => {
                    records.push(Some(
                        String::from_utf8_lossy(&record[..length]).into_owned(),
                    ));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => records.push(None),
                Err(error) => return Err(error),
            }
        }
        Ok(records)
    }
}

/// A record's message.
fn text(record: &str) -> Option<&str> {
    let (_, rest) = record.split_once(';')?;
    Some(rest.lines().next().unwrap_or_default())
}

/// A record is `priority,sequence,microseconds,flags;text` and continuation lines.
fn judge(record: &str, expected: &[&str]) -> Option<String> {
    let (head, _) = record.split_once(';')?;
    let text = text(record)?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let contains = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    // Facility 0 is the kernel's; programs write to the log, too.
    let serious = priority >> 3 == 0 && priority & 7 <= WARNING && !contains(&HARMLESS);
    ((serious || contains(&TROUBLE)) && !contains(expected)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn warnings_and_signs_of_trouble_are_complaints_unless_expected() {
        let nonwc = "4,1,2,-;htb_dequeue_tree: wire qdisc 2: is non-work-conserving?\n";
        assert!(judge(nonwc, &[]).is_some());
        assert!(judge(nonwc, &["non-work-conserving"]).is_none());
        assert!(judge("6,1,2,-;BUG: KFENCE: use-after-free read\n", &[]).is_some());
        assert!(judge("6,1,2,-;eth0: link up\n SUBSYSTEM=net\n", &[]).is_none());
        assert!(judge("12,1,2,-;a program's warning\n", &[]).is_none());
    }
}
