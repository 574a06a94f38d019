// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft-arbiter`: Fastpass's arbiter, on a UDP socket.
//!
//! One thread does all: it reads what has come, at most so much at a time that a flood does not keep it from allocating;
//! allocates what is due; and sends what there is to say. With `--threads 3` others allocate and choose paths, and wake it by an
//! eventfd. Its clock is the hosts': `CLOCK_MONOTONIC`.

mod datagrams;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Parser, ValueEnum};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use weft_arbiter::faults::Fault;
use weft_arbiter::pipeline::{Capacities, Pipeline};
use weft_arbiter::routes::Ways;
use weft_arbiter::service::{Counters, Policy, Service, Settings};
use weft_arbiter::watch::{Change, Watch};
use weft_arbiter::{Invalid, Lags, MAX_BATCH};
use weft_mechanisms::fastpass::address::{Addresses, MAX_ENDPOINTS};
use weft_mechanisms::fastpass::options::{DEFAULT_PORT, MAX_OF_EACH};
use weft_words::quantity;

use crate::datagrams::Datagrams;

/// How often datagrams are read before the clock is looked at again.
const TURNS: usize = 4;
/// The class of its packets (CS6, network control), by which a switch may tell them.
const TOS: i32 = 0xc0;
/// Bytes that may wait to be read: what a burst of all endpoints takes.
const BUFFER: usize = 8 << 20;

const EXAMPLES: &str = "\
Examples:
  # Of a fat-tree with switches of 4 ports: two hosts at each of two switches of four pods, two ways up
  # from each switch. Run it on the host 10.0.0.2.
  weft-arbiter --first 10.0.0.2 --hosts 2 --racks 2 --pods 4 --edge-ways 2 --core-ways 2

  # Of one rack, whose links are a thousand times slower than 10 Gbit/s; all times are, too.
  weft-arbiter --first 10.0.0.2 --hosts 5 --timeslot 1.27ms --lead 65ms --timeout 315ms

  # Two of them, on the hosts 10.0.0.2 and 10.3.1.3.
  weft-arbiter --first 10.0.0.2 --hosts 2 --racks 2 --pods 4 --peer 10.3.1.3
  weft-arbiter --first 10.0.0.2 --hosts 2 --racks 2 --pods 4 --peer 10.0.0.2 --second

  # Of 256 hosts, where one processor is not enough and there are three to spare.
  weft-arbiter --first 10.0.0.2 --hosts 16 --racks 16 --edge-ways 16 --threads 3

  # What was found to be faulty is repaired: packets go there again.
  kill -USR1 $(pidof weft-arbiter)

  # Figures every second, as a line of JSON each; once more at the end (SIGTERM, SIGINT).
  weft-arbiter --first 10.0.0.2 --hosts 5 --statistics figures.json --every 1s";

/// Fastpass's arbiter: tells each host when to send to whom, and by which path
#[derive(Debug, Parser)]
#[command(name = "weft-arbiter", version, after_help = EXAMPLES)]
struct Arguments {
    /// The address of endpoint 0
    #[arg(long, value_name = "ADDRESS")]
    first: Ipv4Addr,
    /// Hosts of a rack; their addresses follow each other
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_OF_EACH)))]
    hosts: u32,
    /// Racks of a pod, 256 addresses apart
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_OF_EACH)))]
    racks: u32,
    /// Pods, 65536 addresses apart
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_OF_EACH)))]
    pods: u32,
    /// Ways up from a host's switch
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    edge_ways: usize,
    /// Ways up from each of the switches above it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    core_ways: usize,
    /// How much later a full frame is at the next switch than at this one: its time on a link, and the link's delay. Without
    /// it all ways count as equally long
    #[arg(long, value_name = "TIME", value_parser = time)]
    hop: Option<Duration>,
    /// The endpoint on whose host it runs, if any: of its link it leaves what its own packets take
    #[arg(long, value_name = "ADDRESS")]
    own: Option<Ipv4Addr>,
    /// The host of another arbiter, at the same port: one of the two is active
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<Ipv4Addr>,
    /// It is the second of the two: the other one begins
    #[arg(long, requires = "peer")]
    second: bool,
    /// How long the other one may be silent
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = time, requires = "peer")]
    window: Duration,
    /// Where it listens
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, DEFAULT_PORT as u16))]
    listen: SocketAddrV4,
    /// Who gets a timeslot first: who has waited longest, or who needs the fewest
    #[arg(long, value_enum, default_value_t = Order::MaxMin)]
    policy: Order,
    /// Length of a timeslot; the hosts' must be the same
    #[arg(long, value_name = "TIME", default_value = "1231ns", value_parser = time)]
    timeslot: Duration,
    /// Timeslots that are allocated together
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    batch: usize,
    /// How long before it begins a batch is allocated
    #[arg(long, value_name = "TIME", default_value = "65us", value_parser = time)]
    lead: Duration,
    /// Until what an endpoint has not acknowledged is said again
    #[arg(long, value_name = "TIME", default_value = "315us", value_parser = time)]
    timeout: Duration,
    /// 3: allocation and path selection have threads of their own. It pays where one thread does not keep up, as
    /// skipped_timeslots of the figures tells, and three processors are free; a batch then takes two hand-overs more of its lead
    #[arg(long, value_enum, value_name = "NUMBER", default_value_t = Threads::One)]
    threads: Threads,
    /// Appends figures to a file, a line of JSON each time
    #[arg(long, value_name = "FILE")]
    statistics: Option<PathBuf>,
    /// How often, besides at the end
    #[arg(long, value_name = "TIME", value_parser = time, requires = "statistics")]
    every: Option<Duration>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    MaxMin,
    MinFct,
}

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Threads {
    #[value(name = "1")]
    One,
    #[value(name = "3")]
    Three,
}

