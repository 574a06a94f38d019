// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbiter in the program: with a second arbiter, it is active or on standby.

use std::net::SocketAddrV4;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::sys::eventfd::EventFd;
use weft_arbiter::pipeline::{Capacities, Pipeline};
use weft_arbiter::service::{Secret, Service};
use weft_arbiter::watch::{Change, Watch};
use weft_arbiter::{Invalid, MAX_BATCH, MAX_CLASSES};

use super::arguments::{Arguments, ns};
use super::figures::{Faulty, Line};
use super::log::say;
use super::random;

/// An arbiter without sessions. With a bell, allocation and path selection have separate threads,
/// and ring it.
fn service(arguments: &Arguments, bell: Option<&Arc<EventFd>>) -> Result<Service> {
    let settings = arguments.settings()?;
    let told = |invalid| match invalid {
        Invalid::Batch | Invalid::Lags => anyhow!(
            "--batch must be between 1 and {MAX_BATCH}, with the timeslots of four hops added to it"
        ),
        Invalid::Classes => anyhow!("--classes must be between 1 and {MAX_CLASSES}"),
        Invalid::Paths => anyhow!(
            "--edge-ways and --core-ways: there must be a way, and at most 64 packets of a rack's, or of a pod's \
             at one switch, in a timeslot"
        ),
        Invalid::Endpoints | Invalid::Racks => {
            anyhow!("at most 256 racks can have several ways up")
        }
    };
    let secret = Secret(random::draw()?);
    let Some(bell) = bell.cloned() else {
        return Service::new(settings, secret).map_err(told);
    };
    let pipeline = Pipeline::new(&settings, Capacities::default()).map_err(told)?;
    let ring = move || {
        // The counter of the bell cannot overflow.
        let _ = bell.write(1);
    };
    let front = pipeline.spawn(ring).context("starting a thread")?;
    Ok(Service::with_stages(settings, secret, Box::new(front)))
}

/// An arbiter that is active, or on standby.
pub(crate) struct Arbiter<'a> {
    arguments: &'a Arguments,
    bell: Option<&'a Arc<EventFd>>,
    /// The time of a batch, in ns.
    batch: u64,
    service: Service,
    /// If there is another arbiter: its address, and which of the two is active.
    watch: Option<(SocketAddrV4, Watch)>,
    takeovers: u64,
    /// The number of faults reported so far.
    said_faults: usize,
}

impl<'a> Arbiter<'a> {
    pub(crate) fn new(
        arguments: &'a Arguments,
        bell: Option<&'a Arc<EventFd>>,
        started: u64,
    ) -> Result<Self> {
        let [cookie, _] = random::draw()?;
        let window = ns(arguments.window);
        let watch = arguments.peer.map(|peer| {
            let watch = Watch::new(started, arguments.second, window, cookie);
            (SocketAddrV4::new(peer, arguments.listen.port()), watch)
        });
        let batch = ns(arguments.timeslot).saturating_mul(arguments.batch() as u64);
        ensure!(
            watch.is_none() || window / 4 > arguments.lead().saturating_add(batch),
            "--window must be longer than four times a lead and a batch"
        );
        Ok(Self {
            batch,
            arguments,
            bell,
            service: service(arguments, bell)?,
            watch,
            takeovers: 0,
            said_faults: 0,
        })
    }

    pub(crate) fn is_active(&self) -> bool {
        self.watch.as_ref().is_none_or(|(_, it)| it.is_active())
    }

    pub(crate) fn line(&self, now: u64) -> Line {
        Line {
            time_ns: now,
            active: self.is_active(),
            takeovers: self.takeovers,
            counters: self.service.counters(),
            faults: self.service.faults().iter().map(Faulty::from).collect(),
        }
    }

    /// Prints faults that were found since the last call; returns whether there are any.
    pub(crate) fn say_faults(&mut self) -> bool {
        let found = self.service.faults();
        let is_new = found.len() > self.said_faults;
        for fault in found.iter().skip(self.said_faults) {
            let what = fault.component;
            match fault.is_avoided {
                true => say(format_args!(
                    "packets are lost by the {what}: it is avoided"
                )),
                false => say(format_args!(
                    "packets are lost by the {what}: there is no way around it"
                )),
            }
        }
        self.said_faults = found.len();
        is_new
    }

