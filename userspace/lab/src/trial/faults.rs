// SPDX-License-Identifier: MIT OR Apache-2.0

//! The faults of a run.

use std::time::Duration;

use anyhow::{Error, Result};
use weft_net::Testbed;

use crate::fault::{Faults, Running};

/// The maximum time of a fault's command, in the machine's time.
const LONGEST_FAULT: Duration = Duration::from_secs(60);

/// Starts the faults of a run at their times.
pub(super) struct Injector<'a> {
    faults: &'a Faults,
    testbed: &'a Testbed,
    commands: Running,
    /// The event loop takes no error: the first one is kept until the loop has ended.
    failure: Option<Error>,
}

impl<'a> Injector<'a> {
    /// Starts the faults that are there before the first flow, one after the other.
    ///
    /// # Errors
    ///
    /// If one fails.
    pub(super) fn new(faults: &'a Faults, testbed: &'a Testbed) -> Result<Self> {
        let mut commands = Running::default();
        for place in 0..faults.at_once() {
            faults.begin(place, testbed, &mut commands)?;
            commands.end(LONGEST_FAULT)?;
        }
        Ok(Self {
            faults,
            testbed,
            commands,
            failure: None,
        })
    }

    /// Starts one of the later faults. The run goes on meanwhile.
    pub(super) fn inject(&mut self, later: usize) {
        if self.failure.is_none() {
            let place = self.faults.at_once() + later;
            let begun = self.faults.begin(place, self.testbed, &mut self.commands);
            self.failure = begun.err();
        }
    }

    /// Waits until all have done their work.
    ///
    /// # Errors
    ///
    /// If one could not be started, or failed.
    pub(super) fn end(mut self) -> Result<()> {
        match self.failure {
            Some(error) => Err(error),
            None => self.commands.end(LONGEST_FAULT),
        }
    }
}
