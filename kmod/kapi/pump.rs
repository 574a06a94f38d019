// SPDX-License-Identifier: GPL-2.0-only

//! TCP sockets that send and discard bytes by themselves.
//!
//! A flow of a workload consists of bytes that nobody looks at. A process that writes and reads
//! them is called for every few segments, and under the model clock, where each system call is two
//! switches between processes of the host, that takes a quarter of a run's time. Here the socket
//! does it: an upper layer of TCP (`TCP_ULP`, as kTLS is) with two options at level `0x70756d70`,
//! each a `u64`, which add to what is to be done:
//!
//! | option | set: how many bytes more | get: how many are left |
//! |---|---|---|
//! | 1 | send zeros, after all that the process has written | that have no room in the send buffer |
//! | 2 | discard bytes that arrive, before any that the process reads | that have not arrived |
//!
//! Bytes are sent when the process would have been told of room, and discarded when it would have
//! been told of data, so a flow's packets are those of a process that reads and writes at once.
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
