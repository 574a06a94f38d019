// SPDX-License-Identifier: MIT OR Apache-2.0

//! A run: its options, their meaning on its fabric, and its results' file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use weft_load::engine::{Cancel, Config, Connections, Progress, Since};
use weft_load::framing::Framing;
use weft_load::generate::Workload;
use weft_load::record::{FORMAT, Header, LINE, Reader, Record};
use weft_net::{Plan, Process, Testbed};
use weft_topo::{NodeId, Rate};

use crate::error::usage;
use crate::fabric::{Fabric, FabricOptions};
use crate::fault::{Fault, Faults};
use crate::follow;
use crate::inputs;
use crate::process;
use crate::randomness::Stage;
use crate::testbed::{self, ControlGroup, Sampled};
use crate::topology;
use crate::traffic::{Planned, Traffic};
use crate::trial::{Sampling, Trial};

/// The kind of this machine's clock.
pub use crate::clock::clock;
pub use crate::trial::Outcomes;

/// The limits of the classes of sizes in results, in bytes, as in the papers.
const BUCKETS: [u64; 3] = [100_000, 1_000_000, 10_000_000];
/// Ports are sampled at most once in this many transmission times of a full packet on a host's
/// link, unless the run sets the interval.
const SAMPLE_PACKETS: u64 = 100;

/// The options of a run; times are the fabric's.
#[derive(Clone, Debug)]
pub struct Run {
    /// The fabric and its scheme.
    pub fabric: FabricOptions,
    /// The flows.
    pub traffic: Traffic,
    /// The choice of a flow's connection.
    pub connections: Connections,
    /// The beginning of a flow's time.
    pub since: Since,
    /// The interval between samples of ports; `None` for once in 100 packets of a host's link,
    /// limited to about 500 samples while flows start, and to fewer if there are more than 1,000
    /// ports; 0 for no samples.
    pub sample: Option<Duration>,
    /// Whether every port is sampled each time, not only those of interest.
    pub sample_all: bool,
    /// Whether to count, for each flow, the packets that took more hops than necessary.
    pub hops: bool,
    /// The host to which packets are followed, if any.
    pub follow: Option<String>,
    /// The longest wait for flows after the last one has begun; `None` for 100 times the
    /// transmission time of the largest flow on the host link, at least 10 s of the machine.
    pub patience: Option<Duration>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Whether hosts use IPv6.
    pub ipv6: bool,
    /// Whether the kernel sends and discards the bytes of large flows by itself.
    pub pump: bool,
    /// The name of the testbed that is created and removed.
    pub testbed: String,
    /// The words after `weft run` with which results describe this run, apart from its scheme and
    /// seed.
    pub words: Vec<String>,
}

/// A run on its fabric, with everything checked that can be checked before weaving.
pub struct Checked {
    run: Run,
    fabric: Fabric,
    framing: Framing,
    plan: Plan,
    faults: Faults,
    /// The host to which packets are followed.
    followed: Option<NodeId>,
}

impl Run {
    /// Derives everything that is the same for all seeds.
    ///
    /// # Errors
    ///
    /// If something is invalid for one of these seeds: one sentence.
    pub fn checked(self, seeds: &[u64]) -> Result<Checked> {
        let fabric = Fabric::new(&self.fabric)?;
        for fault in &self.faults {
            fault.check(&fabric, self.ipv6)?;
        }
        let framing = fabric.framing(self.ipv6)?;
        let followed = self.follow.as_deref();
        let followed = followed
            .map(|name| follow::host(&fabric.topology, name))
            .transpose()?;
        for &seed in seeds {
            self.workload(&fabric, &framing, seed)?;
        }
        Ok(Checked {
            plan: testbed::plan(&self.testbed, &fabric)?,
            faults: Faults::new(&fabric, &self.faults)?,
            followed,
            run: self,
            fabric,
            framing,
        })
    }

    /// The files and folders that it names, except those that weft brings.
    ///
    /// # Errors
    ///
    /// If the scheme is invalid.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = self.fabric.files()?;
        files.extend(self.traffic.files().map(PathBuf::from));
        Ok(files)
    }

    fn workload(&self, fabric: &Fabric, framing: &Framing, seed: u64) -> Result<Planned> {
        let untagged = Fabric::untagged_framing(self.ipv6)?;
        self.traffic
            .workload(&fabric.topology, framing, &untagged, seed)
    }
}

/// Refuses a value that occurs twice: both results would have the same file.
///
/// # Errors
///
/// One sentence, which names this option.
pub fn each_once<T: PartialEq + std::fmt::Display>(option: &str, values: &[T]) -> Result<()> {
    let mut places = values.iter().enumerate();
    match places.find(|(place, value)| values[..*place].contains(value)) {
        Some((_, value)) => usage(format!("{option}: {value} is there twice")),
        None => Ok(()),
    }
}

