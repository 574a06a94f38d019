// SPDX-License-Identifier: MIT OR Apache-2.0

//! The traffic engine: sends the flows of a workload between the hosts of a fabric, and says when
//! each was there.
//!
//! One thread and one event loop (epoll) drive all hosts. A host is an address in a network
//! namespace; a socket stays in the namespace it was made in, so the thread enters a host's
//! namespace only to make one, and is back in its own whenever a callback runs and when the run is
//! over.
//!
//! # A flow's times
//!
//! All are ns of `CLOCK_MONOTONIC` since the run's beginning, of one kernel, so that one way is
//! measured without error of synchronization.
//!
//! | time         | when                                                                           |
//! |--------------|--------------------------------------------------------------------------------|
//! | `due`        | the workload's start; in a closed loop, the end of the flow before             |
//! | `start`      | just before `connect()`, or before the first write if a connection is there     |
//! | `first_byte` | just before the first write, on the first connection of several                |
//! | `end`        | just after the receiver has read the last byte                                  |
//!
//! `end - start` is what an application waits; with a connection for each flow, the handshake's
//! round trip is in it. `end - first_byte` leaves the handshake out, as the papers' simulators do.
//! `start - due` is the generator's lag: where that is large, the load was not the one asked for.
//!
//! # Connections
//!
//! With [`Connections::PerFlow`] every flow has its own. **The receiver closes first**, having read
//! the flow's last byte; the sender closes when it sees that. So the sender's port is free at once,
//! and what is left in TIME-WAIT is the receiver's, which accepts a new connection from the same
//! port. The end of a flow costs three packets without payload, two of them FIN. With
//! [`Connections::Persistent`], a flow takes the connection of its pair of hosts that was last in
//! use, and if none is free opens another, which stays. One that is opened ahead of the run asks
//! its receiver for its window, which the handshake tells up to 64 kB only.
//!
//! A connection that is reset before it is accepted is opened again, from another port, and counted
//! ([`FlowResult::reconnects`]): Linux forgets a connection request when its own queue refuses a
//! repeated SYN-ACK, so that happens on full queues, and the flow's clock goes on: all its times,
//! `first_byte` and its deadline too, are from the first of these connections on. One that is reset
//! later is the flow's failure.
//!
//! Source ports are chosen here: a function of the flow's number, or with persistent connections of
//! the pair and the connection's. So the same flow takes the same path through ECMP under every
//! scheme and in every run, as far as the switches hash alike.
//!
//! # On the wire
//!
//! Nothing but the flow's bytes, which are zeros: the receiver knows the flow by its sender's
//! address and port. They are read with `MSG_TRUNC`, which takes them from the socket without a
//! copy. The acknowledgement that completes a handshake goes with the flow's first bytes, not
//! before them. What is not complete at the end of a run is reset, so that no packet is sent for it
//! any more.
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
use crate::generate::{Class, Flow};
use netns::Namespaces;

/// A host of the fabric.
#[derive(Debug)]
pub struct Host {
    /// Its network namespace; `None` is the thread's own.
    pub netns: Option<OwnedFd>,
    /// Its address there, IPv4 or IPv6 as that of all hosts.
    pub address: IpAddr,
}

/// Which connection a flow takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// A new one.
    PerFlow,
    /// One that its pair of hosts has already.
    Persistent {
        /// Connections that are opened before the run begins, for each pair that has flows.
        ahead: u32,
    },
}

/// How flows are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which connection a flow takes.
    pub connections: Connections,
    /// Where every host listens; 0 is any free port, another at each host.
    pub port: u16,
    /// Where connections come from. A pair of hosts can have as many at a time as there are ports.
    pub source_ports: RangeInclusive<u16>,
    /// `SO_SNDBUF` of senders in bytes; `None` leaves the kernel to tune it.
    pub send_buffer: Option<NonZeroU32>,
    /// `SO_RCVBUF` of receivers in bytes; `None` leaves the kernel to tune it.
    pub receive_buffer: Option<NonZeroU32>,
    /// `TCP_CONGESTION` at both ends (DCTCP's receiver takes part); `None` is the namespaces'.
    pub congestion_control: Option<String>,
    /// `SO_PRIORITY` of senders; `None` leaves it alone.
    pub priority: Option<u32>,
    /// Whether a flow's size is told to weft's programs before its first byte, and its class: 1 is
    /// an incast's label, 0 any other flow; and its deadline, if it has one.
    pub declare_size: bool,
    /// From when a flow's time runs, and so its deadline.
    pub since: Since,
    /// How long to go on after the last start, once no start is due any more.
    pub patience: Duration,
}

