// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes of a demand: allocation, then path selection (§6.2).
//!
//! Sessions hand on demands and order batches; what comes of it they are given timeslot by
//! timeslot. Here both stages follow each other in the caller's thread. The
//! [`pipeline`](crate::pipeline) has a thread for each.

use crate::fabric::Component;
use crate::routes::Routes;
use crate::settings::{Policy, Settings};
use crate::{Allocation, Allocator, Free, Invalid, MAX_CLASSES, max_min::MaxMin, min_fct::MinFct};

/// Which batch is to be allocated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// Its first timeslot.
    pub first: u64,
    /// Timeslots that are left out between the last batch and this one.
    pub skipped: u64,
    /// Whether it is later than it should be, and counted as such.
    pub is_late: bool,
    /// What an endpoint is not given of it, if any.
    pub reserved: Option<Reserved>,
}

/// Timeslots of a batch that an endpoint is not given: a bit for each, from the lowest.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// Whose link it is.
    pub endpoint: u16,
    /// Not to send in.
    pub to_send: u64,
    /// Not to receive in.
    pub to_receive: u64,
}

/// What came of a timeslot.
#[derive(Clone, Copy, Debug)]
pub struct Timeslot<'a> {
    /// Which it is.
    pub number: u64,
    /// Who may send in it.
    pub packets: &'a [Allocation],
    /// By which path: as many as there are packets.
    pub paths: &'a [u8],
    /// Those that have no path and wait for another timeslot, by their places among the packets, in
    /// order.
    pub pathless: &'a [usize],
    /// By source: whether its packets are of a session that is over, and nobody wants them any
    /// more. Sources beyond the last have none such.
    pub is_over: &'a [bool],
}

/// Allocation and path selection, as sessions see them.
pub trait Stages: Send {
    /// `slots` more timeslots from `source` for a stream are wanted. Whether they will be given:
    /// otherwise the endpoint asks again. Whoever asks sees to it that no pair waits for more than
    /// [`MAX_DEMAND`](crate::MAX_DEMAND).
    fn request(&mut self, source: u16, stream: u16, slots: u16) -> bool;

    /// Forgets what `source` has asked for and was not given.
    fn forget(&mut self, source: u16);

    /// In batches that are ordered from now on, packets come by none of these.
    fn avoid(&mut self, components: &[Component]);

    /// Whether a batch can be ordered now.
    fn is_ready(&self) -> bool;

    /// Orders a batch; only if that [can be](Self::is_ready).
    fn order(&mut self, order: Order);

    /// Gives out the batches that are done, each timeslot once, in order. `now` in ns.
    fn collect(&mut self, now: u64, give: &mut dyn FnMut(Timeslot<'_>));

    /// Requests that found no room so far.
    fn crowded(&self) -> u64 {
        0
    }

    /// Batches that were ordered in time so far, and done too late.
    fn late(&self) -> u64 {
        0
    }

    /// Whether nothing will come of what is ordered any more.
    fn has_failed(&self) -> bool {
        false
    }
}

/// The stage that gives timeslots.
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
    /// If there can be none like that.
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

    /// A packet that has no path is wanted again.
    pub(crate) fn take_back(&mut self, source: u16, stream: u16) {
        // There is room for it: it was wanted before.
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
    /// The first timeslot of a batch that is allocated and not given out.
    first: Option<u64>,
    /// Packets of a batch that are to wait: their sources and streams.
    waiting: Vec<(u16, u16)>,
    /// Classes of urgency.
    classes: u16,
}

impl OneThread {
    /// # Errors
    ///
    /// If there can be none like that.
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
