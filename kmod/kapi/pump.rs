// SPDX-License-Identifier: GPL-2.0-only

//! TCP sockets that send and discard bytes by themselves.
//!
//! Nobody looks at the bytes of a workload's flow. A process that writes and reads them is called
//! for every few segments, and under the model clock, where each system call is two
//! switches between processes of the host, that takes a quarter of a run's time. Here the socket
//! does it: an upper layer of TCP (`TCP_ULP`, as kTLS is) with two options at level `0x70756d70`,
//! each a `u64` that is added to what is left to do:
//!
//! | option | set: how many bytes more | get: how many are left |
//! |---|---|---|
//! | 1 | send zeros, after all that the process has written | that have no room in the send buffer |
//! | 2 | discard bytes that arrive, before any that the process reads | that have not arrived |
//!
//! Bytes are sent when a process would be told that there is room, and discarded when it would be
//! told that data has arrived. A flow's packets are therefore the same as with a process that reads
//! and writes at once.
//! The process wakes for the first byte that is not to be discarded, and at the connection's end.

use core::marker::PhantomPinned;

use kernel::{error::to_result, prelude::*, InPlaceModule};

use super::bindings::{weft_pump_register, weft_pump_unregister};

/// The registration of the upper layer `weft-pump`. Its sockets hold a reference to the module.
#[pin_data(PinnedDrop)]
pub struct UpperLayer {
    #[pin]
    _pinned: PhantomPinned,
}

impl InPlaceModule for UpperLayer {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _pinned: {
                // SAFETY: The layer's table is in the module's static memory, and the value is
                // dropped, which unregisters it, when the module is unloaded.
                to_result(unsafe { weft_pump_register(module.as_ptr().cast()) })?;
                PhantomPinned
            },
        }? Error)
    }
}

#[pinned_drop]
impl PinnedDrop for UpperLayer {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered in init().
        unsafe { weft_pump_unregister() }
    }
}