impl Default for Config {
    /// A new connection for each flow, from the ports that Linux would choose from, to port 5201,
    /// and a minute of patience; all else is the kernel's choice.
    fn default() -> Self {
        Self {
            connections: Connections::PerFlow,
            port: 5201,
            source_ports: 32_768..=60_999,
            send_buffer: None,
            receive_buffer: None,
            congestion_control: None,
            priority: None,
            declare_size: false,
            since: Since::FirstByte,
            patience: Duration::from_secs(60),
        }
    }
}

/// What is called every so often, in the clock's time: real time, or virtual time in the guest.
/// Ticks that are missed are left out.
pub struct Tick<'a, T> {
    /// How often, above 0.
    pub every: Duration,
    /// What. It runs in the event loop: while it does, no flow starts.
    pub call: &'a mut dyn FnMut(T),
}

/// What watches a run.
#[derive(Default)]
pub struct Watch<'a> {
    /// Is told how far the run is, and in the end once more.
    pub progress: Option<Tick<'a, Progress>>,
    /// Is told the time in ns since the run's beginning, first at 0, to read ports' statistics.
    pub sample: Option<Tick<'a, u64>>,
    /// Is told when times have come.
    pub times: Option<Times<'a>>,
    /// Is asked for another flow, with the next number, when none is left to start and some of the
    /// workload still last (those that were added by themselves apart from both): so the load stays
    /// on until they have ended. The run does not wait for what this gives.
    pub more: Option<&'a mut dyn FnMut() -> Option<Flow>>,
    /// Ends the run.
    pub cancel: Option<&'a Cancel>,
    /// Is called right before a phase of the run begins.
    pub phase: Option<&'a mut dyn FnMut(Phase)>,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are opened ahead of the flows. Runs without such connections have no such phase.
    Connections,
    /// The run's clock begins, and flows start.
    Flows,
}

/// What is called at given times.
pub struct Times<'a> {
    /// ns since the run's beginning, in order; those after its end never come.
    pub at_ns: &'a [u64],
    /// Is told which of them has come, and when it was seen. It runs in the event loop: while it
    /// does, no flow starts.
    pub call: &'a mut dyn FnMut(usize, u64),
}

/// Ends a run early.
#[derive(Debug)]
pub struct Cancel(EventFd);

impl Cancel {
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn new() -> Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        EventFd::from_flags(flags)
            .map(Self)
            .map_err(system("making an eventfd"))
    }

    /// Ends the runs that watch this, now and from now on. A signal handler or another thread may
    /// call it.
    pub fn cancel(&self) {
        // It fails only if it was called 2^64 - 2 times before.
        let _ = self.0.write(1);
    }
}

/// Hosts that listen.
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
    /// If the description does not fit itself (fewer than 2 hosts, an address twice, IPv4 and IPv6,
    /// no source port), a namespace cannot be entered, an address is not there or in use, or the
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
        // All that senders ask of the kernel, once, before flows depend on it.
        let probe = socket::sender(listening[0].address.ip(), &config)?;
        if config.declare_size {
            socket::declare(&probe, 1, Class::Background)?;
            socket::declare_deadline(&probe, Some(Duration::from_secs(1)))?;
        }
        namespaces.leave()?;
        Ok(Self {
            namespaces,
            hosts: listening,
            config,
        })
    }

    /// Sends the flows; returns when all are complete, patience is over, or at cancellation. Each
    /// flow is in the report, whatever became of it. The flows are drawn from the iterator before
    /// the run begins, and nothing is allocated for a packet, a read or a write.
    ///
    /// A flow needs two descriptors while it lasts ([`raise_descriptor_limit`]).
    ///
    /// # Errors
    ///
    /// If flows are not numbered from 0, are between hosts that are not there, or wait for a later
    /// one; if descriptors or memory run out; if connections that are to be there before the run
    /// cannot be opened.
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

/// Raises this process's limit of open descriptors as far as it may; returns it.
///
/// # Errors
///
/// What the kernel gives.
pub fn raise_descriptor_limit() -> Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    /// For 32,000 flows at a time.
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

/// Says what failed.
fn system<E: Into<std::io::Error>>(doing: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::System {
        doing: doing.to_owned(),
        error: error.into(),
    }
}
