// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The packets that a host sends to others by each path, and the losses among those that it
//! receives (§5.2).
//!
//! "Because Fastpass maintains low queue occupancies, it can use packet drops to detect network
//! faults. […] The path each packet traverses is known to the endpoints, which helps localize the
//! fault." Only the receiver can detect a loss, and only if it knows which packets should arrive.
//! So each packet has a sequence **number**: how many packets its sender has sent to this
//! destination by this path, modulo 2^16. Packets of one path do not overtake each other, so a gap
//! is a loss. If a path loses all packets, the receiver sees no gap; the sender's count then
//! reveals the losses.
//!
//! Both ends report to the arbiter, for each other endpoint and each path, totals modulo 2^16:
//! packets **sent** to it; the number of the latest packet **seen** from it; packets **lost**
//! before that one. As with demands, a repeated total has no effect, and the next report makes up
//! for a lost one. A packet sent before some time is lost, unless it is still under way, if it is
//! not among those seen, or is among those lost: `lost + (sent - seen)`, where the receiver's part
//! is from a later time than the sender's.
//!
//! Reports omit idle endpoints: those from which nothing was seen, and to which nothing was sent,
//! for some reports.

use super::frame::{Entry, ENTRIES};
use crate::common::store::Store;

/// The number of reports that include an endpoint after the latest packet from it or to it. One of
/// them arrives even if a third of them is lost.
pub const ROUNDS: u8 = 8;

/// A packet whose number is at most this far before the latest one was counted as lost. If it is
/// further before, its sender has restarted.
const LATE: u16 = 64;

/// The state of another endpoint on one path. All modulo 2^16.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Packets sent to it.
    sent: u16,
    /// The number of the latest packet that arrived from it.
    seen: u16,
    /// Packets that should have arrived before that one.
    lost: u16,
}

/// The state of all other endpoints on all paths.
pub struct Ledger<S: Store> {
    paths: u16,
    /// By endpoint, and by path.
    cells: S::Of<Cell>,
    /// By endpoint: the remaining reports that include it.
    rounds: S::Of<u8>,
    /// Endpoints for which that is not 0.
    active: u32,
    /// Where the next report begins.
    next: (usize, u16),
    /// When the next report is due, if any endpoint is active.
    at: u64,
    /// Packets found to be lost.
    lost: u64,
}

impl<S: Store> Ledger<S> {
    /// For this many endpoints and paths; without paths it stores nothing.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(count: u16, paths: u16) -> Result<Self, S::Error> {
        let count = match paths {
            0 => 0,
            _ => usize::from(count),
        };
        let cell = Cell {
            sent: 0,
            seen: 0,
            lost: 0,
        };
        Ok(Self {
            paths,
            cells: S::allocate(count.wrapping_mul(paths.into()), || cell)?,
            rounds: S::allocate(count, || 0)?,
            active: 0,
            next: (0, 0),
            at: 0,
            lost: 0,
        })
    }

    /// The number of paths; 0: nothing is stored.
    #[inline]
    pub fn paths(&self) -> u16 {
        self.paths
    }

    /// Packets found to be lost, of all endpoints and paths.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    #[inline]
    fn cell(&mut self, now: u64, endpoint: u16, path: u16) -> Option<&mut Cell> {
        if path >= self.paths {
            return None;
        }
        let endpoint = usize::from(endpoint);
        let rounds = self.rounds.get_mut(endpoint)?;
        if *rounds == 0 {
            if self.active == 0 {
                self.at = now;
            }
            self.active = self.active.wrapping_add(1);
        }
        *rounds = ROUNDS;
        let place = endpoint.wrapping_mul(self.paths.into());
        self.cells.get_mut(place.wrapping_add(path.into()))
    }

    /// A packet is sent; returns its number. `None` if there is no such endpoint or path.
    #[inline]
    pub fn send(&mut self, now: u64, to: u16, path: u16) -> Option<u16> {
        let cell = self.cell(now, to, path)?;
        cell.sent = cell.sent.wrapping_add(1);
        Some(cell.sent)
    }

    /// A packet has arrived.
    #[inline]
    pub fn arrive(&mut self, now: u64, from: u16, path: u16, number: u16) {
        let Some(cell) = self.cell(now, from, path) else {
            return;
        };
        let ahead = number.wrapping_sub(cell.seen);
        let behind = cell.seen.wrapping_sub(number);
        if (1..1 << 15).contains(&ahead) {
            let missing = ahead.wrapping_sub(1);
            cell.lost = cell.lost.wrapping_add(missing);
            cell.seen = number;
            self.lost = self.lost.wrapping_add(missing.into());
        } else if (1..=LATE).contains(&behind) {
            cell.lost = cell.lost.wrapping_sub(1);
            self.lost = self.lost.saturating_sub(1);
        } else if behind > LATE {
            cell.seen = number;
        }
    }

    /// When a report is due, if at all.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        (self.active > 0).then_some(self.at)
    }

    /// Fills in the report, and returns the number of its entries; the next report is due at
    /// `next`.
    pub fn report(&mut self, next: u64, entries: &mut [Entry; ENTRIES]) -> usize {
        self.at = next;
        let (mut endpoint, mut path) = self.next;
        let mut filled = 0_usize;
        // Each endpoint at most once.
        for _ in 0..self.rounds.len() {
            let Some(rounds) = self.rounds.get_mut(endpoint) else {
                break;
            };
            if *rounds > 0 {
                let first = endpoint.wrapping_mul(self.paths.into());
                while path < self.paths {
                    let place = first.wrapping_add(path.into());
                    let (Some(entry), Some(cell)) =
                        (entries.get_mut(filled), self.cells.get(place))
                    else {
                        self.next = (endpoint, path);
                        return filled;
                    };
                    *entry = Entry {
                        peer: endpoint as u16,
                        path: path as u8,
                        sent: cell.sent,
                        seen: cell.seen,
                        lost: cell.lost,
                    };
                    filled = filled.wrapping_add(1);
                    path = path.wrapping_add(1);
                }
                *rounds = rounds.wrapping_sub(1);
                if *rounds == 0 {
                    self.active = self.active.wrapping_sub(1);
                }
                if self.active == 0 {
                    break;
                }
            }
            (endpoint, path) = (endpoint.wrapping_add(1), 0);
            if endpoint >= self.rounds.len() {
                endpoint = 0;
            }
        }
        self.next = (endpoint, path);
        filled
    }
}
