// SPDX-License-Identifier: MIT OR Apache-2.0

//! The stage that chooses paths.

use rtrb::Consumer;

use super::batch::{Batch, Pathless};
use super::ring::{Bell, Sender};
use super::{Settings, Stage};
use crate::Invalid;
use crate::routes::Routes;
use crate::stages::selecting;

/// Path selection, between two rings.
pub struct PathStage {
    routes: Routes,
    /// Classes of urgency.
    classes: u16,
    allocated: Consumer<Box<Batch>>,
    back: Sender<Pathless>,
    to_front: Sender<Box<Batch>>,
    /// A batch whose packets without a path have not all gone back.
    held: Option<Box<Batch>>,
    /// These packets, and how many of them have gone back.
    waiting: Vec<Pathless>,
    returned: usize,
}

impl PathStage {
    pub(super) fn new(
        settings: &Settings,
        allocated: Consumer<Box<Batch>>,
        back: Sender<Pathless>,
        to_front: Sender<Box<Batch>>,
    ) -> Result<Self, Invalid> {
        Ok(Self {
            routes: selecting(settings)?,
            classes: settings.classes,
            allocated,
            back,
            to_front,
            held: None,
            waiting: Vec::new(),
            returned: 0,
        })
    }

    pub(super) fn set_back_bell(&mut self, bell: Bell) {
        self.back.set_bell(bell);
    }

    pub(super) fn set_front_bell(&mut self, bell: Bell) {
        self.to_front.set_bell(bell);
    }

    /// Chooses the paths of the next batch, or continues with the one that was held up. Returns
    /// whether there was anything to do.
    pub fn step(&mut self) -> bool {
        let batch = match self.held.take() {
            Some(batch) => batch,
            None => match self.allocated.pop() {
                Ok(batch) => self.select(batch),
                Err(_) => return false,
            },
        };
        let before = self.returned;
        while let Some(packet) = self.waiting.get(self.returned) {
            if !self.back.push(*packet) {
                self.back.ring();
                self.held = Some(batch);
                return self.returned > before;
            }
            self.returned += 1;
        }
        self.waiting.clear();
        self.returned = 0;
        let has_room = self.to_front.push(batch);
        assert!(has_room, "there are more batches than there can be");
        self.to_front.ring();
        true
    }

    fn select(&mut self, mut batch: Box<Batch>) -> Box<Batch> {
        if let Some(avoided) = batch.avoided.take() {
            self.routes.avoid(&avoided);
        }
        batch.select(&mut self.routes, self.classes, &mut self.waiting);
        batch
    }
}

impl Stage for PathStage {
    fn step(&mut self) -> bool {
        self.step()
    }

    fn is_over(&self) -> bool {
        self.allocated.is_abandoned()
    }
}
