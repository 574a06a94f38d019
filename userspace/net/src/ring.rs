// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dumps of many netlink sockets at once, by `io_uring(7)`.
//!
//! A dump takes a `send` and some `recv`. For the statistics of a large fabric that is thousands of
//! system calls per sample. Here it is a few: one for the requests to all sockets and the first
//! part of each answer, then one for the next part of each.

use std::io;
use std::mem;
use std::os::fd::RawFd;

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types::Fd};

/// Maximum of sockets in a system call: bounds the memory for answers.
const AT_ONCE: usize = 64;

/// A socket's part of an exchange.
#[derive(Debug, Default)]
struct Slot {
    request: Vec<u8>,
    /// Room for the next datagram, and its length.
    datagram: Vec<u8>,
    length: usize,
}

/// A ring, and the memory that the kernel reads and writes.
pub(crate) struct Ring {
    ring: IoUring,
    slots: Vec<Slot>,
}

/// The first error of an exchange.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The index of the socket; `None` if the error concerns all of them.
    pub(crate) place: Option<usize>,
    pub(crate) error: io::Error,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { place: None, error }
    }
}

/// What an entry does, in its `user_data` beside the slot's index.
const SEND: u64 = 0;
const RECEIVE: u64 = 1;

impl Ring {
    /// Returns `None` if the kernel lacks or forbids `io_uring`, as many containers do.
    pub(crate) fn open() -> Option<Self> {
        let ring = IoUring::new(2 * AT_ONCE as u32).ok()?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).ok()?;
        let is_there = [opcode::Send::CODE, opcode::Recv::CODE]
            .iter()
            .all(|&code| probe.is_supported(code));
        is_there.then_some(Self {
            ring,
            slots: Vec::new(),
        })
    }

    /// Sends to each of the sockets its request, and passes the index of a socket and each datagram
    /// of its answer, of at most `largest` bytes, to `each`, which returns whether the answer has
    /// more. It comes to a socket's datagrams in order, and mostly socket by socket.
    ///
    /// # Errors
    ///
    /// If a request cannot be sent or an answer not received. Other answers may be left unread.
    pub(crate) fn exchange(
        &mut self,
        asked: &[(RawFd, &[u8])],
        largest: usize,
        mut each: impl FnMut(usize, &[u8]) -> io::Result<bool>,
    ) -> Result<(), Failure> {
        for (group, asked) in asked.chunks(AT_ONCE).enumerate() {
            let before = AT_ONCE * group;
            self.exchange_at_once(asked, largest, |place, datagram| {
                each(before + place, datagram)
            })
            .map_err(|Failure { place, error }| Failure {
                place: place.map(|place| before + place),
                error,
            })?;
        }
        Ok(())
    }

    fn exchange_at_once(
        &mut self,
        asked: &[(RawFd, &[u8])],
        largest: usize,
        mut each: impl FnMut(usize, &[u8]) -> io::Result<bool>,
    ) -> Result<(), Failure> {
        if self.slots.len() < asked.len() {
            self.slots.resize_with(asked.len(), Slot::default);
        }
        let mut entries = Vec::with_capacity(2 * asked.len());
        let slots = self.slots.iter_mut().enumerate();
        for ((place, slot), &(socket, request)) in slots.zip(asked) {
            slot.request.clear();
            slot.request.extend_from_slice(request);
            slot.datagram.resize(largest, 0);
            // The answer is received only if the request was sent.
            entries.push(slot.send(place, socket).flags(Flags::IO_LINK));
            entries.push(slot.receive(place, socket));
        }
        let mut waiting: Vec<usize> = (0..asked.len()).collect();
        while !waiting.is_empty() {
            self.perform(&entries)?;
            entries.clear();
            let mut failure = None;
            waiting.retain(|&place| {
                let slot = &mut self.slots[place];
                match each(place, &slot.datagram[..slot.length]) {
                    Ok(true) => entries.push(slot.receive(place, asked[place].0)),
                    Ok(false) => return false,
                    Err(error) => {
                        let place = Some(place);
                        failure.get_or_insert(Failure { place, error });
                    }
                }
                true
            });
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Submits the entries and waits for all of them.
    fn perform(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        for entry in entries {
            // SAFETY: The entry's memory is that of a slot. It is neither moved nor freed while the
            // kernel may use it: this function returns after the entry's completion, or forgets
            // the slots.
            let pushed = unsafe { self.ring.submission().push(entry) };
            pushed.map_err(io::Error::other)?;
        }
        let mut left = entries.len();
        let mut first = Ok(());
        while left > 0 {
            match self.ring.submit_and_wait(left) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    mem::forget(mem::take(&mut self.slots));
                    return Err(error.into());
                }
            }
            for completion in self.ring.completion() {
                left -= 1;
                let place = (completion.user_data() / 2) as usize;
                let done =
                    self.slots[place].complete(completion.user_data() % 2, completion.result());
                let place = Some(place);
                first = first.and(done.map_err(|error| Failure { place, error }));
            }
        }
        first
    }
}

