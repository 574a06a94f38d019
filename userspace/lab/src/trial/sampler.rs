// SPDX-License-Identifier: MIT OR Apache-2.0

//! Samples of the ports during a run.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use weft_load::record::{self, Record};

use super::Trial;
use crate::ports::{Continued, PortReading, Ports};

/// The interval between samples of ports, in the machine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    Never,
    Every(Duration),
    /// This interval, or a longer one that gives about [`SAMPLES`] samples. In a fabric of more
    /// than [`PORTS`] ports it gives about [`SAMPLES`] times [`PORTS`] readings of a port: a sample
    /// reads every port, which in a long run of a large fabric costs more than the packets do.
    AtLeast(Duration),
}

/// The number of samples that [`Sampling::AtLeast`] takes while flows start.
const SAMPLES: u32 = 500;
/// The number of ports above which it takes fewer.
const PORTS: u32 = 1000;

impl Sampling {
    /// The time from one sample of this many ports to the next if the main flows start within
    /// `span`.
    fn every(self, span: Duration, ports: usize) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Every(time) => Some(time),
            Self::AtLeast(time) => {
                let ports = u32::try_from(ports).unwrap_or(u32::MAX).max(PORTS);
                Some(time.max((span / SAMPLES).saturating_mul(ports) / PORTS))
            }
        }
    }
}

/// Reads ports, and writes samples of those of interest.
pub(super) struct Sampler<'a, W> {
    ports: Continued<'a>,
    pub(super) out: &'a mut W,
    /// The time from one sample to the next; `None` without samples.
    pub(super) every: Option<Duration>,
    /// Whether every port is of interest.
    all: bool,
    dilation: f64,
    /// The readings before the first flow.
    before: Vec<PortReading>,
    last: Vec<PortReading>,
    /// The event loop takes no error: the first one is kept until the loop has ended.
    failure: Option<Error>,
}

impl<'a, W: Write> Sampler<'a, W> {
    /// For a trial whose main flows start within `span`.
    ///
    /// # Errors
    ///
    /// If the ports cannot be read.
    pub(super) fn new(
        ports: &'a mut dyn Ports,
        out: &'a mut W,
        span: Duration,
        trial: &Trial<'_>,
    ) -> Result<Self> {
        let mut ports = Continued::new(ports);
        let before = ports.read()?;
        Ok(Self {
            ports,
            out,
            every: trial.sample.every(span, before.len()),
            all: trial.sample_all,
            dilation: f64::from(trial.dilation.get()),
            last: before.clone(),
            before,
            failure: None,
        })
    }

    /// Takes a sample at a time since the run's start.
    pub(super) fn sample(&mut self, now_ns: u64) {
        if self.failure.is_none() {
            self.failure = self.try_sample(now_ns).err();
        }
    }

    fn try_sample(&mut self, now_ns: u64) -> Result<()> {
        let all = self.all;
        let now = self.ports.read()?;
        let ports = self.before.iter().zip(&self.last).zip(&now);
        for ((before, _), now) in
            ports.filter(|((_, last), now)| all || now.is_of_interest_after(last))
        {
            write_sample(self.out, before, now, now_ns, self.dilation)?;
        }
        self.last = now;
        Ok(())
    }

    /// # Errors
    ///
    /// If a sample could not be taken.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.failure.take() {
            Some(error) => Err(error).context("sampling ports"),
            None => Ok(()),
        }
    }

    /// Reads the ports once more, and returns the first readings and these. Ports that sent
    /// something have a last sample if there are samples.
    ///
    /// # Errors
    ///
    /// If the ports cannot be read, or the samples cannot be written.
    pub(super) fn end(mut self, now_ns: u64) -> Result<(Vec<PortReading>, Vec<PortReading>)> {
        let after = self.ports.read()?;
        if self.every.is_some() {
            let ports = self.before.iter().zip(&after);
            let sent = |(before, now): &(&PortReading, &PortReading)| {
                now.sample.busy_ns != before.sample.busy_ns
            };
            for (before, now) in ports.filter(sent) {
                write_sample(self.out, before, now, now_ns, self.dilation)?;
            }
        }
        Ok((self.before, after))
    }
}

/// Writes a port's present sample; counters count from `before`.
fn write_sample(
    out: &mut impl Write,
    before: &PortReading,
    now: &PortReading,
    now_ns: u64,
    dilation: f64,
) -> Result<()> {
    let mut sample = now.sample.clone();
    sample.count_from(&before.sample);
    sample.divide_times(dilation);
    sample.time_ns = (now_ns as f64 / dilation).round() as u64;
    Ok(record::write(out, &Record::Port(sample))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: Duration = Duration::from_millis(10);

    #[test]
    fn a_long_run_is_sampled_about_500_times_by_default() {
        let [short, long] = [4_000, 1_000_000].map(Duration::from_millis);
        let default = Sampling::AtLeast(PACKETS);
        assert_eq!(default.every(short, 100), Some(PACKETS));
        assert_eq!(default.every(long, 100), Some(long / 500));
        assert_eq!(default.every(Duration::ZERO, 100), Some(PACKETS));
        assert_eq!(Sampling::Every(PACKETS).every(long, 100), Some(PACKETS));
        assert_eq!(Sampling::Never.every(long, 100), None);
    }

    #[test]
    fn a_fabric_of_more_than_1000_ports_is_sampled_less_often_by_default() {
        let long = Duration::from_secs(1000);
        let default = Sampling::AtLeast(PACKETS);
        assert_eq!(default.every(long, 1_000), Some(long / 500));
        assert_eq!(default.every(long, 2_000), Some(long / 250));
        assert_eq!(default.every(long, 6_144), Some(long / 500 * 6_144 / 1_000));
        assert_eq!(default.every(Duration::ZERO, 6_144), Some(PACKETS));
        assert_eq!(
            default.every(Duration::MAX, usize::MAX),
            Some(Duration::MAX / 1_000)
        );
        assert_eq!(Sampling::Every(PACKETS).every(long, 6_144), Some(PACKETS));
        assert_eq!(Sampling::Never.every(long, 6_144), None);
    }
}
