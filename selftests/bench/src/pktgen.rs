// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's packet generator, sending through a device's qdisc.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const DIRECTORY: &str = "/proc/net/pktgen";

/// A flow is a source port; the first one.
const FIRST_PORT: u32 = 1024;

/// How often the generator's answer is read at most, and how long is waited in between.
const ANSWER_TRIES: u32 = 100;
const ANSWER_PAUSE: Duration = Duration::from_millis(10);

/// The ports from [`FIRST_PORT`] to the last.
pub(crate) const MAX_FLOWS: u32 = 65_535 - FIRST_PORT;

/// What one run of the generator sent, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Packets that the qdisc accepted.
    pub(crate) packets: u64,
    /// Packets that it dropped on arrival.
    pub(crate) errors: u64,
    /// The whole run, in microseconds.
    pub(crate) microseconds: u64,
}

/// The generator's one thread, bound to one device.
pub(crate) struct Pktgen {
    device: String,
}

impl Pktgen {
    /// Binds the generator to `device`: UDP packets of `size` bytes, `flows` different 5-tuples (at
    /// most [`MAX_FLOWS`]) in turn.
    ///
    /// # Errors
    ///
    /// Where the module `pktgen` is not loaded or refuses a parameter.
    pub(crate) fn new(device: &str, size: u32, flows: u32) -> Result<Self> {
        let thread = Path::new(DIRECTORY).join("kpktgend_0");
        write(&thread, "rem_device_all")?;
        write(&thread, &format!("add_device {device}"))?;
        let this = Self {
            device: device.into(),
        };
        if flows == 0 || flows > MAX_FLOWS {
            bail!("flows must be between 1 and {MAX_FLOWS}");
        }
        for parameter in [
            // Through the qdisc, one new packet each time.
            "xmit_mode queue_xmit".into(),
            "clone_skb 0".into(),
            // Else the generator waits until its last packet is freed, and a backlog keeps it.
            "flag !SHARED".into(),
            "burst 1".into(),
            "delay 0".into(),
            format!("pkt_size {size}"),
            "src_min 10.0.0.1".into(),
            "src_max 10.0.0.1".into(),
            "dst_min 10.0.0.2".into(),
            "dst_max 10.0.0.2".into(),
            "dst_mac 02:00:00:00:00:02".into(),
            format!("udp_src_min {FIRST_PORT}"),
            // The end is not part of the range.
            format!("udp_src_max {}", FIRST_PORT + flows),
            "udp_dst_min 9".into(),
            "udp_dst_max 9".into(),
        ] {
            write(&this.file(), &parameter)?;
        }
        Ok(this)
    }

    /// Sends `count` packets as fast as they go.
    ///
    /// # Errors
    ///
    /// Where the generator does not run or its answer cannot be read.
    pub(crate) fn send(&self, count: u64) -> Result<Sent> {
        write(&self.file(), &format!("count {count}"))?;
        // Returns when the run is over. The thread may still be writing its answer then, letter by
        // letter over the last one: it is whole when it stays as it is.
        write(&Path::new(DIRECTORY).join("pgctrl"), "start")?;
        let mut last = String::new();
        for _ in 0..ANSWER_TRIES {
            let answer = fs::read_to_string(self.file())?;
            if answer == last && parse(&answer).is_ok() {
                break;
            }
            last = answer;
            std::thread::sleep(ANSWER_PAUSE);
        }
        parse(&last).with_context(|| format!("pktgen's answer:\n{last}"))
    }

    fn file(&self) -> std::path::PathBuf {
        Path::new(DIRECTORY).join(&self.device)
    }
}

impl Drop for Pktgen {
    fn drop(&mut self) {
        // The device cannot go as long as the generator holds it. An error here would come out
        // there.
        let _ = write(&Path::new(DIRECTORY).join("kpktgend_0"), "rem_device_all");
    }
}

fn write(path: &Path, command: &str) -> Result<()> {
    fs::write(path, command).with_context(|| format!("pktgen: `{command}` to {}", path.display()))
}

/// Reads `/proc/net/pktgen/DEVICE`.
fn parse(answer: &str) -> Result<Sent> {
    let number = |text: &str| -> Result<u64> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().with_context(|| format!("no number: {text}"))
    };
    let after = |key: &str| -> Result<u64> {
        let (_, rest) = answer
            .split_once(key)
            .with_context(|| format!("no `{key}`"))?;
        number(rest.trim_start())
    };
    let result = answer.split_once("Result:").context("no result")?.1;
    let Some(result) = result.trim_start().strip_prefix("OK:") else {
        bail!("the run failed: {}", result.trim());
    };
    Ok(Sent {
        packets: after("pkts-sofar:")?,
        errors: after("errors:")?,
        microseconds: number(result.trim_start())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "\
Params: count 1000  min_pkt_size: 1500  max_pkt_size: 1500
     Current:
     pkts-sofar: 998  errors: 2
     started: 4790654us  stopped: 4794660us idle: 0us
     seq_num: 1001  cur_dst_mac_offset: 0  cur_src_mac_offset: 0
     flows: 0
Result: OK: 4006(c4006+d0) usec, 1000 (1500byte,0frags)
  249625pps 2995Mb/sec (2995506240bps) errors: 2
";

    #[test]
    fn the_sent_packets_and_their_time_are_parsed() {
        let sent = parse(ANSWER).unwrap();
        assert_eq!(
            sent,
            Sent {
                packets: 998,
                errors: 2,
                microseconds: 4006
            }
        );
    }

    #[test]
    fn a_failed_run_is_an_error() {
        let failed = ANSWER.replace("OK: 4006(c4006+d0) usec", "Interrupted");
        assert!(parse(&failed).is_err());
    }

    #[test]
    fn an_answer_without_a_result_is_an_error() {
        assert!(parse("Params: count 1000\n").is_err());
    }
}
