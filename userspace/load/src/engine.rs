// SPDX-License-Identifier: MIT OR Apache-2.0

//! The traffic engine: sends the flows of a workload between the hosts of a fabric, and measures
//! when each one completes.
//!
//! One thread and one event loop (epoll) drive all hosts. A host is an address in a network
//! namespace. A socket stays in the namespace that it was created in. So the thread enters a host's
//! namespace only to create a socket, and is back in its own namespace whenever a callback runs and
//! when the run is over.
//!
//! # A flow's times
//!
//! All times are ns of `CLOCK_MONOTONIC` since the run began. Both ends have the same kernel and
//! clock, so a one-way time has no synchronization error.
//!
//! | time         | when                                                                           |
//! |--------------|--------------------------------------------------------------------------------|
//! | `due`        | the workload's start time; in a closed loop, the end of the previous flow      |
//! | `start`      | just before `connect()`, or before the first write on an existing connection    |
//! | `first_byte` | just before the first write, on the first connection of several                |
//! | `end`        | just after the receiver has read the last byte                                  |
//!
//! `end - start` is the time that an application waits; with a connection for each flow, it
//! includes the handshake's round trip. `end - first_byte` excludes the handshake, as the papers'
//! simulators do. `start - due` is the generator's lag: if it is large, the achieved load differs
//! from the requested one.
//!
//! # Connections
//!
//! With [`Connections::PerFlow`] every flow has its own. **The receiver closes first**, after it
//! has read the flow's last byte; the sender closes when it sees that. So the sender's port is free
//! at once: the TIME-WAIT state is the receiver's, and the receiver accepts a new connection from
//! the same port. The end of a flow costs three packets without payload, two of them FIN. With
//! [`Connections::Persistent`], a flow takes the free connection of its pair of hosts that was used
//! last. If none is free it opens another one, which stays. After opening a connection ahead of the
//! run, the sender probes the receiver's window, because the handshake announces 64 kB at most.
//! If a connection is reset before it is accepted, the engine opens it again from another port and
//! counts that ([`FlowResult::reconnects`]). It happens on full queues: Linux forgets a connection
//! request when its own queue refuses a repeated SYN-ACK. The flow's clock goes on: all its times,
//! also `first_byte` and the deadline, count from the first of these connections. If a connection
//! is reset later, its flow has failed.
//!
//! The engine chooses source ports: a function of the flow's number, or with persistent connections
//! of the pair and the connection's number. So the same flow takes the same path through ECMP under
//! every scheme and in every run, as long as the switches hash in the same way.
//!
//! # On the wire
//!
//! Only the flow's bytes, which are zeros: the receiver identifies the flow by its sender's address
//! and port. It reads with `MSG_TRUNC`, which takes bytes from the socket without a copy. With
//! [`Config::pump`] the kernel sends and discards the bytes of large flows, and the process reads
//! the last one. The acknowledgement that completes a handshake goes with the flow's first bytes,
//! not before them. The packets of a flow with priority p have the class selector p (RFC 2474,
//! §4.2.2); handshakes and the receiver's acknowledgements have 0. At the end of a run, the engine
//! resets connections whose flow is not complete, so that they send no more packets.
//!
//! # Example
//!
//! ```
//! use weft_load::engine::{Config, Engine, Host, Since, Watch};
//! use weft_load::generate::{Class, Flow};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = |address: &str| -> Result<Host, std::net::AddrParseError> {
//!     Ok(Host { netns: None, address: address.parse()? })
//! };
//! let hosts = vec![host("127.200.0.1")?, host("127.200.0.2")?];
//! let config = Config { port: 0, ..Config::default() };
//! let mut engine = Engine::new(hosts, config)?;
//! let flow = Flow {
//!     id: 0,
//!     start_ns: 1_000_000,
//!     after: None,
//!     src: 0,
//!     dst: 1,
//!     size: 20_000,
//!     class: Class::Background,
//!     deadline_ns: None,
//!     priority: None,
//!     warm_up: false,
//! };
//! let report = engine.run([flow], Watch::default())?;
//! let flow = &report.flows[0];
//! assert_eq!(flow.received, 20_000);
//! assert!(flow.start_ns >= Some(1_000_000));
//! assert!(flow.fct_ns(Since::FirstByte) < flow.fct_ns(Since::Start));
//! # Ok(())
//! # }
//! ```

mod connections;
mod netns;
mod pump;
mod report;
mod run;
mod schedule;
mod socket;
mod timer;

