// SPDX-License-Identifier: MIT OR Apache-2.0

//! Declares an application's flow: the socket options of weft's level,
//! [`weft_ebpf_common::sockopt`].
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! let mut stream = std::net::TcpStream::connect("10.0.0.2:80")?;
//! weft_socket::flow_size(&stream, 3_000_000)?;
//! std::io::Write::write_all(&mut stream, &[0; 3_000_000])
//! # }
//! ```
//!
//! In other languages it takes one line:
//!
//! ```python
//! s.setsockopt(0x77656674, 1, struct.pack("=Q", 3000000))
//! ```
//!
//! ```c
//! setsockopt(fd, 0x77656674, 1, &(uint64_t){3000000}, 8);
//! ```
//!
//! It needs no privilege, but weft's programs must be attached to the cgroup in which the socket
//! was created.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use weft_ebpf_common::sockopt;

/// Declares a flow of `bytes`: it begins with the next byte written to the TCP or UDP socket. 0
/// clears the declaration.
///
/// # Errors
///
/// `EINVAL` for more than 2^40 bytes, `ENOPROTOOPT` if weft's programs are not attached to the
/// socket's cgroup.
pub fn flow_size(socket: impl AsFd, bytes: u64) -> io::Result<()> {
    set(socket, sockopt::FLOW_SIZE, bytes)
}

/// Declares the flow's deadline in ns of `CLOCK_MONOTONIC`. 0 clears it.
///
/// # Errors
///
/// `EINVAL` for a time that has passed or is more than a day away, `ENOPROTOOPT` as
/// [`flow_size`].
pub fn deadline(socket: impl AsFd, monotonic_ns: u64) -> io::Result<()> {
    set(socket, sockopt::DEADLINE, monotonic_ns)
}

/// Declares the flow's deadline as a time from now, in whole ns.
///
/// # Errors
///
/// `EINVAL` for no time at all and for more than a day, `ENOPROTOOPT` as [`flow_size`].
pub fn deadline_in(socket: impl AsFd, time: Duration) -> io::Result<()> {
    match u64::try_from(time.as_nanos()) {
        Ok(ns @ 1..) => set(socket, sockopt::DEADLINE_IN, ns),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Declares the flow's class: its priority group, or the label of its incast; 0 to 255.
///
/// # Errors
///
/// `EINVAL` for more than 255, `ENOPROTOOPT` as [`flow_size`].
pub fn class(socket: impl AsFd, class: u32) -> io::Result<()> {
    set(socket, sockopt::CLASS, class)
}

/// The declared size of the flow in bytes; 0 if there is none.
///
/// # Errors
///
/// The kernel's own (`EOPNOTSUPP` or `ENOPROTOOPT`) if weft's programs are not attached to the
/// socket's cgroup.
pub fn get_flow_size(socket: impl AsFd) -> io::Result<u64> {
    get(socket, sockopt::FLOW_SIZE)
}

/// The declared deadline of the flow in ns of `CLOCK_MONOTONIC`; 0 if there is none.
///
/// # Errors
///
/// The kernel's own (`EOPNOTSUPP` or `ENOPROTOOPT`) if weft's programs are not attached to the
/// socket's cgroup.
pub fn get_deadline(socket: impl AsFd) -> io::Result<u64> {
    get(socket, sockopt::DEADLINE)
}

/// The declared class of the flow.
///
/// # Errors
///
/// The kernel's own (`EOPNOTSUPP` or `ENOPROTOOPT`) if weft's programs are not attached to the
/// socket's cgroup.
pub fn get_class(socket: impl AsFd) -> io::Result<u32> {
    get(socket, sockopt::CLASS)
}

/// Sets an option of any level with a `u32` value.
///
/// # Errors
///
/// If the kernel refuses.
pub fn set_u32(socket: impl AsFd, level: i32, option: i32, value: u32) -> io::Result<()> {
    set_option(socket, level, option, value)
}

/// A number: any bit pattern is valid.
trait Number: Copy + Default {}
impl Number for u32 {}
impl Number for u64 {}

fn set<T: Number>(socket: impl AsFd, option: i32, value: T) -> io::Result<()> {
    set_option(socket, sockopt::LEVEL, option, value)
}

fn set_option<T: Number>(socket: impl AsFd, level: i32, option: i32, value: T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: The kernel reads `size` bytes of `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn get<T: Number>(socket: impl AsFd, option: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: The kernel writes at most `size` bytes of `value`, which is a number.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            sockopt::LEVEL,
            option,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_programs_the_kernel_knows_no_such_option() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let refused = |result: io::Result<()>| result.unwrap_err().raw_os_error();
        assert_eq!(refused(flow_size(&socket, 1)), Some(libc::ENOPROTOOPT));
        assert_eq!(
            refused(get_flow_size(&socket).map(drop)),
            Some(libc::EOPNOTSUPP)
        );
    }

    #[test]
    fn a_deadline_that_is_no_time_away_is_refused_here() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = deadline_in(&socket, Duration::ZERO).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
