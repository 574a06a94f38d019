// SPDX-License-Identifier: MIT OR Apache-2.0

//! Datagrams, many in a system call.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};
use socket2::{SockFilter, SockRef};

use super::turn::Socket;

/// How many are sent in one call.
pub(crate) const AT_ONCE: usize = 64;
/// How many are received in one call: few, because due events wait meanwhile.
const RECEIVED: usize = 16;
/// Bytes of the longest; a longer one is truncated.
pub(crate) const LONGEST: usize = 2048;

/// A non-blocking socket, with received datagrams and datagrams to send.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    headers: MultiHeaders<SockaddrIn>,
    room: Vec<[u8; LONGEST]>,
    /// Source and length of the datagrams received together, and how many of these were taken.
    come: Vec<(Option<SocketAddrV4>, usize)>,
    taken: usize,
    to: Vec<Option<SockaddrIn>>,
    /// The datagrams' bytes, concatenated, and the length of each.
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

/// Has the kernel drop datagrams from ports of `first` and above, except those from port `also`,
/// before they take room in the socket's buffer: a flood from such ports then pushes no genuine
/// datagram out of it, and wakes nobody.
///
/// # Errors
///
/// If the kernel refuses the filter.
pub(crate) fn drop_from(socket: &UdpSocket, first: u16, also: Option<u16>) -> Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let filter = [
        // A UDP socket's filter begins at the UDP header, and that with the source port.
        SockFilter::new(LOAD, 0, 0, 0),
        SockFilter::new(IF_AT_LEAST, 0, 1, first.into()),
        SockFilter::new(IF_EQUAL, 0, 1, also.map_or(u32::MAX, u32::from)),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ];
    let socket = SockRef::from(socket);
    socket.attach_filter(&filter).context("SO_ATTACH_FILTER")
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Datagrams {
    pub(crate) fn new(socket: UdpSocket) -> Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            headers: MultiHeaders::preallocate(RECEIVED, None),
            room: vec![[0; LONGEST]; RECEIVED],
            come: Vec::with_capacity(RECEIVED),
            taken: 0,
            to: Vec::with_capacity(AT_ONCE),
            bytes: Vec::new(),
            lengths: Vec::with_capacity(AT_ONCE),
        })
    }

    /// Receives more; returns whether there was anything.
    fn receive(&mut self) -> Result<bool> {
        let fd = self.socket.as_raw_fd();
        let room = self.room.iter_mut();
        let mut room: Vec<_> = room.map(|it| [IoSliceMut::new(it)]).collect();
        self.come.clear();
        self.taken = 0;
        let flags = MsgFlags::MSG_DONTWAIT;
        match recvmmsg(fd, &mut self.headers, &mut room, flags, None) {
            Ok(come) => self.come.extend(come.map(|it| {
                // An empty datagram has no part.
                let length = it.iovs().next().map_or(0, <[u8]>::len);
                (it.address.map(SocketAddrV4::from), length)
            })),
            // ICMP reported that nobody listens at an earlier destination; the socket is readable
            // nevertheless.
            Err(Errno::EAGAIN | Errno::ECONNREFUSED | Errno::EINTR) => {}
            Err(error) => return Err(error).context("receiving"),
        }
        Ok(!self.come.is_empty())
    }
}

impl Socket for Datagrams {
    fn next(&mut self) -> Result<Option<(SocketAddrV4, &[u8])>> {
        loop {
            if self.taken == self.come.len() && !self.receive()? {
                return Ok(None);
            }
            let (from, length) = self.come[self.taken];
            let place = self.taken;
            self.taken += 1;
            if let Some(from) = from {
                return Ok(Some((from, &self.room[place][..length])));
            }
        }
    }

    fn send(&mut self, to: SocketAddrV4, bytes: &[u8]) {
        self.to.push(Some(to.into()));
        self.bytes.extend_from_slice(bytes);
        self.lengths.push(bytes.len());
        if self.to.len() == AT_ONCE {
            self.flush();
        }
    }

