// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets without end, beside whatever else happens to a port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use nix::errno::Errno;

use crate::model::Packet;
use crate::packets::{MIN_FRAME, Sender};
use crate::port::Port;
use crate::random::Random;

/// Bursts of packets that any queue here overflows with, from a thread of their own.
pub(crate) struct Blaster {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<Result<()>>,
}

impl Blaster {
    pub(crate) fn start(port: &Port) -> Result<Self> {
        let sender = port.sender()?;
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let thread = std::thread::spawn({
            let (stop, sent) = (stop.clone(), sent.clone());
            move || blast(sender, &stop, &sent)
        });
        Ok(Self { stop, sent, thread })
    }

    /// Ends it; returns how many packets were sent.
    pub(crate) fn finish(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the blaster does not panic")?;
        Ok(self.sent.load(Ordering::Relaxed))
    }
}

fn blast(mut sender: Sender, stop: &AtomicBool, sent: &AtomicU64) -> Result<()> {
    const BURST: u32 = 40;
    let mut random = Random::new(11);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let packet = Packet {
                id: sent.load(Ordering::Relaxed),
                rank: random.below(100),
                flow: random.below(20),
                len: random.between(MIN_FRAME, 1400),
            };
            match sender.send(&packet) {
                Ok(_) => sent.fetch_add(1, Ordering::Relaxed),
                // The link is down, or no more.
                Err(error) => match error.downcast_ref::<Errno>() {
                    Some(Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV) => break,
                    _ => return Err(error),
                },
            };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
