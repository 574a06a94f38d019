// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A host's device: both sides of it, and the messages that arrive and leave.

use super::message::{Flow, Kind, Message};
use super::options::Config;
use super::receiver::{self, count, Receiver};
use super::sender::{self, Credit, Departure, Sender};
use crate::common::shared::Peer;
use crate::common::store::Store;
use crate::common::xorshift::Xorshift32;

/// Stops that wait for unknown flows' credits.
const STOPS: usize = 16;

/// The ports from this one on need no privilege: anybody may send from them.
const UNPRIVILEGED: u16 = 1024;

/// What has happened to an endpoint's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Credits of unknown flows.
    pub unknown: u64,
    /// Messages from a host that is not the flow's, or from a port that needs no privilege.
    pub foreign: u64,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet may leave: ask the device for it.
    Release,
    /// It was processed.
    Done,
    /// It is not for this endpoint.
    NotMine,
}

/// An endpoint.
pub struct Endpoint<S: Store> {
    sender: Sender<S>,
    receiver: Receiver<S>,
    stops: [Option<(Peer, Message)>; STOPS],
    /// How many there are.
    stopping: usize,
    random: Xorshift32,
    counters: Counters,
}

impl<S: Store> Endpoint<S> {
    /// Without flows. `seed`: of its random numbers.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(config: &Config, seed: u32) -> Result<Self, S::Error> {
        let (law, timeout) = (config.law(), config.timeout);
        Ok(Self {
            sender: Sender::new(config.flows, config.terms())?,
            receiver: Receiver::new(config.flows, config.credits, law, timeout)?,
            stops: [None; STOPS],
            stopping: 0,
            random: Xorshift32::new(seed),
            counters: Counters::default(),
        })
    }

    /// Changes the configuration, except the numbers of flows and packets.
    pub fn set(&mut self, config: &Config) {
        self.sender.set(config.terms());
        self.receiver
            .set(config.credits, config.law(), config.timeout);
    }

    /// A packet with payload arrives from this host; see [`Sender::arrive`].
    #[inline]
    pub fn arrive(&mut self, now: u64, flow: Flow, frames: u32) -> Option<u16> {
        self.sender.arrive(now, flow, frames)
    }

    /// A packet that needs no credit arrives from this host; see [`Sender::arrive_free`].
    #[inline]
    pub fn arrive_free(&mut self) -> bool {
        self.sender.arrive_free()
    }

    /// The next packet that may leave; see [`Sender::pop`].
    #[inline]
    pub fn depart(&mut self) -> Option<Departure> {
        self.sender.pop()
    }

    /// A frame arrives that echoes a credit; returns whether it is of a flow of this endpoint.
    #[inline]
    pub fn data(&mut self, now: u64, flow: &Flow, credit: u16) -> bool {
        self.receiver.data(now, flow, credit)
    }

    /// Whether this endpoint sends the credits of a flow.
    pub fn credits(&self, flow: &Flow) -> bool {
        self.receiver.has(flow)
    }

    /// Whether a message is from a socket of its flow's host; otherwise it is counted.
    pub fn is_trusted(&mut self, from: Peer, message: &Message) -> bool {
        let address = match message.kind {
            Kind::Credit { .. } => message.flow.destination,
            Kind::Request { .. } | Kind::Stop => message.flow.source,
        };
        let is_trusted = from.address == address && from.port < UNPRIVILEGED;
        if !is_trusted {
            count(&mut self.counters.foreign);
        }
        is_trusted
    }

    /// A message arrives, which is trusted.
    pub fn receive(&mut self, now: u64, from: Peer, message: &Message) -> Received {
        let Message { flow, kind } = *message;
        let is_mine = match kind {
            Kind::Credit { number } => match self.sender.credit(now, &flow, number) {
                Credit::Used => return Received::Release,
                Credit::Wasted => true,
                Credit::Unknown => false,
            },
            Kind::Request { waiting } => {
                // The upper bits are the most random.
                let random = self.random.draw() >> 8;
                self.receiver.request(now, from, flow, waiting, random)
            }
            Kind::Stop => self.receiver.stop(&flow),
        };
        match is_mine {
            true => Received::Done,
            false => Received::NotMine,
        }
    }

    /// A credit arrives that is for no flow of this host: its receiver is to stop.
    pub fn stop(&mut self, from: Peer, flow: Flow) {
        count(&mut self.counters.unknown);
        let kind = Kind::Stop;
        let stop = Some((from, Message { flow, kind }));
        if self.stops.contains(&stop) {
            return;
        }
        if let Some(place) = self.stops.iter_mut().find(|place| place.is_none()) {
            *place = stop;
            self.stopping = self.stopping.wrapping_add(1);
        }
    }

    /// When [`poll`](Self::poll) next has something to do, if ever.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        if self.stopping != 0 {
            return Some(0);
        }
        let both = [self.sender.next(), self.receiver.next()];
        both.into_iter().flatten().min()
    }

    /// The next message that leaves now, and its receiver.
    pub fn poll(&mut self, now: u64) -> Option<(Peer, Message)> {
        let mut stop = None;
        if self.stopping != 0 {
            stop = self.stops.iter_mut().find_map(Option::take);
            self.stopping = self.stopping.wrapping_sub(1);
        }
        let random = &mut self.random;
        stop.or_else(|| self.sender.poll(now))
            .or_else(|| self.receiver.poll(now, || random.draw()))
    }

    /// Forgets all flows and packets.
    pub fn clear(&mut self) {
        self.sender.clear();
        self.receiver.clear();
        self.stops = [None; STOPS];
        self.stopping = 0;
    }

    /// The sending side.
    pub fn sender(&self) -> &Sender<S> {
        &self.sender
    }

    /// The receiving side.
    pub fn receiver(&self) -> &Receiver<S> {
        &self.receiver
    }

    /// What has happened so far: to messages, in the sender, in the receiver.
    pub fn counters(&self) -> (Counters, sender::Counters, receiver::Counters) {
        (
            self.counters,
            self.sender.counters(),
            self.receiver.counters(),
        )
    }
}
