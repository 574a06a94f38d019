// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `resend` qdisc: how many of the packets that a host sends it keeps.

use super::copies::MAX_COPIES;
use crate::common::nla::Refusal;
use crate::common::options::Unit;

/// The largest `KEEP`.
pub const MAX_KEEP: u32 = MAX_COPIES;

crate::options! {
    /// The maximum number of copies that a host keeps, up to [`MAX_KEEP`]; 0 for none, as at a
    /// switch.
    KEEP = 1, keep: u32
        as "keep" [Unit::Packets, "PACKETS", "a number of packets"] silent 0,
        in (0, MAX_KEEP), or c"Keep must be at most 16384 packets",
        default |said| 0;
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// # Errors
    ///
    /// Refusals by [`Options::check`].
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        Ok(Self::filled(options))
    }

    /// The configuration after a `change`: options that are not in the request stay.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and a change that begins or ends the keeping of packets: whether a
    /// qdisc sees the notices that arrive is decided when it is added.
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let config = self.changed(options);
        if (config.keep == 0) != (self.keep == 0) {
            let sentence = c"A change cannot begin or end keeping: delete the qdisc and add it";
            return Err(Refusal::invalid(sentence));
        }
        Ok(config)
    }
}
