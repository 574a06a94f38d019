// SPDX-License-Identifier: MIT OR Apache-2.0

//! The stages of a demand: allocation, then path selection (§6.2).
//!
//! Sessions pass on demands and order batches, and receive the results timeslot by timeslot. Here
//! both stages run one after the other in the caller's thread. The [`pipeline`](crate::pipeline)
//! has a thread for each.

use crate::fabric::Component;
use crate::routes::Routes;
use crate::settings::{Policy, Settings};
use crate::{Allocation, Allocator, Free, Invalid, MAX_CLASSES, max_min::MaxMin, min_fct::MinFct};

/// An order to allocate a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// Its first timeslot.
    pub first: u64,
    /// Timeslots skipped between the last batch and this one.
    pub skipped: u64,
    /// Whether it is later than it should be, and counted as such.
    pub is_late: bool,
    /// The timeslots of it that are kept free for an endpoint's own use, if any.
    pub reserved: Option<Reserved>,
}

/// Timeslots of a batch that are not given to an endpoint: a bit for each, from the lowest.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// The endpoint whose link it is.
    pub endpoint: u16,
    /// Timeslots not to send in.
    pub to_send: u64,
    /// Timeslots not to receive in.
    pub to_receive: u64,
}

/// The result of a timeslot.
#[derive(Clone, Copy, Debug)]
pub struct Timeslot<'a> {
    /// Its number.
    pub number: u64,
    /// The packets that may be sent in it.
    pub packets: &'a [Allocation],
    /// Their paths: as many as there are packets.
    pub paths: &'a [u8],
    /// The packets that have no path and wait for another timeslot, as indices in order.
    pub pathless: &'a [usize],
    /// By source: whether its packets belong to a session that is over, and are no longer wanted.
    /// Sources beyond the last have no such packets.
    pub is_over: &'a [bool],
}

/// Allocation and path selection, as sessions see them.
pub trait Stages: Send {
    /// Requests `slots` more timeslots from `source` for a stream. Returns whether they will be
    /// given: otherwise the endpoint asks again. The caller ensures that no pair waits for more
    /// than [`MAX_DEMAND`](crate::MAX_DEMAND).
    fn request(&mut self, source: u16, stream: u16, slots: u16) -> bool;

    /// Cancels the demand of `source`.
    fn forget(&mut self, source: u16);

    /// In batches ordered from now on, packets cross none of these.
    fn avoid(&mut self, components: &[Component]);

    /// Whether a batch can be ordered now.
    fn is_ready(&self) -> bool;

    /// Orders a batch; call it only if [ready](Self::is_ready).
    fn order(&mut self, order: Order);

