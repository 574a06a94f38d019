// SPDX-License-Identifier: MIT OR Apache-2.0

//! What people write: quantities and names.
//!
//! | module | part |
//! |---|---|
//! | [`quantity`] | a number and its unit, exactly: the one grammar of sizes, rates and times |
//! | [`order`] | names in the order of their numbers |
//! | [`near`] | the names that a mistyped one is near |
//! | [`shell`] | words in shell syntax |

pub mod near;
pub mod order;
pub mod quantity;
pub mod shell;
