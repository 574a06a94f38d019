// SPDX-License-Identifier: MIT OR Apache-2.0

//! Captures the packets of a device: a packet socket with a buffer for all of them.
//!
//! It sees incoming packets before the programs at ingress, and outgoing ones after those at
//! egress, as they are on the wire.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use weft_ktap::Namespace;

/// Buffer size in bytes, enough for any test.
const ROOM: i32 = 256 << 20;

/// Longest packet: a GSO packet.
const LONGEST: usize = 70_000;

pub(crate) struct Capture {
    socket: OwnedFd,
}

impl Capture {
    pub(crate) fn start(namespace: &Namespace, device: &str) -> Result<Self> {
        namespace
            .enter(|| Self::open(device))?
            .with_context(|| format!("capturing on {device}"))
    }

    fn open(device: &str) -> io::Result<Self> {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: No pointer is involved.
        let socket = check(unsafe {
            libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                protocol.into(),
            )
        })?;
        // SAFETY: The descriptor is new, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let name = std::ffi::CString::new(device)?;
        // SAFETY: All zeroes are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        // SAFETY: `name` is a C string.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
        // SAFETY: The kernel reads a `sockaddr_ll`.
        check(unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        })?;
        let room = ROOM;
        // SAFETY: The kernel reads an `i32`.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const room).cast(),
                size_of_val(&room) as u32,
            )
        })?;
        Ok(Self { socket })
    }

    /// Sends a frame.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: The kernel reads `frame.len()` bytes.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
            )
        };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The frames so far, in order; an error if one was lost.
    pub(crate) fn frames(&self) -> Result<Vec<Vec<u8>>> {
        // Waits for packets in transit: a veth passes packets on in a softirq.
        std::thread::sleep(Duration::from_millis(50));
        let mut frames = Vec::new();
        let mut buffer = vec![0; LONGEST];
        loop {
            // SAFETY: The kernel writes at most `buffer.len()` bytes.
            let length = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            match usize::try_from(length) {
                Ok(length) => frames.push(buffer[..length].to_vec()),
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(io::Error::last_os_error()).context("reading packets"),
            }
        }
        let mut statistics = [0_u32; 2];
        let mut size = size_of_val(&statistics) as u32;
        // SAFETY: The kernel writes a `struct tpacket_stats`, two `u32`.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                statistics.as_mut_ptr().cast(),
                &raw mut size,
            )
        })?;
        ensure!(
            statistics[1] == 0,
            "the capture lost {} packets",
            statistics[1]
        );
        Ok(frames)
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
