// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP connections open, send, wait and end, and choose another congestion control in each of their
//! states.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;

use anyhow::Result;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt,
};

use super::{Example, Tally, pause};
use crate::flow::outage;
use crate::port::{FAR_IP, Port};
use crate::random::Random;
use crate::tests::congestion;

const PORT: u16 = 1000;
const LINKS: [&str; 3] = [
    "delay 2ms",
    "delay 3ms loss 3%",
    "delay 1ms 1ms reorder 25% 50%",
];

struct Sockets {
    port: Port,
    listener: TcpListener,
    near: Vec<TcpStream>,
    far: Vec<TcpStream>,
    /// Nothing arrives.
    down: bool,
}

pub(super) fn turn(examples: &[Example], random: &mut Random, tally: &mut Tally) -> Result<()> {
    let port = Port::acknowledging(random.choose(&LINKS))?;
    // What nobody has open any more is to end soon.
    port.near.write_sysctl("net/ipv4/tcp_orphan_retries", "1")?;
    if random.one_in(2) {
        let Example { kind, words, .. } = random.one_of(examples);
        tally.count(port.tc(&format!("qdisc add dev {{v}} root {kind} {words}")));
    }
    let listener = port
        .far
        .enter(|| TcpListener::bind((Ipv4Addr::from(FAR_IP), PORT)))??;
    listener.set_nonblocking(true)?;
    let mut sockets = Sockets {
        port,
        listener,
        near: Vec::new(),
        far: Vec::new(),
        down: false,
    };
    for _ in 0..random.between(20, 80) {
        let result = sockets.step(random);
        tally.count(result);
        pause(random);
    }
    sockets.end(random)
}

impl Sockets {
    fn step(&mut self, random: &mut Random) -> Result<()> {
        match random.below(12) {
            0..=1 => self.open(random),
            2..=4 => self.any(random, choose),
            5..=7 => self.any(random, |mut socket, random| {
                Ok(socket
                    .write(&vec![7; random.between(1, 100_000) as usize])
                    .map(drop)?)
            }),
            8 => self.any(random, |socket, _| Ok(socket.shutdown(Shutdown::Write)?)),
            9 if !self.near.is_empty() => {
                let at = random.below(self.near.len() as u32) as usize;
                close(self.near.swap_remove(at), random)
            }
            10 if random.one_in(3) => {
                self.down = !self.down;
                outage(&self.port, self.down)
            }
            _ => self.accept(),
        }
    }

    fn open(&mut self, random: &mut Random) -> Result<()> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let near = &self.port.near;
        let open = || socket(AddressFamily::Inet, SockType::Stream, flags, None);
        let opened = TcpStream::from(near.enter(open)??);
        if random.one_in(2) {
            choose(&opened, random)?;
        }
        let [a, b, c, d] = FAR_IP;
        let connected = connect(opened.as_raw_fd(), &SockaddrIn::new(a, b, c, d, PORT));
        self.near.push(opened);
        match connected {
            Err(Errno::EINPROGRESS) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Does something with one of the near sockets, if there are any.
    fn any(
        &self,
        random: &mut Random,
        act: fn(&TcpStream, &mut Random) -> Result<()>,
    ) -> Result<()> {
        if self.near.is_empty() {
            return Ok(());
        }
        act(random.one_of(&self.near), random)
    }

    /// Accepts all who wait, and reads what is there.
    fn accept(&mut self) -> Result<()> {
        while let Ok((accepted, _)) = self.listener.accept() {
            accepted.set_nonblocking(true)?;
            self.far.push(accepted);
        }
        let mut bytes = vec![0; 1 << 16];
        for socket in &mut self.far {
            while socket.read(&mut bytes).is_ok_and(|read| read > 0) {}
        }
        Ok(())
    }

    /// Sockets and namespaces go, the one or the other first.
    fn end(self, random: &mut Random) -> Result<()> {
        let Self { port, near, .. } = self;
        let mut port = Some(port).filter(|_| random.one_in(2));
        for socket in near {
            close(socket, random)?;
        }
        drop(port.take());
        Ok(())
    }
}

/// One of ours, or of the kernel's.
fn choose(socket: &TcpStream, random: &mut Random) -> Result<()> {
    let ours = congestion::OURS.map(|(name, _)| name);
    let names: Vec<&str> = ours.into_iter().chain(["cubic", "reno"]).collect();
    Ok(setsockopt(
        socket,
        sockopt::TcpCongestion,
        &random.choose(&names).into(),
    )?)
}

/// With a reset, or in order: then it stays for a while without anybody who has it open.
fn close(socket: TcpStream, random: &mut Random) -> Result<()> {
    let seconds = libc::linger {
        l_onoff: i32::from(!random.one_in(3)),
        l_linger: 0,
    };
    setsockopt(&socket, sockopt::Linger, &seconds)?;
    drop(socket);
    Ok(())
}
