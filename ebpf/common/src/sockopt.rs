// SPDX-License-Identifier: MIT OR Apache-2.0

//! Socket options by which an application, privileged or not, declares the flow that it will send
//! on a TCP or UDP socket:
//!
//! ```python
//! s.setsockopt(0x77656674, 1, struct.pack("=Q", size))
//! ```
//!
//! ```c
//! setsockopt(fd, 0x77656674, 1, &(uint64_t){size}, 8);
//! ```
//!
//! | option                           | value | meaning                        | range            |
//! |----------------------------------|-------|--------------------------------|------------------|
//! | 1 [`FLOW_SIZE`]                  | `u64` | bytes of the flow              | 0 to 2^40        |
//! | 2 [`DEADLINE`]                   | `u64` | ns of `CLOCK_MONOTONIC`        | 0, now to a day  |
//! | 3 [`DEADLINE_IN`]                | `u64` | ns from now                    | 0 to a day       |
//! | 4 [`CLASS`]                      | `u32` | priority group or incast label | 0 to 255         |
//!
//! 0 clears a declaration. The flow begins with the next byte that is written after `FLOW_SIZE` was
//! set. `getsockopt` returns the declared value; `FLOW_SIZE` of an undeclared flow is 0.
//!
//! Errors: `EINVAL` for a value out of range or of another size, and `EPERM` for another option of
//! this level. If weft's programs are not attached to the socket's cgroup, the kernel's own
//! `ENOPROTOOPT` (for `getsockopt` on IPv4 sockets: `EOPNOTSUPP`). A socket belongs to the cgroup
//! in which it was created.

/// The level: "weft" in ASCII.
pub const LEVEL: i32 = 0x7765_6674;

/// Bytes of the flow, `u64`.
pub const FLOW_SIZE: i32 = 1;
/// Absolute deadline, `u64`.
pub const DEADLINE: i32 = 2;
/// Relative deadline, `u64`.
pub const DEADLINE_IN: i32 = 3;
/// Priority group or incast label, `u32`.
pub const CLASS: i32 = 4;

/// Largest flow size in bytes.
pub const MAX_FLOW_SIZE: u64 = 1 << 40;
/// Farthest deadline in ns from now: a day.
pub const MAX_DEADLINE_IN: u64 = 86_400_000_000_000;
/// Largest class.
pub const MAX_CLASS: u32 = 255;
