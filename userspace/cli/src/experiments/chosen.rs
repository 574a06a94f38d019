// SPDX-License-Identifier: MIT OR Apache-2.0

//! The experiments that a command was given.

use anyhow::Result;
use weft_lab::error::usage;
use weft_lab::experiment::names;

/// The names of weft's experiments: the given ones, or all if none is given.
///
/// # Errors
///
/// If weft has no experiment with one of the given names.
pub(super) fn of_weft(chosen: &[String]) -> Result<Vec<&'static str>> {
    let mut all = names();
    if let Some(name) = chosen.iter().find(|name| !all.contains(&name.as_str())) {
        return usage(format!(
            "there is no experiment `{name}`; `weft experiments` lists them"
        ));
    }
    all.retain(|name| chosen.is_empty() || chosen.iter().any(|it| it == name));
    Ok(all)
}
