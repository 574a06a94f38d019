// SPDX-License-Identifier: GPL-2.0-only

//! `weft-pump`: TCP sockets that send and discard a flow's bytes by themselves, for `weft run
//! --pump`.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};

use kapi::pump::UpperLayer;

module! {
    type: UpperLayer,
    name: "tcp_pump",
    authors: ["The weft developers"],
    description: "TCP sockets that send and discard bytes by themselves",
    license: "GPL",
    alias: ["tcp-ulp-weft-pump"],
}
