// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian's Slurm on this machine, with controller and node in one. It must accept and run the
//! array job that `weft sweep plan` writes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_load::record::{Flow, Recorded, measured};

use crate::folder::Folder;
use crate::require;
use crate::weft::{require_programs, succeed};

tests![an_array_jobs_results_are_those_of_the_sweep_in_sequence];

/// Two loads, two schemes, one of which tags packets, and two seeds.
const SWEEP: &str = "rack:hosts=3,rate=1gbit --dilation 100 --scheme droptail,pfabric --load 0.3,0.6 --seed 1,2 \
                     --workload uniform:1kB-60kB --flows 30 --warm-up 0.2";
const RUNS: usize = 8;
/// Maximum time for Slurm's daemons to connect, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Each run of the plan is a task of Slurm. The same sweep also runs as one command, for
/// comparison.
fn an_array_jobs_results_are_those_of_the_sweep_in_sequence(cx: &Context) -> Result<()> {
    require(&["sbatch", "munged"])?;
    require_programs()?;
    let folder = Folder::new()?;
    let place = |name: &str| -> Result<PathBuf> {
        let path = folder.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    };
    let (sequence, array) = (place("sequence")?, place("array")?);
    weft_in(&sequence, &format!("run --quiet {SWEEP}"))?;
    let job = weft_in(&array, &format!("sweep plan --format slurm {SWEEP}"))?;
    fs::write(array.join("job.sh"), job)?;

    let slurm = Slurm::start(&place("slurm")?)?;
    let output = succeed(
        Command::new("sbatch")
            .args(["--wait", "job.sh"])
            .current_dir(&array),
    );
    let done = slurm.done();
    let output = output.with_context(|| format!("sbatch; {}", slurm.log()))?;
    drop(slurm);
    ensure!(output.starts_with("Submitted batch job "), "{output}");
    let done = done?;
    let completed = done
        .lines()
        .filter(|line| line.contains("JobState=COMPLETED"));
    ensure!(
        completed.count() == RUNS && done.lines().count() == RUNS,
        "{done}"
    );

    let (expected, found) = (results(&sequence)?, results(&array)?);
    let names = |all: &[(String, Vec<u8>)]| -> Vec<String> {
        all.iter().map(|(name, _)| name.clone()).collect()
    };
    ensure!(names(&expected).len() == RUNS, "{:?}", names(&expected));
    ensure!(names(&expected) == names(&found), "{:?}", names(&found));
    let mut apart = Vec::new();
    for ((name, one), (_, other)) in expected.iter().zip(&found) {
        apart.extend(differences(one, other).with_context(|| name.clone())?);
    }
    apart.sort_unstable_by(f64::total_cmp);
    let median = *apart.get(apart.len() / 2).context("no flow ended")?;
    let most = apart.last().copied().unwrap_or_default();
    cx.note(format!(
        "{RUNS} results; flows' times differ by {median:.6} in the median, {most:.6} at most"
    ));
    ensure!(median <= APART, "{apart:?}");
    Ok(())
}

fn weft_in(folder: &Path, words: &str) -> Result<String> {
    let mut command = crate::weft::command(words);
    succeed(command.current_dir(folder)).with_context(|| format!("weft {words}"))
}

/// All files of all folders of results, by name.
fn results(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for of_load in fs::read_dir(folder.join("results"))? {
        for file in fs::read_dir(of_load?.path())? {
            let path = file?.path();
            let name = path.strip_prefix(folder)?.display().to_string();
            all.push((name, fs::read(&path)?));
        }
    }
    all.sort();
    Ok(all)
}

/// Slurm's daemons read the guest's clock during a run, which takes a nanosecond each time, so a
/// packet may come slightly sooner or later. If two packets swap, a flow's start (its first byte)
/// and its time may change. Most flows have the same time up to this fraction.
const APART: f64 = 0.001;