/// The file for a run's results.
pub fn file(folder: &Path, scheme: &str, seed: u64) -> PathBuf {
    folder.join(format!("{scheme}-seed{seed}.jsonl"))
}

/// A testbed that is removed when this is dropped.
struct Temporary<'a>(&'a str);

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Err(error) = testbed::remove(self.0) {
            eprintln!("weft: {error:#}; weft down {} tries again", self.0);
        }
    }
}

impl Checked {
    /// The options.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The fabric to weave.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The inputs that decide its results with a seed, as hashes, see [`Header::inputs`].
    ///
    /// # Errors
    ///
    /// If the flows cannot be drawn.
    pub(crate) fn inputs(&self, seed: u64) -> Result<BTreeMap<String, String>> {
        let run = &self.run;
        inputs::hashes(&self.fabric, &run.traffic, (run.ipv6, seed))
    }

    /// The hash of the flows of a seed.
    ///
    /// # Errors
    ///
    /// If they cannot be drawn.
    pub(crate) fn flows(&self, seed: u64) -> Result<String> {
        let run = &self.run;
        inputs::flows(&self.fabric, &run.traffic, (run.ipv6, seed))
    }

    /// The processes on its nodes during the run.
    pub fn processes(&self) -> &[Process] {
        self.plan.processes()
    }

    /// Checks that this machine has everything that the scheme needs, so that a run does not fail
    /// after other runs have taken hours.
    ///
    /// # Errors
    ///
    /// The missing part, and its remedy.
    pub fn require(&self) -> Result<()> {
        if self.run.ipv6 && !weft_net::probe::has_ipv6() {
            return usage(
                "--ipv6: this kernel has no IPv6; boot it without ipv6.disable=1, or leave --ipv6 out",
            );
        }
        let wanted = || format!("scheme {}", self.fabric.scheme.name);
        let lacking = self.plan.require().map_err(testbed::explain);
        lacking.with_context(wanted)
    }

    /// The framing of packets on its wires.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Refuses to replace the results of another run, or a file that does not contain results. The
    /// results of an earlier execution of the same run may be replaced.
    ///
    /// # Errors
    ///
    /// One sentence.
    pub fn check_place(&self, path: &Path, seed: u64) -> Result<()> {
        let Ok(file) = File::open(path) else {
            return Ok(());
        };
        let name = path.display().to_string();
        let header = match Reader::new(&name, BufReader::new(file)).next() {
            // The file of a run that was interrupted before it began.
            None => return Ok(()),
            Some(Ok(Record::Header(header))) => header,
            // The file of a run that was killed while it wrote its first line.
            Some(Err(_)) if is_begun(path) => return Ok(()),
            Some(_) => {
                return usage(format!(
                    "{name} is there, and no result: --out names another folder"
                ));
            }
        };
        let same = header.options == self.run.words
            && header.scheme == self.fabric.scheme.name
            && header.parameters == self.fabric.parameters()
            && header.seed == seed
            && header.weft == env!("CARGO_PKG_VERSION");
        match same {
            true => Ok(()),
            false => usage(format!(
                "{name} is of another run: --out names another folder"
            )),
        }
    }

    /// Weaves the fabric, runs the workload of a seed on it, and writes the results to `path`.
    ///
    /// # Errors
    ///
    /// If there is such a testbed, privileges or parts of the kernel are missing, the kernel
    /// refuses, or writing fails. A run that is merely not credible is no error: its summary says
    /// so.
    pub fn perform(
        &self,
        seed: u64,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Outcomes> {
        let (run, fabric, framing) = (&self.run, &self.fabric, self.framing);
        let Planned {
            workload,
            said,
            load,
        } = run.workload(fabric, &framing, seed)?;
        Stage::Weave.begin()?;
        let (testbed, mut processes) = testbed::weave(&self.plan, &fabric.scheme)?;
        let _removed = Temporary(&run.testbed);
        let declares = fabric.scheme.description.declares();
        let _membership = declares
            .then(|| ControlGroup::of(&run.testbed).enter())
            .transpose()?;
        let dilation = fabric.dilation.get();
        let slowed = |time: Duration| time * dilation;
        let trial = Trial {
            topology: &fabric.topology,
            testbed: &testbed,
            dilation: fabric.dilation,
            framing,
            workload: &workload,
            load,
            header: Header {
                format: FORMAT,
                weft: env!("CARGO_PKG_VERSION").to_owned(),
                kernel: kernel(),
                clock: clock(),
                seed,
                topology: fabric.title.clone(),
                scheme: fabric.scheme.name.clone(),
                parameters: fabric.parameters(),
                workload: said,
                dilation: f64::from(dilation),
                buckets: BUCKETS.to_vec(),
                options: run.words.clone(),
                inputs: self.inputs(seed)?,
                inherited: inherited(&testbed),
            },
            config: Config {
                connections: run.connections,
                declare_size: declares,
                since: run.since,
                patience: run
                    .patience
                    .map_or_else(|| patience(fabric, &framing, &workload), slowed),
                pump: run.pump,
                ..Config::default()
            },
            since: run.since,
            slack: fabric.slack,
            sample: match run.sample {
                Some(Duration::ZERO) => Sampling::Never,
                Some(time) => Sampling::Every(slowed(time)),
                None => Sampling::AtLeast(Duration::from_nanos(packet_ns(fabric) * SAMPLE_PACKETS)),
            },
            sample_all: run.sample_all,
            hops: run.hops,
            follow: self.followed,
            ipv6: run.ipv6,
            faults: &self.faults,
            allow: &fabric.scheme.description.allow,
        };
        let hosts = testbed::hosts(&testbed, &fabric.topology, run.ipv6)?;
        let mut ports = Sampled::new(&testbed, &fabric.topology)?;
        let created = File::create(path).with_context(|| format!("writing {}", path.display()))?;
        let mut out = BufWriter::new(Named(created, path));
        let mut failures = || process::failures(&mut processes, path);
        trial.run(hosts, &mut ports, &mut out, progress, cancel, &mut failures)
    }
}

/// The variables that a testbed's nodes inherit from a tuned machine.
fn inherited(testbed: &Testbed) -> BTreeMap<String, String> {
    let record = testbed.record();
    record.map_or_else(BTreeMap::new, |record| record.inherited.clone())
}

/// A file whose errors of writing contain its name.
struct Named<'a>(File, &'a Path);

