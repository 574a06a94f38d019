// SPDX-License-Identifier: MIT OR Apache-2.0

//! PASE's Ethernet frames to a group address, which hosts' kernels send and receive.
//!
//! Only a process that may open a packet socket can send such a frame, which requires
//! `CAP_NET_RAW`.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use weft_mechanisms::pase::message::{FRAMES, SIZE};

/// A packet socket for PASE's frames, on all devices of the network namespace.
pub struct Frames(OwnedFd);

impl Frames {
    /// Opens one. It does not block.
    ///
    /// # Errors
    ///
    /// If the kernel refuses. `CAP_NET_RAW` is required.
    pub fn open() -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let protocol = i32::from(FRAMES.ethertype.to_be());
        // SAFETY: the call takes three numbers.
        let descriptor = checked(unsafe { libc::socket(libc::AF_PACKET, kind, protocol) })?;
        // SAFETY: the kernel has just created it, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Makes a device receive frames to the group, which it might filter out.
    ///
    /// # Errors
    ///
    /// If there is no such device.
    pub fn join(&self, device: u32) -> io::Result<()> {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&FRAMES.group);
        let request = libc::packet_mreq {
            mr_ifindex: device as i32,
            mr_type: libc::PACKET_MR_MULTICAST as u16,
            mr_alen: 6,
            mr_address: address,
        };
        // SAFETY: the request is the structure of that option, with its size.
        checked(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                mem::size_of_val(&request) as libc::socklen_t,
            )
        })
        .map(drop)
    }

    /// The next frame to the group with the length of a message, and the device that received it;
    /// `None` if there is none now.
    ///
    /// # Errors
    ///
    /// Errors of the kernel.
    pub fn receive(&self) -> io::Result<Option<(u32, [u8; SIZE])>> {
        loop {
            // One byte more, to detect longer frames.
            let mut bytes = [0_u8; SIZE + 1];
            // SAFETY: all-zero bytes are an address.
            let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
            let mut length = mem::size_of_val(&from) as libc::socklen_t;
            // SAFETY: both lengths are those of the buffers.
            let received = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    0,
                    (&raw mut from).cast(),
                    &raw mut length,
                )
            };
            let count = match checked(received as i32) {
                Ok(count) => count as usize,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // A device went down. The kernel reports it once.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => continue,
                Err(error) => return Err(error),
            };
            let to_group = from.sll_pkttype == libc::PACKET_MULTICAST;
            if let (SIZE, true, Some(message)) = (count, to_group, bytes.first_chunk()) {
                return Ok(Some((from.sll_ifindex as u32, *message)));
            }
        }
    }

    /// Sends a message by a device. Without room in the queue it is lost, like any message.
    pub fn send(&self, device: u32, message: &[u8; SIZE]) {
        // SAFETY: all-zero bytes are an address.
        let mut to: libc::sockaddr_ll = unsafe { mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = FRAMES.ethertype.to_be();
        to.sll_ifindex = device as i32;
        to.sll_halen = 6;
        to.sll_addr[..6].copy_from_slice(&FRAMES.group);
        // SAFETY: both lengths are those of the buffers.
        unsafe {
            libc::sendto(
                self.0.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
                (&raw const to).cast(),
                mem::size_of_val(&to) as libc::socklen_t,
            );
        }
    }
}

impl AsFd for Frames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}