    /// Passes the completed batches to `give`, each timeslot once, in order. `now` in ns.
    fn collect(&mut self, now: u64, give: &mut dyn FnMut(Timeslot<'_>));

    /// Requests so far that found no room.
    fn crowded(&self) -> u64 {
        0
    }

    /// Batches so far that were ordered in time, and completed too late.
    fn late(&self) -> u64 {
        0
    }

    /// Whether orders will never complete.
    fn has_failed(&self) -> bool {
        false
    }
}

/// The stage that allocates timeslots.
pub(crate) struct Allocating {
    free: Box<Free>,
    /// By class, the most urgent first.
    classes: Vec<Box<dyn Allocator + Send>>,
    /// The timeslots of the last batch, of all classes, if there are several.
    timeslots: Vec<Vec<Allocation>>,
}

impl Allocating {
    /// # Errors
    ///
    /// If the settings are invalid.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Invalid> {
        let Settings {
            addresses,
            batch,
            classes,
            ..
        } = settings;
        let endpoints = addresses.count() as usize;
        let mut free = Free::new(endpoints, *batch)?;
        free.set_lags(addresses, settings.lags)?;
        if settings
            .own
            .is_some_and(|own| usize::from(own) >= endpoints)
        {
            return Err(Invalid::Endpoints);
        }
        if !(1..=MAX_CLASSES).contains(classes) {
            return Err(Invalid::Classes);
        }
        let allocator = |_| -> Result<Box<dyn Allocator + Send>, Invalid> {
            Ok(match settings.policy {
                Policy::MaxMin => Box::new(MaxMin::new(endpoints, *batch)?),
                Policy::MinFct => Box::new(MinFct::new(endpoints, *batch)?),
            })
        };
        Ok(Self {
            free,
            classes: (0..*classes).map(allocator).collect::<Result<_, _>>()?,
            timeslots: vec![Vec::new(); *batch],
        })
    }

    pub(crate) fn request(&mut self, source: u16, stream: u16, slots: u16) -> bool {
        let count = self.classes.len() as u16;
        let (destination, class) = (stream / count, stream % count);
        let class = &mut self.classes[usize::from(class)];
        class.request(source, destination, slots).is_ok()
    }

    /// Allocates a packet without a path again.
    pub(crate) fn take_back(&mut self, source: u16, stream: u16) {
        // There is room for it, because it was part of the demand before.
        let is_taken = self.request(source, stream, 1);
        debug_assert!(is_taken, "{source} to {stream}");
    }

    pub(crate) fn forget(&mut self, source: u16) {
        self.classes.iter_mut().for_each(|it| it.forget(source));
    }

    pub(crate) fn allocate(&mut self, order: &Order) {
        self.free.skip(order.skipped);
        if let Some(reserved) = order.reserved {
            self.free
                .reserve(reserved.endpoint, reserved.to_send, reserved.to_receive);
        }
        self.free.begin();
        for class in &mut self.classes {
            class.allocate(&mut self.free);
        }
        self.free.end();
        if self.classes.len() == 1 {
            return;
        }
        for (index, timeslot) in self.timeslots.iter_mut().enumerate() {
            timeslot.clear();
            for (number, class) in self.classes.iter().enumerate() {
                let packets = class.timeslot(index).iter();
                timeslot.extend(packets.map(|packet| packet.of_class(number as u16)));
            }
        }
    }

    /// The timeslots of the batch that was allocated last.
    pub(crate) fn timeslots(&self) -> impl Iterator<Item = &[Allocation]> {
        self.timeslots
            .iter()
            .enumerate()
            .map(|(index, all)| match &self.classes[..] {
                [only] => only.timeslot(index),
                _ => all,
            })
    }
}

/// The stage that chooses paths.
pub(crate) fn selecting(settings: &Settings) -> Result<Routes, Invalid> {
    Routes::new(&settings.addresses, settings.ways, settings.lags)
}

/// Both stages in the caller's thread: a batch is done when it is ordered.
pub struct OneThread {
    allocating: Allocating,
    routes: Routes,
    /// The first timeslot of a batch that is allocated and not passed on.
    first: Option<u64>,
    /// Packets of a batch that must wait: their sources and streams.
    waiting: Vec<(u16, u16)>,
    /// Classes of urgency.
    classes: u16,
}

impl OneThread {
    /// # Errors
    ///
    /// If the settings are invalid.
    pub fn new(settings: &Settings) -> Result<Self, Invalid> {
        Ok(Self {
            allocating: Allocating::new(settings)?,
            routes: selecting(settings)?,
            first: None,
            waiting: Vec::new(),
            classes: settings.classes,
        })
    }
}

impl Stages for OneThread {
    fn request(&mut self, source: u16, stream: u16, slots: u16) -> bool {
        self.allocating.request(source, stream, slots)
    }

    fn forget(&mut self, source: u16) {
        self.allocating.forget(source);
    }

    fn avoid(&mut self, components: &[Component]) {
        self.routes.avoid(components);
    }

    fn is_ready(&self) -> bool {
        self.first.is_none()
    }

    fn order(&mut self, order: Order) {
        self.allocating.allocate(&order);
        self.first = Some(order.first);
    }

    fn collect(&mut self, _: u64, give: &mut dyn FnMut(Timeslot<'_>)) {
        let Some(first) = self.first.take() else {
            return;
        };
        for (number, packets) in (first..).zip(self.allocating.timeslots()) {
            self.routes.select(number, packets);
            let pathless = self.routes.waiting();
            self.waiting.extend(pathless.iter().map(|place| {
                let packet = packets[*place];
                (packet.source(), packet.stream(self.classes))
            }));
            give(Timeslot {
                number,
                packets,
                paths: self.routes.selected(),
                pathless,
                is_over: &[],
            });
        }
        for (source, stream) in self.waiting.drain(..) {
            self.allocating.take_back(source, stream);
        }
    }
}
