// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names of hosts in files.

use std::collections::HashMap;

/// The hosts of a fabric by their places, which are numbered from 0, and by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    names: Vec<String>,
    places: HashMap<String, u32>,
}

impl Hosts {
    /// Hosts with these names, in the order of their places; each name is different.
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        let names: Vec<String> = names.into_iter().collect();
        Self {
            places: names.iter().cloned().zip(0..).collect(),
            names,
        }
    }

    /// `count` hosts called h0, h1, and so on.
    #[must_use]
    pub fn numbered(count: u32) -> Self {
        Self::named((0..count).map(|place| format!("h{place}")))
    }

    /// Number of hosts.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.names.len() as u32
    }

    /// The place of the host whose name or place is `word`.
    ///
    /// # Errors
    ///
    /// If no host matches, or two do: one sentence.
    pub(crate) fn find(&self, word: &str) -> Result<u32, String> {
        let named = self.places.get(word).copied();
        let numbered = word.parse().ok().filter(|place| *place < self.count());
        match (named, numbered) {
            (Some(named), Some(place)) if named != place => Err(format!(
                "`{word}` is one host's name and the place of another, {}: give them other names",
                self.names[place as usize]
            )),
            (Some(place), _) | (None, Some(place)) => Ok(place),
            (None, None) => Err(format!(
                "there is no host `{word}`: expected a name such as {}, or a place from 0 to {}",
                self.names.first().map_or("h0", String::as_str),
                self.count().saturating_sub(1)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_that_is_anothers_position_is_refused() {
        let hosts = Hosts::named(["0", "2", "1"].map(str::to_owned));
        assert_eq!(hosts.find("0"), Ok(0));
        assert_eq!(
            hosts.find("1").unwrap_err(),
            "`1` is one host's name and the place of another, 2: give them other names"
        );
    }
}