impl Slot {
    fn send(&self, place: usize, socket: RawFd) -> Entry {
        opcode::Send::new(Fd(socket), self.request.as_ptr(), self.request.len() as u32)
            .build()
            .user_data(2 * place as u64 + SEND)
    }

    fn receive(&mut self, place: usize, socket: RawFd) -> Entry {
        let (memory, room) = (self.datagram.as_mut_ptr(), self.datagram.len() as u32);
        opcode::Recv::new(Fd(socket), memory, room)
            .build()
            .user_data(2 * place as u64 + RECEIVE)
    }

    fn complete(&mut self, what: u64, result: i32) -> io::Result<()> {
        let length = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))?;
        if what == RECEIVE {
            self.length = length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixDatagram;
    use std::thread;

    use super::*;

    /// A peer that answers each request with as many datagrams as it says.
    fn peer() -> (UnixDatagram, thread::JoinHandle<()>) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let answers = thread::spawn(move || {
            let mut request = [0; 8];
            let length = theirs.recv(&mut request).unwrap();
            for count in (0..request[..length][0]).rev() {
                theirs.send(&[count; 3]).unwrap();
            }
        });
        (ours, answers)
    }

    /// `None` where a ring is forbidden, as by Docker's default profile.
    fn ring() -> Option<Ring> {
        let ring = Ring::open();
        assert_eq!(ring.is_some(), IoUring::new(2).is_ok());
        ring
    }

    #[test]
    fn each_socket_gets_its_request_and_each_datagram_of_its_answer_in_order() {
        let Some(mut ring) = ring() else { return };
        // More sockets than go into a system call.
        let counts: Vec<u8> = (0..AT_ONCE as u8 + 5).map(|place| 1 + place % 3).collect();
        let peers: Vec<_> = counts.iter().map(|_| peer()).collect();
        let requests: Vec<[u8; 1]> = counts.iter().map(|&count| [count]).collect();
        let sockets = peers.iter().map(|(ours, _)| ours.as_raw_fd());
        let asked: Vec<_> = sockets
            .zip(requests.iter().map(<[u8; 1]>::as_slice))
            .collect();
        let mut seen = vec![Vec::new(); counts.len()];
        ring.exchange(&asked, 16, |place, datagram| {
            assert_eq!(datagram.len(), 3);
            seen[place].push(datagram[0]);
            Ok(datagram[0] > 0)
        })
        .unwrap();
        for (seen, count) in seen.iter().zip(counts) {
            assert_eq!(*seen, (0..count).rev().collect::<Vec<_>>());
        }
        for (_, answers) in peers {
            answers.join().unwrap();
        }
    }

    #[test]
    fn an_answer_that_cannot_be_understood_names_its_socket() {
        let Some(mut ring) = ring() else { return };
        let peers: Vec<_> = (0..AT_ONCE + 3).map(|_| peer()).collect();
        let sockets = peers.iter().map(|(ours, _)| ours.as_raw_fd());
        let asked: Vec<_> = sockets.map(|socket| (socket, &[1][..])).collect();
        let failure = ring
            .exchange(&asked, 16, |place, _| match place {
                66 => Err(io::ErrorKind::InvalidData.into()),
                _ => Ok(false),
            })
            .unwrap_err();
        assert_eq!(failure.place, Some(66));
        for (_, answers) in peers {
            answers.join().unwrap();
        }
    }

    #[test]
    fn after_a_request_that_cannot_be_sent_the_ring_goes_on() {
        let Some(mut ring) = ring() else { return };
        let (closed, theirs) = UnixDatagram::pair().unwrap();
        drop(theirs);
        let (fine, answers) = peer();
        let asked = [&fine, &closed].map(|socket| (socket.as_raw_fd(), &[1][..]));
        let failure = ring.exchange(&asked, 16, |_, _| Ok(false)).unwrap_err();
        assert_eq!(failure.place, Some(1));
        assert_eq!(failure.error.kind(), io::ErrorKind::ConnectionRefused);
        answers.join().unwrap();
        let (again, answers) = peer();
        let mut datagrams = 0;
        ring.exchange(&[(again.as_raw_fd(), &[1])], 16, |_, _| {
            datagrams += 1;
            Ok(false)
        })
        .unwrap();
        assert_eq!(datagrams, 1);
        answers.join().unwrap();
    }
}
