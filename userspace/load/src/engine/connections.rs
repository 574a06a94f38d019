// SPDX-License-Identifier: MIT OR Apache-2.0

//! The connections of a run, and a list of the free ones.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};

use slab::Slab;

use super::pump::{self, Pump};
use super::socket::{self, Counters};
use super::system;
use crate::error::Result;

/// A pair of hosts: sender and receiver.
pub(super) type Pair = (u32, u32);

/// A connection: both ends.
#[derive(Debug)]
pub(super) struct Connection {
    /// Distinguishes it from other connections that had the same index.
    serial: u32,
    pub(super) opening: Opening,
    pub(super) sender: TcpStream,
    /// `None` until it is accepted.
    pub(super) receiver: Option<TcpStream>,
    /// The sender's address, by which the receiving host identifies the connection.
    pub(super) from: SocketAddr,
    pub(super) state: State,
    /// The flow that it carries.
    pub(super) flow: Option<u32>,
    pub(super) to_write: u64,
    /// Bytes that the process reads itself.
    pub(super) to_read: u64,
    pub(super) sender_pump: Pump,
    pub(super) receiver_pump: Pump,
    /// The receiver wakes when this many bytes have arrived; 1 if not set yet. See
    /// [`socket::tell_from`].
    pub(super) told_from: u64,
    /// The class selector of the sender's packets. See [`socket::mark`].
    pub(super) selector: u8,
    /// The sender's counters when the flow began.
    pub(super) before: Counters,
}

impl Connection {
    /// Wakes the receiver when the rest of the flow has arrived, or a large part of it. With `pump`
    /// the kernel discards all of a large rest except its last byte, for which the receiver wakes.
    pub(super) fn expect(&mut self, pump: bool) -> Result<()> {
        let Some(receiver) = &self.receiver else {
            return Ok(());
        };
        if self.to_read < self.told_from || self.told_from == 1 {
            self.told_from = socket::tell_from(receiver, self.to_read)?;
        }
        if pump && self.to_read >= pump::FROM {
            self.receiver_pump
                .discard(receiver, self.to_read - 1)
                .map_err(system("having the kernel discard a flow's bytes"))?;
            self.to_read = 1;
            // The kernel lowers the number as the process would.
            self.told_from = 1;
        }
        Ok(())
    }

    /// Bytes of the flow that the receiver has not taken.
    pub(super) fn missing(&self) -> u64 {
        let receiver = self.receiver.as_ref();
        self.to_read + receiver.map_or(0, |receiver| self.receiver_pump.missing(receiver))
    }
}

/// The purpose of a new connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) pair: Pair,
    /// `None`: opened ahead, for a later flow.
    pub(super) flow: Option<u32>,
    /// Number of earlier connections that were reset.
    pub(super) tries: u32,
    /// Number from which the port is chosen.
    pub(super) number: u64,
}

/// The state of a connection at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Open,
    /// The receiver has closed.
    Closing,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Sender,
    Receiver,
}

/// The subject of an epoll event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Alarm,
    Cancel,
    Listener(u32),
    Connection(Key, Side),
}

/// Names a connection, which may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Below 2^31: a process has no more descriptors.
    index: u32,
    /// Not 0.
    serial: u32,
}

impl Token {
    const ALARM: u64 = u64::MAX;
    const CANCEL: u64 = u64::MAX - 1;

    /// The serial number in the upper half, 0 for a listener; the place and the side in the lower.
    pub(super) fn to_bits(self) -> u64 {
        match self {
            Self::Alarm => Self::ALARM,
            Self::Cancel => Self::CANCEL,
            Self::Listener(host) => u64::from(host),
            Self::Connection(key, side) => {
                let side = u64::from(side == Side::Receiver);
                u64::from(key.serial) << 32 | u64::from(key.index) << 1 | side
            }
        }
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        let lower = bits as u32;
        match (bits, (bits >> 32) as u32) {
            (Self::ALARM, _) => Self::Alarm,
            (Self::CANCEL, _) => Self::Cancel,
            (_, 0) => Self::Listener(lower),
            (_, serial) => {
                let index = lower >> 1;
                let side = if lower & 1 == 0 {
                    Side::Sender
                } else {
                    Side::Receiver
                };
                Self::Connection(Key { index, serial }, side)
            }
        }
    }
}

