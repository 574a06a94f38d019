// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sockets that send and discard a flow's bytes by themselves: the module `tcp_pump`
//! (kmod/kapi/pump.rs has its options).

use std::mem::size_of;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd as _};

use nix::errno::Errno;

use crate::error::{Error, Result};

/// Flows below this size are written and read by the process, which takes a call or two.
pub(super) const FROM: u64 = 64 << 10;

/// Its name among the upper layers of TCP.
const NAME: &[u8] = b"weft-pump";
/// The level of its options.
const LEVEL: i32 = 0x7075_6d70;
const SEND: i32 = 1;
const DISCARD: i32 = 2;

/// A connection's end that may have the layer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pump {
    attached: bool,
}

impl Pump {
    /// Sends zeros, `bytes` of them, in the process's place.
    pub(super) fn send(&mut self, socket: &TcpStream, bytes: u64) -> nix::Result<()> {
        self.add(socket, SEND, bytes)
    }

    /// Goes on with what is left to send, if the kernel had no memory.
    pub(super) fn go_on(self, socket: &TcpStream) -> nix::Result<()> {
        if self.attached {
            set(socket, LEVEL, SEND, &0_u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Discards the next bytes that arrive. The socket becomes readable with the byte after them.
    pub(super) fn discard(&mut self, socket: &TcpStream, bytes: u64) -> nix::Result<()> {
        self.add(socket, DISCARD, bytes)
    }

    /// How many of the bytes to discard have not arrived.
    pub(super) fn missing(self, socket: &TcpStream) -> u64 {
        let mut bytes = 0_u64;
        let mut size = size_of::<u64>() as libc::socklen_t;
        if self.attached {
            // SAFETY: The kernel writes at most `size` bytes, which is the size of `bytes`. It
            // fails only without the layer.
            unsafe {
                libc::getsockopt(
                    socket.as_raw_fd(),
                    LEVEL,
                    DISCARD,
                    (&raw mut bytes).cast(),
                    &raw mut size,
                );
            }
        }
        bytes
    }

    fn add(&mut self, socket: &TcpStream, option: i32, bytes: u64) -> nix::Result<()> {
        if !self.attached {
            attach(socket)?;
            self.attached = true;
        }
        set(socket, LEVEL, option, &bytes.to_ne_bytes())
    }
}

fn attach(socket: impl AsFd) -> nix::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, NAME)
}

fn set(socket: impl AsFd, level: i32, option: i32, value: &[u8]) -> nix::Result<()> {
    // SAFETY: The kernel reads `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop)
}

/// Checks with a socket that is not connected that the kernel has the layer, and loads its module.
pub(super) fn check(probe: impl AsFd) -> Result<()> {
    match attach(probe) {
        // The layer exists, and needs a connection.
        Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
        Err(errno) => Err(Error::System {
            doing: match errno {
                Errno::ENOENT => {
                    "asking for sockets that send by themselves (is the module tcp_pump loaded?)"
                }
                _ => "asking for sockets that send by themselves",
            }
            .to_owned(),
            error: errno.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn without_the_module_the_error_names_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A listening socket is not connected either.
        match check(&listener) {
            Ok(()) => {}
            Err(error) => assert!(error.to_string().contains("tcp_pump"), "{error}"),
        }
    }

    #[test]
    fn an_end_without_the_layer_has_nothing_to_discard() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(Pump::default().missing(&socket), 0);
        assert_eq!(Pump::default().go_on(&socket), Ok(()));
    }
}