pub use report::{Ended, Failure, FlowResult, Lag, Outcome, Progress, Report, Since, Stage};

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Error, Result, invalid};
use crate::generate::Flow;
use netns::Namespaces;

/// A host of the fabric.
#[derive(Debug)]
pub struct Host {
    /// Its network namespace; `None` is the thread's own.
    pub netns: Option<OwnedFd>,
    /// Its address there, IPv4 or IPv6 as that of all hosts.
    pub address: IpAddr,
}

/// The connection that a flow takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// A new connection.
    PerFlow,
    /// An existing connection of its pair of hosts.
    Persistent {
        /// Connections that are opened before the run begins, for each pair that has flows.
        ahead: u32,
    },
}

/// How flows are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The connection that a flow takes.
    pub connections: Connections,
    /// The port on which every host listens; 0 is any free port, a different one at each host.
    pub port: u16,
    /// Source ports of connections. A pair of hosts has at most as many connections as there are
    /// ports.
    pub source_ports: RangeInclusive<u16>,
    /// `SO_SNDBUF` of senders in bytes; `None` leaves the kernel to tune it.
    pub send_buffer: Option<NonZeroU32>,
    /// `SO_RCVBUF` of receivers in bytes; `None` leaves the kernel to tune it.
    pub receive_buffer: Option<NonZeroU32>,
    /// `TCP_CONGESTION` at both ends (DCTCP's receiver takes part); `None` is the namespace's
    /// default.
    pub congestion_control: Option<String>,
    /// Whether the engine declares each flow to weft's programs before its first byte: its size,
    /// its class (its priority; if it has none, 1 for an incast flow and 0 for any other), and its
    /// deadline, if it has one.
    pub declare_size: bool,
    /// The start of a flow's time, which its deadline counts from.
    pub since: Since,
    /// How long the run goes on after the last start.
    pub patience: Duration,
    /// Whether the kernel sends and discards the bytes of large flows by itself: requires the
    /// module `tcp_pump`.
    pub pump: bool,
}

impl Default for Config {
    /// A new connection for each flow, from Linux's default port range, to port 5201, and a minute
    /// of patience; everything else is the kernel's choice.
    fn default() -> Self {
        Self {
            connections: Connections::PerFlow,
            port: 5201,
            source_ports: 32_768..=60_999,
            send_buffer: None,
            receive_buffer: None,
            congestion_control: None,
            declare_size: false,
            since: Since::FirstByte,
            patience: Duration::from_secs(60),
            pump: false,
        }
    }
}

/// A callback at regular intervals in the clock's time: real time, or virtual time in the guest.
/// Missed ticks are skipped.
pub struct Tick<'a, T> {
    /// How often, above 0.
    pub every: Duration,
    /// The callback. It runs in the event loop: no flow starts until it returns.
    pub call: &'a mut dyn FnMut(T),
}

/// Callbacks and controls of a run.
#[derive(Default)]
pub struct Watch<'a> {
    /// Receives the progress of the run, and once more at its end.
    pub progress: Option<Tick<'a, Progress>>,
    /// Receives the time in ns since the run began, first at 0. For reading ports' statistics.
    pub sample: Option<Tick<'a, u64>>,
    /// Callbacks at given times.
    pub times: Option<Times<'a>>,
    /// Supplies another flow, with the next number, when no flow is left to start and some flows of
    /// the workload have not ended (added flows do not count). So the load stays on until those
    /// have ended. The run does not wait for the flows supplied here.
    pub more: Option<&'a mut dyn FnMut() -> Option<Flow>>,
    /// Ends the run.
    pub cancel: Option<&'a Cancel>,
    /// Runs right before a phase of the run begins.
    pub phase: Option<&'a mut dyn FnMut(Phase)>,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are opened ahead of the flows. A run without such connections skips this phase.
    Connections,
    /// The run's clock begins, and flows start.
    Flows,
}

/// A callback at given times.
pub struct Times<'a> {
    /// ns since the run began, in increasing order; times after its end are ignored.
    pub at_ns: &'a [u64],
    /// Receives the index of the time and when it was noticed. It runs in the event loop: no flow
    /// starts until it returns.
    pub call: &'a mut dyn FnMut(usize, u64),
}

/// Ends a run early.
#[derive(Debug)]
pub struct Cancel(EventFd);

impl Cancel {
    /// # Errors
    ///
    /// If no file descriptor is left.
    pub fn new() -> Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        EventFd::from_flags(flags)
            .map(Self)
            .map_err(system("making an eventfd"))
    }

    /// Ends every run that watches this, at once, and every later one. A signal handler or another
    /// thread may call it.
    pub fn cancel(&self) {
        // It fails only if it was called 2^64 - 2 times before.
        let _ = self.0.write(1);
    }
}