/// `1231ns`, `1.27ms`.
fn time(text: &str) -> Result<Duration, String> {
    match quantity::read(text, quantity::TIMES) {
        Ok(0) => Err("must be longer than nothing".to_owned()),
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(_) => Err("expected a time, for example 65us".to_owned()),
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            addresses: Addresses {
                first: self.first.into(),
                hosts: self.hosts,
                racks: self.racks,
                pods: self.pods,
            },
            ways: Ways {
                edge: self.edge_ways,
                core: self.core_ways,
            },
            policy: match self.policy {
                Order::MaxMin => Policy::MaxMin,
                Order::MinFct => Policy::MinFct,
            },
            batch: self.batch,
            timeslot: ns(self.timeslot),
            lead: ns(self.lead),
            timeout: ns(self.timeout),
            lags: self.lags(),
            own: None,
        }
    }

    /// To another switch of the pod it is two links more, to another pod four.
    fn lags(&self) -> Lags {
        let (hop, timeslot) = (self.hop.map_or(0, ns), ns(self.timeslot));
        let timeslots = |links: u64| {
            let rounded = links.saturating_mul(hop).saturating_add(timeslot / 2) / timeslot;
            u32::try_from(rounded).unwrap_or(u32::MAX)
        };
        Lags {
            near: timeslots(2),
            far: timeslots(4),
        }
    }
}

/// An arbiter that knows nothing. If there is a bell, allocation and path selection have threads of their own, and ring it.
fn service(arguments: &Arguments, bell: Option<&Arc<EventFd>>) -> Result<Service> {
    let mut settings = arguments.settings();
    let addresses = settings.addresses;
    let last = addresses.count().saturating_sub(1);
    ensure!(
        (2..=MAX_ENDPOINTS).contains(&addresses.count()),
        "--hosts times --racks times --pods must be between 2 and {MAX_ENDPOINTS}, not {}",
        addresses.count()
    );
    ensure!(
        addresses.address(last as u16).is_some(),
        "--first: the last endpoint would be beyond 255.255.255.255"
    );
    if let Some(own) = arguments.own {
        settings.own = addresses.endpoint(own.into());
        ensure!(
            settings.own.is_some(),
            "--own {own} is no endpoint's address"
        );
    }
    let told = |invalid| match invalid {
        Invalid::Batch | Invalid::Lags => anyhow!(
            "--batch must be between 1 and {MAX_BATCH}, with the timeslots of four hops added to it"
        ),
        Invalid::Paths => anyhow!(
            "--edge-ways and --core-ways: there must be a way, and at most 64 packets of a rack's, or of a pod's \
             at one switch, in a timeslot"
        ),
        Invalid::Endpoints | Invalid::Racks => {
            anyhow!("at most 256 racks can have several ways up")
        }
    };
    let Some(bell) = bell.cloned() else {
        return Service::new(settings).map_err(told);
    };
    let pipeline = Pipeline::new(&settings, Capacities::default()).map_err(told)?;
    let ring = move || {
        // It cannot be rung too often to be counted.
        let _ = bell.write(1);
    };
    let front = pipeline.spawn(ring).context("starting a thread")?;
    Ok(Service::with_stages(settings, Box::new(front)))
}

fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).context("reading the clock")?;
    Ok(ns(Duration::from(time)))
}

/// Numbers that nobody can guess.
struct Random {
    source: File,
    bytes: Vec<u8>,
}

impl Random {
    fn new() -> Result<Self> {
        let source = File::open("/dev/urandom").context("opening /dev/urandom")?;
        let bytes = Vec::new();
        Ok(Self { source, bytes })
    }

    fn draw(&mut self) -> Result<u64> {
        if self.bytes.len() < 8 {
            self.bytes.resize(4096, 0);
            self.source
                .read_exact(&mut self.bytes)
                .context("reading /dev/urandom")?;
        }
        let rest = self.bytes.len() - 8;
        let bytes = self.bytes.split_off(rest);
        Ok(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()))
    }
}

/// Says a line to whoever started it. That nobody reads it, or that there is no room for it, neither ends the arbiter nor
/// keeps it from its work.
fn say(line: impl Display) {
    let line = format!("weft-arbiter: {line}\n");
    let mut stderr = io::stderr();
    // Others may have it, too, who need not want it to be without waiting.
    let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut room, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
        let _ = stderr.write_all(line.as_bytes());
    }
}

/// Figures in a file.
struct Figures {
    file: Option<File>,
    every: u64,
    next: u64,
    /// Lines that could not be written, and why the first of them.
    unwritten: u64,
    why: Option<io::Error>,
}

/// A line of it.
#[derive(Serialize)]
struct Line {
    /// ns of `CLOCK_MONOTONIC`.
    time_ns: u64,
    active: bool,
    takeovers: u64,
    #[serde(flatten)]
    counters: Counters,
    faults: Vec<Faulty>,
}

/// What was found to be faulty.
#[derive(Serialize)]
struct Faulty {
    what: String,
    avoided: bool,
    suspected_ns: u64,
    found_ns: u64,
}

impl From<&Fault> for Faulty {
    fn from(fault: &Fault) -> Self {
        Self {
            what: fault.component.to_string(),
            avoided: fault.is_avoided,
            suspected_ns: fault.suspected_ns,
            found_ns: fault.found_ns,
        }
    }
}

impl Figures {
    fn new(path: Option<&Path>, every: Option<Duration>) -> Result<Self> {
        let open = |path: &Path| {
            let mut options = File::options();
            // What is read by another program may be full.
            let nonblocking = OFlag::O_NONBLOCK.bits();
            let file = options
                .append(true)
                .create(true)
                .custom_flags(nonblocking)
                .open(path);
            file.with_context(|| format!("opening {}", path.display()))
        };
        let every = every.map_or(u64::MAX, ns);
        Ok(Self {
            file: path.map(open).transpose()?,
            every,
            next: now()?.saturating_add(every),
            unwritten: 0,
            why: None,
        })
    }

    /// Writes a line. If that fails, [`end`](Self::end) tells: hosts need timeslots, whatever becomes of figures.
    fn write(&mut self, now: u64, arbiter: &Arbiter) {
        let Some(file) = &mut self.file else {
            return;
        };
        let line = serde_json::to_string(&arbiter.line(now)).map_err(io::Error::from);
        // In one piece, so that others who append to the file do not come between.
        let written = line.and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            if self.why.is_none() {
                say(format_args!("writing figures: {error}"));
            }
            self.unwritten = self.unwritten.saturating_add(1);
            self.why.get_or_insert(error);
        }
    }

    fn tick(&mut self, now: u64, arbiter: &Arbiter) {
        if self.next <= now {
            self.next = now.saturating_add(self.every);
            self.write(now, arbiter);
        }
    }

    /// # Errors
    ///
    /// If a line could not be written.
    fn end(self) -> Result<()> {
        let unwritten = self.unwritten;
        self.why.map_or(Ok(()), |error| {
            Err(error).with_context(|| format!("writing figures ({unwritten} lines are missing)"))
        })
    }
}

