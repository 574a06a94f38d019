// SPDX-License-Identifier: MIT OR Apache-2.0

//! Traffic for weft's fabrics. So far: how an application tells about its flow.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! let mut stream = std::net::TcpStream::connect("10.0.0.2:80")?;
//! weft_load::flow_size(&stream, 3_000_000)?;
//! std::io::Write::write_all(&mut stream, &[0; 3_000_000])
//! # }
//! ```
//!
//! In other languages it is one line:
//!
//! ```python
//! s.setsockopt(0x77656674, 1, struct.pack("=Q", 3000000))
//! ```
//!
//! ```c
//! setsockopt(fd, 0x77656674, 1, &(uint64_t){3000000}, 8);
//! ```
//!
//! It takes no privilege, but weft's programs on the cgroup in which the socket was made.

mod flow;

pub use flow::{class, deadline, deadline_in, flow_size, get_class, get_deadline, get_flow_size};
