// SPDX-License-Identifier: MIT OR Apache-2.0

//! PASE's arbitrators of the links other than hosts' own (SIGCOMM 2014, §3.1), for the program
//! `weft-pase`: "dedicated controllers that are co-located with the switches".
//!
//! | module | part |
//! |---|---|
//! | [`tree`] | the links on a flow's path, and the arbitrators of each |
//! | [`arbitrators`] | the arbitrators at one switch: messages in, messages out |
//! | `delegated` | trunks that several racks share |
//! | [`frames`] | transport of hosts' messages |
//!
//! [`weft_mechanisms::pase`] has Algorithm 1 and the messages.

pub mod arbitrators;
mod delegated;
pub mod frames;
pub mod tree;
