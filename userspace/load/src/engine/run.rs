// SPDX-License-Identifier: MIT OR Apache-2.0

//! One run: the event loop.
//!
//! Sockets are registered with epoll once, edge-triggered, and need no further epoll call while a
//! flow lasts. So a socket is written until the kernel accepts no more, and read until it is empty.
//! A partial write or read shows that.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::connections::{Connection, Key, Opening, Pair, Side, State, Table, Token};
use super::pump;
use super::report::{Ended, Failure, FlowResult, Lag, Outcome, Progress, Report, Stage};
use super::schedule::Schedule;
use super::socket::{self, Counters};
use super::timer::{Alarm, Clock, Period, ns};
use super::{Connections, Engine, Phase, Tick, Watch, system};
use crate::error::{Error, Result};
use crate::generate::{Class, Flow};

/// Maximum of bytes per write. The buffer is never modified, so it takes no memory either.
const CHUNK: usize = 256 << 10;
/// Maximum of events handled, and of flows started, before the other gets its turn. It is small
/// because one write of a few MB takes a millisecond of real time, which a due flow has to wait.
const BATCH: usize = 16;
/// Maximum of connections that are being opened at a time before the run.
const OPENING: u64 = 64;
/// Maximum of connections that may be reset before they are accepted, per flow.
const TRIES: u32 = 16;

/// Sends the flows.
pub(super) fn run(engine: &mut Engine, flows: Vec<Flow>, mut watch: Watch<'_>) -> Result<Report> {
    let schedule = Schedule::new(&flows, engine.hosts.len())?;
    let mut run = Run::new(engine, &watch, flows, schedule)?;
    let mut begin = |phase| {
        watch
            .phase
            .as_mut()
            .into_iter()
            .for_each(|call| call(phase))
    };
    let cancelled = match run.engine.config.connections {
        Connections::PerFlow | Connections::Persistent { ahead: 0 } => false,
        Connections::Persistent { ahead } => {
            begin(Phase::Connections);
            run.clock = Clock::start()?;
            run.open_ahead(ahead)?
        }
    };
    run.engine.namespaces.leave()?;
    begin(Phase::Flows);
    run.clock = Clock::start()?;
    run.alarm.rang();
    let ended = if cancelled {
        Ended::Cancelled
    } else {
        run.drive(&mut watch)?
    };
    let report = run.finish(ended)?;
    if let Some(Tick { call, .. }) = &mut watch.progress {
        let own = &report.flows[..report.own];
        let count = |matches: fn(&Outcome) -> bool| {
            let outcomes = own.iter().map(|flow| &flow.outcome);
            outcomes.filter(|outcome| matches(outcome)).count() as u64
        };
        call(Progress {
            now_ns: report.duration_ns,
            flows: own.len() as u64,
            started: count(|outcome| *outcome != Outcome::NotStarted),
            ended: count(|outcome| {
                matches!(outcome, Outcome::Finished { .. } | Outcome::Failed(_))
            }),
        });
    }
    Ok(report)
}

struct Run<'a> {
    engine: &'a mut Engine,
    epoll: Epoll,
    events: Vec<EpollEvent>,
    alarm: Alarm,
    clock: Clock,
    zeros: Vec<u8>,
    schedule: Schedule,
    table: Table,
    /// Connections to open again.
    again: VecDeque<Opening>,
    /// Connections being opened before the run.
    opening: u64,
    flows: Vec<FlowResult>,
    /// Number of the workload's own flows; those after them keep up the load.
    own: usize,
    lag: Lag,
    /// Own flows that have started.
    started: u64,
    /// When the last of the own flows started.
    last_start: u64,
    /// Own flows that have ended.
    ended: u64,
    /// Own flows for which the load is kept up.
    loaded: u64,
    /// Flows among these and among those that keep up the load that have not started.
    to_start: u64,
    connections: u64,
    strangers: u64,
    cancelled: bool,
}

