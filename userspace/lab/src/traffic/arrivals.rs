// SPDX-License-Identifier: MIT OR Apache-2.0

//! When flows start.

use std::num::NonZeroU32;
use std::str::FromStr;

use anyhow::Result;
use weft_load::arrivals::Process;

use super::refuse;
use crate::error::usage;

/// The starts of flows. It is read from `poisson`, `balanced`, `lognormal[:SIGMA]` or `closed[:N]`,
/// and results repeat the original text.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    pub(super) text: String,
    pub(super) when: When,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    /// At times that do not depend on the ends of other flows.
    Open(Process),
    /// This many at a time for each pair: the end of one starts the next.
    Closed(NonZeroU32),
}

impl FromStr for Arrivals {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let when = if let Some(rest) = text.strip_prefix("closed") {
            let outstanding = match rest.strip_prefix(':') {
                None if rest.is_empty() => Some(NonZeroU32::MIN),
                None => None,
                Some(number) => number.parse().ok(),
            };
            match outstanding {
                Some(outstanding) => When::Closed(outstanding),
                None => {
                    return usage(format!(
                        "--arrivals {text}: expected closed or closed:N with N from 1"
                    ));
                }
            }
        } else if ["poisson", "balanced", "lognormal"]
            .iter()
            .any(|it| text.starts_with(it))
        {
            When::Open(refuse(text.parse())?)
        } else {
            return usage(format!(
                "--arrivals {text}: expected poisson, balanced, lognormal[:SIGMA] or closed[:N]"
            ));
        };
        Ok(Self {
            text: text.to_owned(),
            when,
        })
    }
}
