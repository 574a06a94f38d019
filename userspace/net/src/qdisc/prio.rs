// SPDX-License-Identifier: MIT OR Apache-2.0

//! `prio`: `struct tc_prio_qopt`, the number of bands and each priority's band.

use super::{Words, unknown};
use crate::attributes::Attributes;

/// `TC_PRIO_MAX + 1`.
const PRIORITIES: usize = 16;
/// `TCQ_PRIO_BANDS`.
const MAX_BANDS: u32 = 16;
/// `tc`'s defaults.
const DEFAULT_BANDS: u32 = 3;
const DEFAULT_MAP: [u8; PRIORITIES] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// `prio [ bands NUMBER ] [ priomap P0 … P15 ]`; priorities that the map leaves out keep their
/// default band.
pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let (mut bands, mut map) = (DEFAULT_BANDS, DEFAULT_MAP);
    while let Some(word) = words.option()? {
        match word {
            "bands" => {
                bands = words.value("bands", "a number from 2 to 16", |text| {
                    text.parse()
                        .ok()
                        .filter(|bands| (2..=MAX_BANDS).contains(bands))
                })?;
            }
            "priomap" => {
                for band in &mut map {
                    let Some((first, rest)) = words.rest.split_first() else {
                        break;
                    };
                    let Ok(number) = first.parse() else { break };
                    (*band, words.rest) = (number, rest);
                }
            }
            word => return unknown(word, "bands, priomap"),
        }
    }
    if let Some(band) = map.iter().find(|&&band| u32::from(band) >= bands) {
        return Err(format!(
            "the priority map names band {band}, bands are 0 to {}",
            bands - 1
        ));
    }
    let mut options = Attributes(bands.to_ne_bytes().to_vec());
    options.0.extend(map);
    // In place of the former TCA_PRIO_MQ, which was empty; the kernel skips it.
    options.nest(libc::TCA_OPTIONS, |_| {});
    Ok(Some(options))
}