/// One that allocates, or waits until it is to.
struct Arbiter<'a> {
    arguments: &'a Arguments,
    bell: Option<&'a Arc<EventFd>>,
    service: Service,
    /// If there is another one: where that is, and which of them is active.
    watch: Option<(SocketAddrV4, Watch)>,
    takeovers: u64,
    /// How many faults were told of.
    said_faults: usize,
}

impl<'a> Arbiter<'a> {
    fn new(
        arguments: &'a Arguments,
        bell: Option<&'a Arc<EventFd>>,
        random: &mut Random,
    ) -> Result<Self> {
        let started = now()?;
        let cookie = random.draw()?;
        let window = ns(arguments.window);
        let watch = arguments.peer.map(|peer| {
            let watch = Watch::new(started, arguments.second, window, cookie);
            (SocketAddrV4::new(peer, arguments.listen.port()), watch)
        });
        let batch = ns(arguments.timeslot).saturating_mul(arguments.batch as u64);
        ensure!(
            watch.is_none() || window / 4 > ns(arguments.lead).saturating_add(batch),
            "--window must be longer than four times a lead and a batch"
        );
        Ok(Self {
            arguments,
            bell,
            service: service(arguments, bell)?,
            watch,
            takeovers: 0,
            said_faults: 0,
        })
    }

    fn is_active(&self) -> bool {
        self.watch.as_ref().is_none_or(|(_, it)| it.is_active())
    }

    fn line(&self, now: u64) -> Line {
        Line {
            time_ns: now,
            active: self.is_active(),
            takeovers: self.takeovers,
            counters: self.service.counters(),
            faults: self.service.faults().iter().map(Faulty::from).collect(),
        }
    }

    /// Says what has been found to be faulty since the last time. Whether there is something new.
    fn say_faults(&mut self) -> bool {
        let found = self.service.faults();
        let is_new = found.len() > self.said_faults;
        for fault in found.iter().skip(self.said_faults) {
            let what = fault.component;
            match fault.is_avoided {
                true => say(format_args!(
                    "packets are lost by the {what}: it is avoided"
                )),
                false => say(format_args!(
                    "packets are lost by the {what}: there is no way around it"
                )),
            }
        }
        self.said_faults = found.len();
        is_new
    }

    fn clear_faults(&mut self) {
        self.service.clear_faults();
        self.said_faults = 0;
        say("all that was faulty counts as repaired");
    }

    fn receive(&mut self, now: u64, from: SocketAddrV4, bytes: &[u8], random: u64) {
        if let Some((peer, watch)) = &mut self.watch {
            if Watch::is_beat(bytes) {
                if from == *peer {
                    watch.receive(now, bytes);
                }
                return;
            }
            if !watch.is_active() {
                return;
            }
        }
        self.service.receive(now, from, bytes, random);
    }

    /// To be called after all that has come was received: before that nobody knows whether it is still active.
    fn tick(&mut self, now: u64, mut send: impl FnMut(SocketAddrV4, &[u8])) -> Result<()> {
        if let Some((peer, watch)) = &mut self.watch {
            let change = watch.tick(now);
            while let Some(beat) = watch.poll(now) {
                send(*peer, &beat);
            }
            match change {
                // It begins without knowing anything: on standby it heard nothing.
                Some(Change::Active) => self.takeovers += 1,
                // It forgets what it knew, now that there is time for that; but a link that has failed is repaired by nobody's yielding.
                Some(Change::Standby) => {
                    let mut service = service(self.arguments, self.bell)?;
                    service.keep_faults(self.service.faults());
                    self.service = service;
                }
                None => {}
            }
        }
        if self.is_active() {
            self.service.tick(now, send);
        }
        ensure!(
            !self.service.has_failed(),
            "the thread of allocation, or of path selection, has ended"
        );
        Ok(())
    }

    fn next_event(&self) -> u64 {
        let watched = self.watch.as_ref().map(|(_, watch)| watch.next_event());
        let served = self.is_active().then(|| self.service.next_event());
        let due = watched.into_iter().chain(served);
        due.min().unwrap_or(u64::MAX)
    }
}