/// Hosts that listen, and the options of their connections.
#[derive(Debug)]
pub struct Engine {
    namespaces: Namespaces,
    hosts: Vec<Listening>,
    config: Config,
}

/// A host that listens.
#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    listener: TcpListener,
}

impl Engine {
    /// Makes every host listen.
    ///
    /// # Errors
    ///
    /// If the description is inconsistent (fewer than 2 hosts, an address twice, IPv4 and IPv6, no
    /// source port), a namespace cannot be entered, an address does not exist or is in use, or the
    /// kernel refuses an option: an unknown congestion control, a buffer above its limit, flow
    /// sizes without weft's programs.
    pub fn new(hosts: Vec<Host>, config: Config) -> Result<Self> {
        check(&hosts, &config)?;
        let addresses: Vec<_> = hosts.iter().map(|host| host.address).collect();
        let mut namespaces = Namespaces::new(hosts.into_iter().map(|host| host.netns).collect())?;
        let mut listening = Vec::with_capacity(addresses.len());
        for (host, address) in addresses.into_iter().enumerate() {
            namespaces.enter(host)?;
            let address = SocketAddr::new(address, config.port);
            let listener = socket::listen(address, &config)
                .map_err(|error| error.context(&format!("host h{host}")))?;
            let address = listener
                .local_addr()
                .map_err(system("asking for a listener's address"))?;
            listening.push(Listening { address, listener });
        }
        // Checks once, before flows depend on it, that the kernel accepts the senders' options.
        let probe = socket::sender(listening[0].address.ip(), &config)?;
        if config.declare_size {
            socket::declare(&probe, 1, 0)?;
            socket::declare_deadline(&probe, Some(Duration::from_secs(1)))?;
        }
        if config.pump {
            pump::check(&probe)?;
        }
        namespaces.leave()?;
        Ok(Self {
            namespaces,
            hosts: listening,
            config,
        })
    }

    /// Sends the flows; returns when all are complete, when patience is over, or at cancellation.
    /// The report has every flow, whatever its outcome. The flows are drawn from the iterator
    /// before the run begins. No packet, read or write allocates memory.
    ///
    /// A flow needs two descriptors while it lasts ([`raise_descriptor_limit`]).
    ///
    /// # Errors
    ///
    /// If flows are not numbered from 0, name hosts that do not exist, or wait for a later flow; if
    /// descriptors or memory run out; if a connection cannot be opened ahead of the run.
    pub fn run(
        &mut self,
        flows: impl IntoIterator<Item = Flow>,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let result = run::run(self, flows.into_iter().collect(), watch);
        self.namespaces.leave()?;
        result
    }
}

fn check(hosts: &[Host], config: &Config) -> Result<()> {
    if hosts.len() < 2 {
        return invalid(format!("{} hosts: a flow needs two", hosts.len()));
    }
    if u32::try_from(hosts.len()).is_err() {
        return invalid("there are more than 2^32 hosts");
    }
    let mut seen = HashSet::new();
    for (host, Host { address, .. }) in hosts.iter().enumerate() {
        if address.is_ipv4() != hosts[0].address.is_ipv4() {
            return invalid(format!(
                "host h{host} has address {address}, host h0 {}: expected all IPv4 or all IPv6",
                hosts[0].address
            ));
        }
        if !seen.insert(address) {
            return invalid(format!(
                "host h{host} has address {address}, which another host has too"
            ));
        }
    }
    if config.source_ports.is_empty() || *config.source_ports.start() == 0 {
        return invalid(format!(
            "source ports {:?}: expected at least one, none of them 0",
            config.source_ports
        ));
    }
    Ok(())
}

/// Raises this process's limit of open descriptors as far as allowed; returns the new limit.
///
/// # Errors
///
/// Errors of the system calls.
pub fn raise_descriptor_limit() -> Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    /// Enough for 32,000 flows at a time.
    const ENOUGH: u64 = 65_536;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system("reading a limit"))?;
    // Only root may go beyond the hard limit.
    if hard < ENOUGH && setrlimit(Resource::RLIMIT_NOFILE, ENOUGH, ENOUGH).is_ok() {
        return Ok(ENOUGH);
    }
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(system("raising a limit"))?;
    }
    Ok(hard)
}

/// Adds to an error what failed.
fn system<E: Into<std::io::Error>>(doing: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::System {
        doing: doing.to_owned(),
        error: error.into(),
    }
}
