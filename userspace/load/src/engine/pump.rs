// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sockets that send and discard a flow's bytes by themselves: the module `tcp_pump`
//! (kmod/kapi/pump.rs has its options).

use std::net::TcpStream;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpUlp};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

use crate::error::{Error, Result};

/// Flows below this size are written and read by the process, which takes a call or two.
pub(super) const FROM: u64 = 64 << 10;

/// Its name among the upper layers of TCP.
const NAME: &str = "weft-pump";
/// The level of its options.
const LEVEL: i32 = 0x7075_6d70;
const SEND: i32 = 1;
const DISCARD: i32 = 2;

sockopt_impl!(
    /// Bytes to send; those that have no room in the send buffer.
    Send, Both, LEVEL, SEND, u64
);
sockopt_impl!(
    /// Bytes to discard; those that have not arrived.
    Discard, Both, LEVEL, DISCARD, u64
);

/// A connection's end that may have the layer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pump {
    attached: bool,
}

impl Pump {
    /// Sends zeros, `bytes` of them, in the process's place.
    pub(super) fn send(&mut self, socket: &TcpStream, bytes: u64) -> nix::Result<()> {
        self.attach(socket)?;
        setsockopt(socket, Send, &bytes)
    }

    /// Goes on with what is left to send, if the kernel had no memory.
    pub(super) fn go_on(self, socket: &TcpStream) -> nix::Result<()> {
        match self.attached {
            true => setsockopt(socket, Send, &0),
            false => Ok(()),
        }
    }

    /// Discards the next bytes that arrive. The socket becomes readable with the byte after them.
    pub(super) fn discard(&mut self, socket: &TcpStream, bytes: u64) -> nix::Result<()> {
        self.attach(socket)?;
        setsockopt(socket, Discard, &bytes)
    }

    /// How many of the bytes to discard have not arrived.
    pub(super) fn missing(self, socket: &TcpStream) -> u64 {
        match self.attached {
            // It fails only without the layer.
            true => getsockopt(socket, Discard).unwrap_or(0),
            false => 0,
        }
    }

    fn attach(&mut self, socket: &TcpStream) -> nix::Result<()> {
        if !self.attached {
            attach(socket)?;
            self.attached = true;
        }
        Ok(())
    }
}

fn attach(socket: &impl AsFd) -> nix::Result<()> {
    setsockopt(socket, TcpUlp::default(), &NAME)
}

/// Checks with a socket that is not connected that the kernel has the layer, and loads its module.
pub(super) fn check(probe: &impl AsFd) -> Result<()> {
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