/// The relative difference of each flow's times. The requested run and flows must be equal.
fn differences(one: &[u8], other: &[u8]) -> Result<Vec<f64>> {
    let read = |bytes: &[u8]| Recorded::read("a result", bytes);
    let (one, other) = (read(one)?, read(other)?);
    ensure!(serde_json::to_value(&one.header)? == serde_json::to_value(&other.header)?);
    // The number of flows that keep up the load depends on when the measured ones end.
    let by_id = |run: &Recorded| -> Vec<Flow> {
        let mut flows: Vec<_> = measured(&run.flows).cloned().collect();
        flows.sort_unstable_by_key(|flow| flow.id);
        flows
    };
    let (one, other) = (by_id(&one), by_id(&other));
    ensure!(
        one.len() == other.len(),
        "{} and {} flows",
        one.len(),
        other.len()
    );
    let mut apart = Vec::new();
    for (one, other) in one.iter().zip(&other) {
        let asked = |flow: &Flow| (flow.id, flow.src, flow.dst, flow.class, flow.size);
        ensure!(asked(one) == asked(other), "{one:?} and {other:?}");
        let times = one.fct_ns.zip(other.fct_ns);
        let (one, other) = times.context("a flow that did not end")?;
        apart.push(one.abs_diff(other) as f64 / one as f64);
    }
    Ok(apart)
}

/// Munge, slurmctld and slurmd, which are stopped on drop.
struct Slurm {
    folder: PathBuf,
}

impl Slurm {
    fn start(folder: &Path) -> Result<Self> {
        // Debian's alternatives, whose links are missing in a guest's archive.
        for name in ["slurmctld", "slurmd", "slurmstepd"] {
            let link = PathBuf::from(format!("/usr/sbin/{name}"));
            if fs::symlink_metadata(&link).is_err() {
                symlink(format!("/usr/sbin/{name}-wlm"), &link)?;
            }
        }
        // An address other than 127.0.0.1: getaddrinfo treats a machine without one as having no
        // network (AI_ADDRCONFIG).
        shell("ip link set lo up && ip address replace 192.0.2.1/32 dev lo")?;
        for (path, mode) in [
            ("/etc/munge", 0o700),
            ("/var/lib/munge", 0o700),
            ("/var/log/munge", 0o700),
            ("/run/munge", 0o755),
            ("/etc/slurm", 0o755),
        ] {
            fs::create_dir_all(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        let key = Path::new("/etc/munge/munge.key");
        fs::write(key, [7; 128])?;
        fs::set_permissions(key, fs::Permissions::from_mode(0o400))?;
        let name = succeed(&mut Command::new("hostname"))?;
        fs::write("/etc/slurm/slurm.conf", configuration(name.trim(), folder))?;
        fs::write("/etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")?;
        let slurm = Self {
            folder: folder.to_owned(),
        };
        // As root, munge requires this option.
        shell("munged --force && slurmctld && slurmd")?;
        let idle = || Ok(shell("sinfo --noheader --format %t")?.starts_with("idle"));
        ensure!(comes(idle)?, "no node is idle; {}", slurm.log());
        Ok(slurm)
    }

    /// A line for each task that has ended. The lines appear after a client has seen the end.
    fn done(&self) -> Result<String> {
        let done = || fs::read_to_string(self.folder.join("done")).unwrap_or_default();
        comes(|| Ok(done().lines().count() >= RUNS))?;
        Ok(done())
    }

    /// The daemons' logs.
    fn log(&self) -> String {
        let log = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        format!("slurmctld: {}\nslurmd: {}", log("ctld.log"), log("d.log"))
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // If a daemon remains, the test hangs and reports it.
        let _ = shell("scontrol shutdown; munged --stop; ip address delete 192.0.2.1/32 dev lo");
        let runs = || shell("pidof slurmctld-wlm slurmd-wlm slurmctld slurmd munged || :");
        let _ = comes(|| Ok(runs()?.trim().is_empty()));
    }
}

/// One node with one task at a time: with two tasks, the start of one's processes may delay a wire
/// of the other by a nanosecond, and results include the wires' lateness.
fn configuration(name: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "ClusterName=weft
SlurmctldHost={name}(192.0.2.1)
NodeName={name} NodeAddr=192.0.2.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
ReturnToService=2
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/done
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
"
    )
}

/// Whether the condition becomes true within [`PATIENCE`].
fn comes(is: impl Fn() -> Result<bool>) -> Result<bool> {
    let begun = Instant::now();
    while !is()? {
        if begun.elapsed() >= PATIENCE {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(true)
}

fn shell(line: &str) -> Result<String> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    succeed(&mut command).with_context(|| line.to_owned())
}
