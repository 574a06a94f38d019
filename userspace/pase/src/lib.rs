// SPDX-License-Identifier: MIT OR Apache-2.0

//! PASE's arbitrators of the links that are not a host's own (SIGCOMM 2014, §3.1), for the program
//! `weft-pase`: "dedicated controllers that are co-located with the switches".
//!
//! | module | part |
//! |---|---|
//! | [`tree`] | which links a flow goes by, and where each is arbitrated |
//! | [`arbitrators`] | those at one switch: messages in, messages out |
//! | `delegated` | trunks that several racks share |
//! | [`frames`] | how hosts' messages come and go |
//!
//! The law, Algorithm 1, and the messages are [`weft_mechanisms::pase`].

pub mod arbitrators;
mod delegated;
pub mod frames;
pub mod tree;
