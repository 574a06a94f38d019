// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fabric, as options of `weft up` and `weft run`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use weft_lab::fabric::FabricOptions;
use weft_topo::Delay;

/// Which fabric.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// KIND[:OPTION=VALUE,…] or a TOML file; see `weft topology --help`
    pub(crate) topology: String,
    /// The fabric runs so many times slower: rates are divided, delays and the scheme's times
    /// multiplied, and results are given in the fabric's own time
    #[arg(long, value_name = "N", default_value = "1")]
    dilation: NonZeroU32,
    /// How late the timer of a wire may be, in time of the fabric, so that several fire together: a
    /// run in a VM is faster, and each packet up to so much late where it leaves the fabric
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = time)]
    slack: Duration,
    /// Sets one of the scheme's parameters (repeatable); `weft schemes` names them; `weft run`
    /// takes several values, separated by commas
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Loads a kernel module by its file first, such as a qdisc's of your own (repeatable, in this
    /// order); it stays loaded
    #[arg(long = "module", value_name = "FILE.ko")]
    modules: Vec<PathBuf>,
}

impl Args {
    /// The fabric under a scheme.
    pub(crate) fn options(&self, scheme: &str) -> FabricOptions {
        FabricOptions {
            topology: self.topology.clone(),
            dilation: self.dilation,
            slack: self.slack,
            scheme: scheme.to_owned(),
            settings: self.settings.clone(),
            modules: self.modules.clone(),
        }
    }
}

/// A time of the fabric.
fn time(text: &str) -> Result<Duration, &'static str> {
    let time = text.parse::<Delay>().ok();
    let time = time.map(|time| Duration::from_nanos(time.ns()));
    time.ok_or("expected a time up to 10s, such as 60ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slack_is_a_time() {
        assert_eq!(time("60ns"), Ok(Duration::from_nanos(60)));
        assert_eq!(time("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(time("0ns"), Ok(Duration::ZERO));
        for text in ["", "60", "-1ns", "soon", "11s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