    /// Sends in order. A datagram that cannot be sent is lost, as it could be on its path.
    fn flush(&mut self) {
        let fd = self.socket.as_raw_fd();
        let mut rest = &self.bytes[..];
        let parts = self.lengths.iter().map(|length| {
            let (part, behind) = rest.split_at(*length);
            rest = behind;
            [IoSlice::new(part)]
        });
        let parts: Vec<_> = parts.collect();
        let mut first = 0;
        while first < parts.len() {
            // The call overwrites these with source addresses.
            let mut headers = MultiHeaders::preallocate(parts.len() - first, None);
            let (parts, to) = (&parts[first..], &self.to[first..]);
            let sent = sendmmsg(fd, &mut headers, parts, to, [], MsgFlags::MSG_DONTWAIT);
            first += match sent {
                Ok(sent) => sent.count().max(1),
                Err(Errno::EINTR) => 0,
                // The first of them is the failed one.
                Err(_) => 1,
            };
        }
        self.to.clear();
        self.bytes.clear();
        self.lengths.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use super::*;

    fn socket() -> (UdpSocket, SocketAddrV4) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else {
            panic!("not IPv4")
        };
        (socket, address)
    }

    fn datagram(number: usize) -> Vec<u8> {
        // Also empty ones, and ones that are too long; few of these, or the socket has no room for
        // them.
        let length = match number {
            0 | AT_ONCE => LONGEST,
            1 | 100 => LONGEST + 7,
            _ => [0, 1, 9, 40][number % 4],
        };
        vec![number as u8; length]
    }

    /// More than one batch, and than two.
    const COUNT: usize = 2 * AT_ONCE + 5;

    #[test]
    fn each_datagram_is_processed_once_and_in_order() {
        let (socket, address) = socket();
        let mut datagrams = Datagrams::new(socket).unwrap();
        let (sender, from) = self::socket();
        for number in 0..COUNT {
            sender.send_to(&datagram(number), address).unwrap();
        }
        let mut heeded = Vec::new();
        while let Some((it, bytes)) = datagrams.next().unwrap() {
            assert_eq!(it, from);
            heeded.push(bytes.to_vec());
        }
        assert_eq!(heeded.len(), COUNT);
        for (number, bytes) in heeded.iter().enumerate() {
            let sent = datagram(number);
            assert!(*bytes == sent[..sent.len().min(LONGEST)], "{number}");
        }
    }

    #[test]
    fn datagrams_from_high_ports_take_no_room_in_the_buffer() {
        let (socket, address) = socket();
        let mut senders: Vec<_> = (0..3).map(|_| self::socket()).collect();
        senders.sort_by_key(|(_, from)| from.port());
        let [low, middle, high] = &senders[..] else {
            panic!("three sockets")
        };
        drop_from(&socket, middle.1.port(), Some(high.1.port())).unwrap();
        // More than a buffer holds.
        for _ in 0..5000 {
            let _ = middle.0.send_to(&[0; LONGEST], address);
        }
        low.0.send_to(b"low", address).unwrap();
        high.0.send_to(b"high", address).unwrap();
        let mut datagrams = Datagrams::new(socket).unwrap();
        for (sender, expected) in [(low, "low"), (high, "high")] {
            let (from, bytes) = datagrams.next().unwrap().unwrap();
            assert_eq!((from, bytes), (sender.1, expected.as_bytes()));
        }
        assert!(datagrams.next().unwrap().is_none());
    }

    #[test]
    fn datagrams_arrive_in_order_except_those_that_cannot_be_sent() {
        let mut datagrams = Datagrams::new(socket().0).unwrap();
        let (receiver, address) = socket();
        for number in 0..COUNT {
            // Port 0 is invalid.
            if number % 10 == 3 {
                datagrams.send(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), b"lost");
            }
            datagrams.send(address, &datagram(number));
        }
        datagrams.flush();
        let mut room = [0; 2 * LONGEST];
        for number in 0..COUNT {
            let length = receiver.recv(&mut room).unwrap();
            assert!(room[..length] == datagram(number), "{number}");
        }
        datagrams.flush();
        receiver.set_nonblocking(true).unwrap();
        assert!(receiver.recv(&mut room).is_err());
    }
}
