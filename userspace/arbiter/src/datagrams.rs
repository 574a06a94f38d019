// SPDX-License-Identifier: MIT OR Apache-2.0

//! Datagrams, many in a system call.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};

/// How many are received, or sent, at a time.
pub(crate) const AT_ONCE: usize = 64;
/// Bytes of the longest; of a longer one there are only these.
pub(crate) const LONGEST: usize = 2048;

/// A socket that does not block, and what is to be sent by it.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    headers: MultiHeaders<SockaddrIn>,
    room: Vec<[u8; LONGEST]>,
    to: Vec<Option<SockaddrIn>>,
    /// One behind the other, and how long each is.
    bytes: Vec<u8>,
    lengths: Vec<usize>,
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
            headers: MultiHeaders::preallocate(AT_ONCE, None),
            room: vec![[0; LONGEST]; AT_ONCE],
            to: Vec::with_capacity(AT_ONCE),
            bytes: Vec::new(),
            lengths: Vec::with_capacity(AT_ONCE),
        })
    }

    /// Gives what has come to `heed`, [`AT_ONCE`] of them at most; whether there may be more.
    pub(crate) fn receive(
        &mut self,
        mut heed: impl FnMut(SocketAddrV4, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let fd = self.socket.as_raw_fd();
        let room = self.room.iter_mut();
        let mut room: Vec<_> = room.map(|it| [IoSliceMut::new(it)]).collect();
        let come = recvmmsg(
            fd,
            &mut self.headers,
            &mut room,
            MsgFlags::MSG_DONTWAIT,
            None,
        );
        let come = match come {
            Ok(come) => come,
            Err(Errno::EAGAIN) => return Ok(false),
            // What was sent to somebody who is not there came back.
            Err(Errno::ECONNREFUSED | Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error).context("receiving"),
        };
        let mut count = 0;
        for datagram in come {
            count += 1;
            // There is no part of an empty one.
            let bytes = datagram.iovs().next().unwrap_or_default();
            if let Some(from) = datagram.address {
                heed(from.into(), bytes)?;
            }
        }
        Ok(count == AT_ONCE)
    }

    /// Has a datagram sent, at the next [`flush`](Self::flush) or before.
    pub(crate) fn send(&mut self, to: SocketAddrV4, bytes: &[u8]) {
        self.to.push(Some(to.into()));
        self.bytes.extend_from_slice(bytes);
        self.lengths.push(bytes.len());
        if self.to.len() == AT_ONCE {
            self.flush();
        }
    }

    /// Sends them, in order. What cannot be sent is lost, as it could be on its way: whoever misses it asks again.
    pub(crate) fn flush(&mut self) {
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
            // Where it was sent from is written over these.
            let mut headers = MultiHeaders::preallocate(parts.len() - first, None);
            let (parts, to) = (&parts[first..], &self.to[first..]);
            let sent = sendmmsg(fd, &mut headers, parts, to, [], MsgFlags::MSG_DONTWAIT);
            first += match sent {
                Ok(sent) => sent.count().max(1),
                Err(Errno::EINTR) => 0,
                // The first of them is the one.
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
        // Also none at all, and longer ones than there is room for; few of these, or the socket has none.
        let length = match number {
            0 | AT_ONCE => LONGEST,
            1 | 100 => LONGEST + 7,
            _ => [0, 1, 9, 40][number % 4],
        };
        vec![number as u8; length]
    }

    /// More than a batch, and than two.
    const COUNT: usize = 2 * AT_ONCE + 5;

    #[test]
    fn all_that_comes_is_heeded_once_and_in_order() {
        let (socket, address) = socket();
        let mut datagrams = Datagrams::new(socket).unwrap();
        let (sender, from) = self::socket();
        for number in 0..COUNT {
            sender.send_to(&datagram(number), address).unwrap();
        }
        let mut heeded = Vec::new();
        let mut turns = 1;
        while datagrams
            .receive(|it, bytes| {
                assert_eq!(it, from);
                heeded.push(bytes.to_vec());
                Ok(())
            })
            .unwrap()
        {
            turns += 1;
        }
        assert_eq!(turns, 3);
        assert_eq!(heeded.len(), COUNT);
        for (number, bytes) in heeded.iter().enumerate() {
            let sent = datagram(number);
            assert!(*bytes == sent[..sent.len().min(LONGEST)], "{number}");
        }
        assert!(!datagrams.receive(|_, _| panic!("there is none")).unwrap());
    }

    #[test]
    fn all_that_is_sent_arrives_in_order_but_for_what_cannot_be_sent() {
        let mut datagrams = Datagrams::new(socket().0).unwrap();
        let (receiver, address) = socket();
        for number in 0..COUNT {
            // Port 0 is nobody's.
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