/// What wakes this thread when a batch is done.
fn bell() -> Result<Arc<EventFd>> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let bell = EventFd::from_value_and_flags(0, flags).context("eventfd")?;
    Ok(Arc::new(bell))
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGUSR1);
    // Before there are other threads: a signal that one of them does not block would end the program.
    signals.thread_block().context("blocking signals")?;
    let told = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("signalfd")?;
    let bell = match arguments.threads {
        Threads::One => None,
        Threads::Three => Some(bell()?),
    };
    let mut random = Random::new()?;
    let mut arbiter = Arbiter::new(arguments, bell.as_ref(), &mut random)?;
    let listen = arguments.listen;
    let socket = UdpSocket::bind(listen).with_context(|| format!("listening at {listen}"))?;
    setsockopt(&socket, sockopt::Ipv4Tos, &TOS).context("IP_TOS")?;
    // Beyond the system's limit where that is allowed.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &BUFFER).context("SO_RCVBUF")?;
    }
    let mut figures = Figures::new(arguments.statistics.as_deref(), arguments.every)?;
    let mut datagrams = Datagrams::new(socket)?;
    loop {
        let clock = now()?;
        let until = arbiter.next_event().min(figures.next);
        let wait = TimeSpec::from(Duration::from_nanos(until.saturating_sub(clock)));
        let wait = Some(wait).filter(|_| until != u64::MAX);
        let rung = bell.as_ref().map_or(told.as_fd(), |bell| bell.as_fd());
        let mut sources = [
            PollFd::new(datagrams.as_fd(), PollFlags::POLLIN),
            PollFd::new(told.as_fd(), PollFlags::POLLIN),
            PollFd::new(rung, PollFlags::POLLIN),
        ];
        let count = 2 + usize::from(bell.is_some());
        match ppoll(&mut sources[..count], wait, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting"),
        }
        if sources[1].any().unwrap_or(false) {
            let signal = told.read_signal().context("signalfd")?;
            match signal.is_some_and(|it| it.ssi_signo == Signal::SIGUSR1 as u32) {
                true => arbiter.clear_faults(),
                false => {
                    figures.write(now()?, &arbiter);
                    return figures.end();
                }
            }
        }
        let is_rung = sources[2].any().unwrap_or(false);
        if let Some(bell) = bell.as_ref().filter(|_| is_rung) {
            // Before what it was rung for is taken: who rings it after that wakes this thread again.
            let _ = bell.read();
        }
        for _ in 0..TURNS {
            let more = datagrams.receive(|from, bytes| {
                let random = random.draw()?;
                arbiter.receive(now()?, from, bytes, random);
                Ok(())
            })?;
            if !more {
                break;
            }
        }
        let clock = now()?;
        arbiter.tick(clock, |to, bytes| datagrams.send(to, bytes))?;
        datagrams.flush();
        if arbiter.say_faults() {
            figures.write(clock, &arbiter);
        }
        figures.tick(clock, &arbiter);
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_arbiter::fabric::Component;

    use super::*;

    #[test]
    fn who_yields_still_knows_what_was_found_to_be_faulty() {
        for threads in ["1", "3"] {
            let arguments = Arguments::parse_from([
                "weft-arbiter",
                "--first",
                "10.0.0.2",
                "--hosts",
                "2",
                "--racks",
                "2",
                "--edge-ways",
                "2",
                "--peer",
                "10.0.0.9",
                "--threads",
                threads,
            ]);
            let bell = bell().unwrap();
            let bell = Some(&bell).filter(|_| arguments.threads == Threads::Three);
            let mut arbiter = Arbiter::new(&arguments, bell, &mut Random::new().unwrap()).unwrap();
            let mut now = now().unwrap();
            while !arbiter.is_active() {
                now += 100_000;
                arbiter.tick(now, |_, _| {}).unwrap();
            }
            let link = |way| Component::RackLink {
                pod: 0,
                rack: 1,
                way,
            };
            let found = [(0, true), (1, false)].map(|(way, is_avoided)| Fault {
                component: link(way),
                is_avoided,
                suspected_ns: now - 2,
                found_ns: now - 1,
            });
            arbiter.service.keep_faults(&found);
            assert!(arbiter.say_faults());
            // It stands still.
            now += 1_000_000;
            arbiter.tick(now, |_, _| {}).unwrap();
            assert!(!arbiter.is_active());
            assert_eq!(arbiter.service.faults(), found);
            // Of which it has told.
            assert!(!arbiter.say_faults());
        }
    }
}
