// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program: the library with a command line, sockets, a clock and files.
//!
//! | module | part |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`run`] | sockets, signals and the main loop |
//! | [`turn`] | one turn of the loop: how much is read before what is due is done |
//! | [`datagrams`] | a UDP socket, many datagrams in a system call |
//! | [`arbiter`] | the arbiter, active or on standby |
//! | [`figures`], [`log`] | its output |
//! | [`bell`], [`clock`], [`random`] | services of the kernel |

mod arbiter;
pub(crate) mod arguments;
mod bell;
mod clock;
mod datagrams;
mod figures;
pub(crate) mod log;
mod random;
pub(crate) mod run;
mod turn;