/// The connections of a run. Dropping the table resets the remaining ones.
#[derive(Debug, Default)]
pub(super) struct Table {
    all: Slab<Connection>,
    /// The last serial number used.
    serial: u32,
    /// Connections that are not accepted yet, by receiver and sender's address.
    awaited: HashMap<(u32, SocketAddr), Key>,
    /// Free connections, the one used last at the end.
    free: HashMap<Pair, Vec<Key>>,
    /// Number of connections that each pair has opened.
    opened: HashMap<Pair, u64>,
}

impl Table {
    pub(super) fn insert(&mut self, opening: Opening, sender: TcpStream, from: SocketAddr) -> Key {
        // Never 0, and never a number that could look like the alarm's token.
        self.serial = self.serial % (u32::MAX - 1) + 1;
        let serial = self.serial;
        let index = self.all.insert(Connection {
            serial,
            opening,
            sender,
            receiver: None,
            from,
            state: State::Connecting,
            flow: opening.flow,
            to_write: 0,
            to_read: 0,
            sender_pump: Pump::default(),
            receiver_pump: Pump::default(),
            told_from: 1,
            selector: 0,
            before: Counters::default(),
        });
        let key = Key {
            index: index as u32,
            serial,
        };
        self.awaited.insert((opening.pair.1, from), key);
        key
    }

    /// `None` if the connection is gone.
    pub(super) fn get(&mut self, key: Key) -> Option<&mut Connection> {
        let connection = self.all.get_mut(key.index as usize)?;
        (connection.serial == key.serial).then_some(connection)
    }

    /// Removes a connection from every list.
    pub(super) fn remove(&mut self, key: Key) -> Option<Connection> {
        self.get(key)?;
        let connection = self.all.try_remove(key.index as usize)?;
        let pair = connection.opening.pair;
        if connection.receiver.is_none() {
            self.awaited.remove(&(pair.1, connection.from));
        } else if connection.flow.is_none()
            && let Some(free) = self.free.get_mut(&pair)
        {
            free.retain(|other| *other != key);
        }
        Some(connection)
    }

    /// The connection of a socket that host `to` has accepted from `from`.
    pub(super) fn accepted(&mut self, to: u32, from: SocketAddr) -> Option<Key> {
        self.awaited.remove(&(to, from))
    }

    /// Marks the connection as free.
    pub(super) fn release(&mut self, key: Key, pair: Pair) {
        self.free.entry(pair).or_default().push(key);
    }

    /// Takes the free connection that was used last.
    pub(super) fn take(&mut self, pair: Pair) -> Option<Key> {
        self.free.get_mut(&pair)?.pop()
    }

    /// Counts a new connection of the pair, and returns its number.
    pub(super) fn count(&mut self, pair: Pair) -> u64 {
        let opened = self.opened.entry(pair).or_insert(0);
        *opened += 1;
        *opened - 1
    }

    /// Connections that carry a flow.
    pub(super) fn busy(&self) -> impl Iterator<Item = (u32, &Connection)> {
        let all = self.all.iter().map(|(_, connection)| connection);
        all.filter_map(|connection| Some((connection.flow?, connection)))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for (_, connection) in &self.all {
            socket::reset_on_close(&connection.sender);
            if let Some(receiver) = &connection.receiver {
                socket::reset_on_close(receiver);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_epoll() {
        let key = |index, serial| Key { index, serial };
        let last = key((1 << 31) - 1, u32::MAX - 1);
        for token in [
            Token::Alarm,
            Token::Cancel,
            Token::Listener(0),
            Token::Listener(u32::MAX),
            Token::Connection(key(0, 1), Side::Sender),
            Token::Connection(key(0, 1), Side::Receiver),
            Token::Connection(last, Side::Sender),
            Token::Connection(last, Side::Receiver),
        ] {
            assert_eq!(Token::from_bits(token.to_bits()), token);
        }
    }
}
