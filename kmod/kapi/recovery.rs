// SPDX-License-Identifier: GPL-2.0-only

//! Whether the kernel is repairing a loss that acknowledgements have shown.

use super::bindings::tcp_ca_state_TCP_CA_Recovery;

/// One socket's repair (`TCP_CA_Recovery`), from the states that the kernel reports.
#[derive(Clone, Copy, Default)]
pub struct Recovery {
    on: bool,
}

impl Recovery {
    /// Whether a loss is being repaired.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// For [`set_state`](super::congestion::CongestionControl::set_state): whether a repair begins
    /// with the new state.
    pub fn begins(&mut self, state: u8) -> bool {
        let was_on = self.on;
        self.on = u32::from(state) == tcp_ca_state_TCP_CA_Recovery;
        self.on && !was_on
    }
}
