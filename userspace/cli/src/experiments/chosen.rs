// SPDX-License-Identifier: MIT OR Apache-2.0

//! The experiments that a command is about.

use anyhow::Result;
use weft_lab::error::usage;
use weft_lab::experiment::names;

/// Those of weft with certain names, or all.
///
/// # Errors
///
/// If there is no experiment of a name.
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