impl Named<'_> {
    fn told(&self, error: io::Error) -> io::Error {
        // The kind is kept, because interrupted writes are tried again.
        io::Error::new(
            error.kind(),
            format!("writing {}: {error}", self.1.display()),
        )
    }
}

impl Write for Named<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| self.told(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| self.told(error))
    }
}

/// Whether a file is the beginning of a header.
fn is_begun(path: &Path) -> bool {
    let text = LINE.read_text(path).unwrap_or_default();
    text.starts_with("{\"record\":\"header\"") && !text.contains('\n')
}

/// The release of the running kernel.
fn kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().to_owned())
}

/// The transmission time of a full packet on the fastest host link of the slowed fabric.
fn packet_ns(fabric: &Fabric) -> u64 {
    let rates = topology::host_rates(&fabric.slowed);
    let times = rates.map(|rate| rate.serialization_ns(topology::FRAME));
    times.min().unwrap_or(1).max(1)
}

/// 100 times the transmission time of the largest flow on the slowest host link, at least 10 s.
fn patience(fabric: &Fabric, framing: &Framing, workload: &Workload) -> Duration {
    const TIMES: f64 = 100.0;
    const LEAST_S: f64 = 10.0;
    /// A century.
    const MOST_S: f64 = 3e9;
    let slowest = topology::host_rates(&fabric.slowed).min();
    let rate = slowest.map_or(1, Rate::bits_per_second) as f64;
    let bits = 8.0 * framing.flow_wire_bytes(workload.largest()) as f64;
    Duration::from_secs_f64((TIMES * bits / rate).clamp(LEAST_S, MOST_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_on_a_full_disk_names_the_file() {
        let full = Path::new("/dev/full");
        let mut out = BufWriter::new(Named(File::create(full).unwrap(), full));
        out.write_all(b"a result").unwrap();
        let error = out.flush().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let said = error.to_string();
        assert!(
            said.starts_with("writing /dev/full: No space left"),
            "{said}"
        );
    }

    #[test]
    fn patience_is_100_times_the_duration_of_the_largest_flow() {
        let options = FabricOptions {
            topology: "rack:hosts=2,rate=10gbit".to_owned(),
            dilation: std::num::NonZeroU32::new(1000).unwrap(),
            slack: Duration::ZERO,
            scheme: "droptail".to_owned(),
            settings: Vec::new(),
            modules: Vec::new(),
        };
        let fabric = Fabric::new(&options).unwrap();
        let framing = fabric.framing(false).unwrap();
        let of = |added: &str| {
            let traffic = Traffic {
                background: None,
                incasts: None,
                added: vec![added.to_owned()],
                deadlines: None,
                priorities: None,
                until: weft_load::generate::Until::Flows(1),
                warm_up: None,
                no_cool_down: false,
            };
            let planned = traffic
                .workload(&fabric.topology, &framing, &framing, 1)
                .unwrap();
            patience(&fabric, &framing, &planned.workload).as_secs_f64()
        };
        // 100 MB take 80 ms and 6 % for headers, times the dilation of 1000, times 100.
        assert!((8_000.0..8_600.0).contains(&of("h0-h1:100MB")));
        assert_eq!(of("h0-h1:1kB"), 10.0);
    }

    #[test]
    fn a_name_given_twice_is_refused() {
        each_once("--seed", &[1, 2, 3]).unwrap();
        let error = each_once("--seed", &[1, 2, 1]).unwrap_err();
        assert!(crate::error::is_usage(&error));
        assert_eq!(error.to_string(), "--seed: 1 is there twice");
    }
}