impl<'a> Run<'a> {
    fn new(
        engine: &'a mut Engine,
        watch: &Watch<'_>,
        flows: Vec<Flow>,
        schedule: Schedule,
    ) -> Result<Self> {
        let loaded = flows.iter().filter(|flow| is_loaded(flow)).count() as u64;
        let run = Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
                .map_err(system("making an epoll"))?,
            events: vec![EpollEvent::empty(); BATCH],
            alarm: Alarm::new()?,
            clock: Clock::start()?,
            zeros: vec![0; CHUNK],
            schedule,
            table: Table::default(),
            again: VecDeque::new(),
            opening: 0,
            own: flows.len(),
            loaded,
            to_start: loaded,
            lag: Lag::default(),
            started: 0,
            last_start: 0,
            ended: 0,
            connections: 0,
            strangers: 0,
            cancelled: false,
            flows: flows.into_iter().map(FlowResult::new).collect(),
            engine,
        };
        let edge = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        run.watch(&run.alarm, edge, Token::Alarm)?;
        if let Some(cancel) = watch.cancel {
            run.watch(&cancel.0, EpollFlags::EPOLLIN, Token::Cancel)?;
        }
        for (host, listening) in (0..).zip(&run.engine.hosts) {
            let token = Token::Listener(host);
            run.watch(&listening.listener, EpollFlags::EPOLLIN, token)?;
        }
        Ok(run)
    }

    fn watch(&self, what: impl AsFd, flags: EpollFlags, token: Token) -> Result<()> {
        let event = EpollEvent::new(flags, token.to_bits());
        self.epoll
            .add(what, event)
            .map_err(system("adding to epoll"))
    }

    /// Opens connections for each pair that has flows; returns true if cancelled.
    fn open_ahead(&mut self, each: u32) -> Result<bool> {
        let mut seen = HashSet::new();
        let pairs = self.flows.iter().map(|result| pair(&result.flow));
        let pairs: Vec<Pair> = pairs.filter(|pair| seen.insert(*pair)).collect();
        let mut wanted = pairs
            .into_iter()
            .flat_map(|pair| std::iter::repeat_n(pair, each as usize));
        let patience = ns(self.engine.config.patience);
        loop {
            while let Some(opening) = self.again.pop_front() {
                self.open(opening)?;
            }
            while self.opening < OPENING
                && let Some(pair) = wanted.next()
            {
                self.opening += 1;
                let opening = self.persistent(pair, None);
                self.open(opening)?;
            }
            if self.cancelled || self.opening == 0 {
                return Ok(self.cancelled);
            }
            let now = self.clock.now()?;
            if now >= patience {
                return Err(Error::System {
                    doing: "opening connections before the run".to_owned(),
                    error: io::ErrorKind::TimedOut.into(),
                });
            }
            let next = if self.again.is_empty() { patience } else { 0 };
            self.wait(next, now)?;
        }
    }

    /// A persistent connection with the pair's next number.
    fn persistent(&mut self, pair: Pair, flow: Option<u32>) -> Opening {
        let hosts = self.engine.hosts.len() as u64;
        let place = u64::from(pair.0) * hosts + u64::from(pair.1);
        Opening {
            pair,
            flow,
            tries: 0,
            number: place.wrapping_add(self.table.count(pair)),
        }
    }

    /// Whether the workload's own flows have ended.
    fn all_ended(&self) -> bool {
        self.ended == self.own as u64
    }

    /// The event loop.
    fn drive(&mut self, watch: &mut Watch<'_>) -> Result<Ended> {
        let patience = ns(self.engine.config.patience);
        let sample_every = watch.sample.as_ref().map(|tick| tick.every);
        let mut sample = sample_every.map(|every| Period::new(every, 0));
        let progress_every = watch.progress.as_ref().map(|tick| tick.every);
        let mut progress = progress_every.map(|every| Period::new(every, ns(every)));
        let mut come = 0;
        loop {
            for _ in 0..BATCH {
                // A flow that is due right after the last end does not start.
                if self.all_ended() {
                    break;
                }
                let now = self.clock.now()?;
                let Some((due, flow)) = self.schedule.pop(now) else {
                    break;
                };
                self.start(flow, due, now)?;
                self.keep_up_load(watch)?;
            }
            // Only the connections that are in the list now: one that fails at once waits for the
            // next turn.
            for _ in 0..self.again.len() {
                if let Some(opening) = self.again.pop_front() {
                    self.open(opening)?;
                }
            }
            let now = self.clock.now()?;
            if let Some(times) = &mut watch.times {
                while times.at_ns.get(come).is_some_and(|at| *at <= now) {
                    self.engine.namespaces.leave()?;
                    (times.call)(come, now);
                    come += 1;
                }
            }
            if let (Some(period), Some(tick)) = (&mut sample, &mut watch.sample)
                && period.is_due(now)
            {
                self.engine.namespaces.leave()?;
                (tick.call)(now);
            }
            if let (Some(period), Some(tick)) = (&mut progress, &mut watch.progress)
                && period.is_due(now)
            {
                self.engine.namespaces.leave()?;
                (tick.call)(Progress {
                    now_ns: now,
                    flows: self.own as u64,
                    started: self.started,
                    ended: self.ended,
                });
            }
            if self.cancelled {
                return Ok(Ended::Cancelled);
            }
            if self.all_ended() {
                return Ok(Ended::Complete);
            }
            let deadline = self.last_start.saturating_add(patience);
            let start = self.schedule.next_ns();
            let all_began = !self.schedule.has_any_of_first(self.own);
            if all_began && deadline <= now {
                return Ok(Ended::Patience);
            }
            let ticks = [&sample, &progress].into_iter().flatten();
            let time = watch.times.as_ref().and_then(|times| times.at_ns.get(come));
            let next = ticks
                .map(Period::next)
                .chain(time.copied())
                .chain(all_began.then_some(deadline))
                .chain(start)
                .fold(u64::MAX, u64::min);
            let next = if self.again.is_empty() { next } else { 0 };
            self.wait(next, now)?;
        }
    }

    /// Waits for events, at most until `next`, and handles them.
    fn wait(&mut self, next: u64, now: u64) -> Result<()> {
        let timeout = if next <= now {
            EpollTimeout::ZERO
        } else {
            self.alarm.set(&self.clock, next)?;
            EpollTimeout::NONE
        };
        let mut events = std::mem::take(&mut self.events);
        let count = match self.epoll.wait(&mut events, timeout) {
            Err(Errno::EINTR) => 0,
            result => result.map_err(system("waiting for events"))?,
        };
        for event in events.iter().take(count) {
            match Token::from_bits(event.data()) {
                Token::Alarm => self.alarm.rang(),
                Token::Cancel => self.cancelled = true,
                Token::Listener(host) => self.accept(host)?,
                Token::Connection(key, Side::Sender) => self.sender_event(key, event.events())?,
                Token::Connection(key, Side::Receiver) => self.read(key)?,
            }
        }
        self.events = events;
        Ok(())
    }

    /// Draws another flow if none is left to start and some flows of the workload have not ended;
    /// added flows do not count.
    fn keep_up_load(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        let Some(more) = &mut watch.more else {
            return Ok(());
        };
        if self.loaded == 0 || self.to_start > 0 {
            return Ok(());
        }
        let place = u32::try_from(self.flows.len()).unwrap_or(u32::MAX);
        if place < u32::MAX
            && let Some(flow) = more()
        {
            self.schedule.push(&flow, place, self.engine.hosts.len())?;
            self.to_start += u64::from(is_loaded(&flow));
            self.flows.push(FlowResult::new(flow));
        }
        Ok(())
    }

    /// Records that the flow has ended, successfully or not.
    fn over(&mut self, flow: u32, now: u64) {
        if (flow as usize) < self.own {
            self.ended += 1;
            self.loaded -= u64::from(is_loaded(&self.flows[flow as usize].flow));
        }
        self.schedule.ended(flow, now);
    }

    fn start(&mut self, index: u32, due: u64, now: u64) -> Result<()> {
        let result = &mut self.flows[index as usize];
        result.due_ns = Some(due);
        result.start_ns = Some(now);
        result.outcome = Outcome::Unfinished;
        result.timeouts = Some(0);
        self.lag.record(now.saturating_sub(due));
        let flow = result.flow;
        self.to_start -= u64::from(is_loaded(&flow));
        if (index as usize) < self.own {
            self.started += 1;
            self.last_start = now;
        }
        if self.engine.config.connections == Connections::PerFlow {
            return self.open(Opening {
                pair: pair(&flow),
                flow: Some(index),
                tries: 0,
                number: flow.id,
            });
        }
        let Some(key) = self.table.take(pair(&flow)) else {
            let opening = self.persistent(pair(&flow), Some(index));
            return self.open(opening);
        };
        if let Some(connection) = self.table.get(key) {
            result.reused = true;
            connection.before = socket::counters(&connection.sender);
            connection.flow = Some(index);
            connection.to_write = flow.size;
            connection.to_read = flow.size;
            connection.told_from = 1;
            connection.expect(self.engine.config.pump)?;
        }
        self.write(key)
    }

    /// Begins to connect, from the first free port.
    fn open(&mut self, opening: Opening) -> Result<()> {
        let (src, dst) = opening.pair;
        self.engine.namespaces.enter(src as usize)?;
        let Engine { hosts, config, .. } = &*self.engine;
        let address = hosts[src as usize].address.ip();
        let to = hosts[dst as usize].address;
        let ports = &config.source_ports;
        let count = u64::from(ports.end() - ports.start()) + 1;
        let first = opening.number.wrapping_add(u64::from(opening.tries));
        let mut failed = Errno::EADDRNOTAVAIL;
        for shift in 0..count {
            let socket = socket::sender(address, config)?;
            if opening.flow.is_some() {
                socket::acknowledge_with_data(&socket)?;
            }
            // Within the range of ports, so it fits a u16.
            let port = ports.start() + (first.wrapping_add(shift) % count) as u16;
            let from = SocketAddr::new(address, port);
            match socket::begin_connect(&socket, from, to) {
                Ok(()) => {
                    let sender = TcpStream::from(socket);
                    return self.opened(opening, sender, from);
                }
                Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) => {}
                Err(errno) => {
                    failed = errno;
                    break;
                }
            }
        }
        self.lost(opening, failed)
    }

    fn opened(&mut self, opening: Opening, sender: TcpStream, from: SocketAddr) -> Result<()> {
        self.connections += 1;
        let key = self.table.insert(opening, sender, from);
        if let Some(connection) = self.table.get(key) {
            if let Some(flow) = opening.flow {
                self.flows[flow as usize].port = Some(from.port());
                let size = self.flows[flow as usize].flow.size;
                connection.to_write = size;
                connection.to_read = size;
            }
            let token = Token::Connection(key, Side::Sender);
            let flags = EpollFlags::EPOLLIN
                | EpollFlags::EPOLLOUT
                | EpollFlags::EPOLLRDHUP
                | EpollFlags::EPOLLET;
            let event = EpollEvent::new(flags, token.to_bits());
            self.epoll
                .add(&connection.sender, event)
                .map_err(system("adding to epoll"))?;
        }
        Ok(())
    }

    /// Handles a connection that could not be opened: tries another one, or lets its flow fail.
    fn lost(&mut self, opening: Opening, errno: Errno) -> Result<()> {
        let again = matches!(
            errno,
            Errno::ECONNRESET | Errno::ECONNREFUSED | Errno::EPIPE | Errno::ETIMEDOUT
        );
        if again && opening.tries < TRIES {
            if let Some(flow) = opening.flow {
                self.flows[flow as usize].reconnects += 1;
            }
            self.again.push_back(Opening {
                tries: opening.tries + 1,
                ..opening
            });
            return Ok(());
        }
        match opening.flow {
            Some(flow) => self.fail(flow, Stage::Connect, errno),
            None => Err(Error::System {
                doing: format!(
                    "opening a connection from h{} to h{} before the run",
                    opening.pair.0, opening.pair.1
                ),
                error: errno.into(),
            }),
        }
    }

    fn accept(&mut self, host: u32) -> Result<()> {
        loop {
            match self.engine.hosts[host as usize].listener.accept() {
                Ok((receiver, from)) => {
                    let Some(key) = self.table.accepted(host, from) else {
                        self.strangers += 1;
                        continue;
                    };
                    self.accepted(key, receiver)?;
                }
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EAGAIN) => return Ok(()),
                    // Errors of the connection itself, which accept(2) returns in its place.
                    Some(
                        Errno::ECONNABORTED
                        | Errno::EINTR
                        | Errno::EPROTO
                        | Errno::ENETDOWN
                        | Errno::ENETUNREACH
                        | Errno::EHOSTDOWN
                        | Errno::EHOSTUNREACH,
                    ) => {}
                    _ => {
                        let error = socket::no_descriptor("accepting a connection", error);
                        return Err(error.context(&format!("host h{host}")));
                    }
                },
            }
        }
    }

    fn accepted(&mut self, key: Key, receiver: TcpStream) -> Result<()> {
        let Some(connection) = self.table.get(key) else {
            return Ok(());
        };
        connection.receiver = Some(receiver);
        if connection.flow.is_some() {
            // The packet that completed the handshake also brought the flow's first bytes, maybe
            // all of them.
            self.read(key)?;
        } else if connection.state == State::Open {
            self.stands_by(key);
        }
        let Some(Connection {
            receiver: Some(receiver),
            ..
        }) = self.table.get(key)
        else {
            return Ok(());
        };
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        let event = EpollEvent::new(flags, Token::Connection(key, Side::Receiver).to_bits());
        // Bytes that arrived before this call trigger an edge, too.
        self.epoll
            .add(receiver, event)
            .map_err(system("adding to epoll"))
    }

    /// Handles a connection that was opened ahead and is established now.
    fn stands_by(&mut self, key: Key) {
        if let Some(connection) = self.table.get(key) {
            let pair = connection.opening.pair;
            self.table.release(key, pair);
            self.opening -= 1;
        }
    }

    fn sender_event(&mut self, key: Key, flags: EpollFlags) -> Result<()> {
        let Some(connection) = self.table.get(key) else {
            return Ok(());
        };
        let error = EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        let over = flags.intersects(error | EpollFlags::EPOLLRDHUP);
        match connection.state {
            State::Closing if over => {
                // The receiver has closed and has no state left: both ends close.
                self.table.remove(key);
                Ok(())
            }
            State::Closing => Ok(()),
            state if over => {
                let error = match connection.sender.take_error() {
                    Ok(Some(error)) | Err(error) => error.raw_os_error(),
                    Ok(None) => None,
                };
                let errno = error.map_or(Errno::ECONNRESET, Errno::from_raw);
                let stage = match state {
                    State::Connecting => Stage::Connect,
                    _ => Stage::Send,
                };
                self.broken(key, stage, errno)
            }
            State::Connecting if flags.contains(EpollFlags::EPOLLOUT) => {
                connection.state = State::Open;
                if connection.flow.is_none() {
                    // There is time for it, as the connection was opened ahead.
                    socket::ask_window(&connection.sender);
                }
                if connection.flow.is_none() && connection.receiver.is_some() {
                    self.stands_by(key);
                }
                self.write(key)
            }
            State::Connecting => Ok(()),
            State::Open => self.write(key),
        }
    }

    /// Writes as much as the kernel accepts.
    fn write(&mut self, key: Key) -> Result<()> {
        let Some(connection) = self.table.get(key) else {
            return Ok(());
        };
        let Some(flow) = connection.flow else {
            return Ok(());
        };
        let result = &mut self.flows[flow as usize];
        if connection.to_write == result.flow.size {
            let flow = &result.flow;
            // An earlier flow may have set another one.
            let selector = flow.priority.unwrap_or(0);
            if connection.selector != selector {
                socket::mark(&connection.sender, connection.from.ip(), selector)?;
                connection.selector = selector;
            }
            if self.engine.config.declare_size {
                socket::declare(&connection.sender, flow.size, declared_class(flow))?;
                let passed = match result.begin_ns(self.engine.config.since) {
                    Some(begin_ns) => self.clock.now()?.saturating_sub(begin_ns),
                    None => 0,
                };
                let left = |ns: u64| Duration::from_nanos(ns.saturating_sub(passed));
                // A deadline declared earlier on a reused connection is another flow's.
                if flow.deadline_ns.is_some() || result.reused {
                    socket::declare_deadline(&connection.sender, flow.deadline_ns.map(left))?;
                }
            }
            // If the connection was opened again, the flow's clock goes on.
            if result.first_byte_ns.is_none() {
                result.first_byte_ns = Some(self.clock.now()?);
            }
        }
        if self.engine.config.pump {
            let sender = &connection.sender;
            let said = if connection.to_write >= pump::FROM {
                let bytes = std::mem::take(&mut connection.to_write);
                connection.sender_pump.send(sender, bytes)
            } else {
                connection.sender_pump.go_on(sender)
            };
            if let Err(errno) = said {
                return self.broken(key, Stage::Send, errno);
            }
        }
        while connection.to_write > 0 {
            let chunk = usize::try_from(connection.to_write)
                .unwrap_or(CHUNK)
                .min(CHUNK);
            let more = connection.to_write > chunk as u64;
            match socket::write(&connection.sender, &self.zeros[..chunk], more) {
                Ok(written) => {
                    connection.to_write -= written as u64;
                    if written < chunk {
                        break;
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return self.broken(key, Stage::Send, errno),
            }
        }
        Ok(())
    }

    /// Reads the bytes that have arrived.
    fn read(&mut self, key: Key) -> Result<()> {
        let Some(connection) = self.table.get(key) else {
            return Ok(());
        };
        let Some(receiver) = &connection.receiver else {
            return Ok(());
        };
        if connection.flow.is_none() {
            // No flow means no bytes: either the connection has ended, or earlier reads took the
            // event's bytes.
            return match socket::discard(receiver, 1) {
                Err(Errno::EAGAIN) => Ok(()),
                Err(errno) => self.broken(key, Stage::Receive, errno),
                Ok(_) => self.broken(key, Stage::Receive, Errno::ECONNABORTED),
            };
        }
        loop {
            match socket::discard(receiver, connection.to_read) {
                Ok(0) => return self.broken(key, Stage::Receive, Errno::ECONNABORTED),
                Ok(read) => {
                    connection.to_read -= read;
                    if connection.to_read == 0 {
                        let now = self.clock.now()?;
                        self.complete(key, now);
                        return Ok(());
                    }
                }
                Err(Errno::EAGAIN) => return connection.expect(self.engine.config.pump),
                Err(Errno::EINTR) => {}
                Err(errno) => return self.broken(key, Stage::Receive, errno),
            }
        }
    }

    /// Completes the flow: all bytes have arrived.
    fn complete(&mut self, key: Key, now: u64) {
        let Some(connection) = self.table.get(key) else {
            return;
        };
        let Some(flow) = connection.flow.take() else {
            return;
        };
        let counters = socket::counters(&connection.sender);
        let result = &mut self.flows[flow as usize];
        account(result, &connection.before, &counters);
        result.outcome = Outcome::Finished { end_ns: now };
        result.received = result.flow.size;
        match self.engine.config.connections {
            Connections::PerFlow => {
                connection.state = State::Closing;
                connection.receiver = None;
            }
            Connections::Persistent { .. } => {
                let pair = connection.opening.pair;
                self.table.release(key, pair);
            }
        }
        self.over(flow, now);
    }

    /// Handles a broken connection.
    fn broken(&mut self, key: Key, stage: Stage, errno: Errno) -> Result<()> {
        let Some(connection) = self.table.remove(key) else {
            return Ok(());
        };
        socket::reset_on_close(&connection.sender);
        if let Some(receiver) = &connection.receiver {
            socket::reset_on_close(receiver);
        }
        if let Some(flow) = connection.flow {
            let counters = socket::counters(&connection.sender);
            let result = &mut self.flows[flow as usize];
            account(result, &connection.before, &counters);
            result.received = result.flow.size - connection.missing();
        }
        let there = connection.receiver.is_some() && connection.state != State::Connecting;
        match connection.flow {
            Some(flow) if there => self.fail(flow, stage, errno),
            None if there => Ok(()),
            _ => self.lost(connection.opening, errno),
        }
    }

    fn fail(&mut self, flow: u32, stage: Stage, errno: Errno) -> Result<()> {
        let at_ns = self.clock.now()?;
        self.flows[flow as usize].outcome = Outcome::Failed(Failure {
            at_ns,
            stage,
            errno: errno as i32,
        });
        self.over(flow, at_ns);
        Ok(())
    }

    fn finish(mut self, ended: Ended) -> Result<Report> {
        let duration_ns = self.clock.now()?;
        for (flow, connection) in self.table.busy() {
            let result = &mut self.flows[flow as usize];
            account(
                result,
                &connection.before,
                &socket::counters(&connection.sender),
            );
            // Bytes in the receive buffer count as received, even if too few arrived to wake the
            // receiver.
            let receiver = connection.receiver.as_ref();
            let left = receiver.map(|receiver| socket::discard(receiver, connection.to_read));
            let unread = left.and_then(nix::Result::ok).unwrap_or(0);
            result.received = result.flow.size - connection.missing() + unread;
        }
        self.engine.namespaces.leave()?;
        Ok(Report {
            ended,
            begin_ns: ns(self.clock.begin),
            duration_ns,
            own: self.own,
            flows: std::mem::take(&mut self.flows),
            lag: self.lag,
            connections: self.connections,
            strangers: self.strangers,
        })
    }
}

/// Whether the load is kept up until the flow ends. An added flow may never end.
fn is_loaded(flow: &Flow) -> bool {
    flow.class != Class::Added
}

/// The class that is declared to weft's programs.
fn declared_class(flow: &Flow) -> u32 {
    let is_incast = matches!(flow.class, Class::Incast(_));
    flow.priority.map_or(is_incast.into(), u32::from)
}

fn pair(flow: &Flow) -> Pair {
    (flow.src, flow.dst)
}

/// Adds the increase of a connection's counters while it carried the flow.
fn account(result: &mut FlowResult, before: &Counters, after: &Counters) {
    let us = |before, after: u64| Duration::from_micros(after.saturating_sub(before));
    let retransmissions = after.retransmissions.wrapping_sub(before.retransmissions);
    result.retransmissions += u64::from(retransmissions);
    result.spurious = result.spurious.zip(after.spurious).map(|(so_far, after)| {
        let before = before.spurious.unwrap_or(0);
        so_far + u64::from(after.wrapping_sub(before))
    });
    // The sum is unknown if either part is.
    result.timeouts = result.timeouts.zip(after.timeouts).map(|(so_far, after)| {
        let before = before.timeouts.unwrap_or(0);
        so_far + u64::from(after.wrapping_sub(before))
    });
    result.receive_window_limited += us(
        before.receive_window_limited_us,
        after.receive_window_limited_us,
    );
    result.send_buffer_limited += us(before.send_buffer_limited_us, after.send_buffer_limited_us);
    result.congestion_window = Some(after.congestion_window);
}