    pub(crate) fn clear_faults(&mut self) {
        self.service.clear_faults();
        self.said_faults = 0;
        say("all that was faulty counts as repaired");
    }

    pub(crate) fn receive(&mut self, now: u64, from: SocketAddrV4, bytes: &[u8]) {
        if let Some((peer, watch)) = &mut self.watch {
            if Watch::is_beat(bytes) {
                if from == *peer {
                    watch.receive(now, bytes);
                }
                return;
            }
            if !watch.is_active() {
                return;
            }
        }
        self.service.receive(now, from, bytes);
    }

    /// The source address of the other arbiter's beats, if there is one.
    pub(crate) fn peer(&self) -> Option<SocketAddrV4> {
        self.watch.as_ref().map(|(peer, _)| *peer)
    }

    /// The longest time for which datagrams may be read before [`tick`](Self::tick), in ns.
    pub(crate) fn reading_time(&self) -> u64 {
        self.batch
    }

    /// Whether there are messages that [`poll`](Self::poll) should send soon.
    pub(crate) fn is_hurried(&self) -> bool {
        self.is_active() && self.service.is_hurried()
    }

    /// Sends all messages to endpoints.
    pub(crate) fn poll(&mut self, now: u64, send: impl FnMut(SocketAddrV4, &[u8])) {
        self.service.poll(now, send);
    }

    /// Does everything that is due, and sends all messages. Process received beats before: they may
    /// end its turn.
    pub(crate) fn tick(
        &mut self,
        now: u64,
        mut send: impl FnMut(SocketAddrV4, &[u8]),
    ) -> Result<()> {
        if let Some((peer, watch)) = &mut self.watch {
            let change = watch.tick(now);
            while let Some(beat) = watch.poll(now) {
                send(*peer, &beat);
            }
            match change {
                // It begins without state: on standby it discarded all messages.
                Some(Change::Active) => self.takeovers += 1,
                // It discards its state, now that there is time for that. Faults are kept, because
                // yielding does not repair a link.
                Some(Change::Standby) => {
                    let mut service = service(self.arguments, self.bell)?;
                    service.keep_faults(self.service.faults());
                    self.service = service;
                }
                None => {}
            }
        }
        if self.is_active() {
            self.service.tick(now, send);
        }
        ensure!(
            !self.service.has_failed(),
            "the thread of allocation, or of path selection, has ended"
        );
        Ok(())
    }

    pub(crate) fn next_event(&self) -> u64 {
        let watched = self.watch.as_ref().map(|(_, watch)| watch.next_event());
        let served = self.is_active().then(|| self.service.next_event());
        let due = watched.into_iter().chain(served);
        due.min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use weft_arbiter::fabric::Component;
    use weft_arbiter::faults::Fault;

    use super::super::arguments::Threads;
    use super::super::bell::bell;
    use super::super::clock::now;
    use super::*;

    #[test]
    fn an_arbiter_that_yields_keeps_the_faults_that_it_found() {
        for threads in ["1", "3"] {
            let arguments = Arguments::parse_from([
                "weft-arbiter",
                "--first",
                "10.0.0.2",
                "--hosts",
                "2",
                "--racks",
                "2",
                "--edge-ways",
                "2",
                "--peer",
                "10.0.0.9",
                "--threads",
                threads,
            ]);
            let bell = bell().unwrap();
            let bell = Some(&bell).filter(|_| arguments.threads == Threads::Three);
            let mut now = now().unwrap();
            let mut arbiter = Arbiter::new(&arguments, bell, now).unwrap();
            while !arbiter.is_active() {
                now += 100_000;
                arbiter.tick(now, |_, _| {}).unwrap();
            }
            let link = |way| Component::RackLink {
                pod: 0,
                rack: 1,
                way,
            };
            let found = [(0, true), (1, false)].map(|(way, is_avoided)| Fault {
                component: link(way),
                is_avoided,
                suspected_ns: now - 2,
                found_ns: now - 1,
            });
            arbiter.service.keep_faults(&found);
            assert!(arbiter.say_faults());
            // It stalls.
            now += 1_000_000;
            arbiter.tick(now, |_, _| {}).unwrap();
            assert!(!arbiter.is_active());
            assert_eq!(arbiter.service.faults(), found);
            // They have already been reported.
            assert!(!arbiter.say_faults());
        }
    }
}
