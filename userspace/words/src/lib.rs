// SPDX-License-Identifier: MIT OR Apache-2.0

//! What people write: quantities, names and files.
//!
//! | module | part |
//! |---|---|
//! | [`quantity`] | a number and its unit, exactly: the one grammar of sizes, rates and times |
//! | [`order`] | names in the order of their numbers |
//! | [`file`] | files read whole, up to the limit of their kind |
//! | [`near`] | the names that a mistyped one is near |
//! | [`shell`] | words in shell syntax |

pub mod file;
pub mod near;
pub mod order;
pub mod quantity;
pub mod shell;
