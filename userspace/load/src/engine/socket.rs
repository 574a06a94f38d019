// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP sockets: creation, writes, reads without a copy, and statistics.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SetSockOpt, SockFlag, SockType, SockaddrStorage, bind,
    connect, getsockopt, listen as start_listening, send, setsockopt, socket, sockopt,
};

use super::{Config, system};
use crate::error::{Error, Result, invalid};

/// A listening socket in the thread's namespace.
pub(super) fn listen(address: SocketAddr, config: &Config) -> Result<TcpListener> {
    let socket = new(address.ip(), config)?;
    // Accepted sockets inherit the buffer from the listener, and the window scale follows from it.
    if let Some(bytes) = config.receive_buffer {
        buffer(
            &socket,
            &Buffer {
                name: "SO_RCVBUF",
                bytes,
                forced: sockopt::RcvBufForce,
                plain: sockopt::RcvBuf,
                limit: "net.core.rmem_max",
            },
            |socket| getsockopt(socket, sockopt::RcvBuf),
        )?;
    }
    let failed = |errno: Errno| Error::System {
        doing: format!("listening on {address}"),
        error: errno.into(),
    };
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).map_err(failed)?;
    // As many as net.core.somaxconn allows: a full queue delays a connection by a second.
    start_listening(&socket, Backlog::MAXALLOWABLE).map_err(failed)?;
    Ok(socket.into())
}

/// An unbound socket to send from, in the thread's namespace.
pub(super) fn sender(from: IpAddr, config: &Config) -> Result<OwnedFd> {
    let socket = new(from, config)?;
    if let Some(bytes) = config.send_buffer {
        buffer(
            &socket,
            &Buffer {
                name: "SO_SNDBUF",
                bytes,
                forced: sockopt::SndBufForce,
                plain: sockopt::SndBuf,
                limit: "net.core.wmem_max",
            },
            |socket| getsockopt(socket, sockopt::SndBuf),
        )?;
    }
    // Sends a flow's last segment without waiting for acknowledgements.
    setsockopt(&socket, sockopt::TcpNoDelay, &true).map_err(system("setting TCP_NODELAY"))?;
    Ok(socket)
}

fn new(address: IpAddr, config: &Config) -> Result<OwnedFd> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Stream, flags, None)
        .map_err(|errno| no_descriptor("making a socket", errno))?;
    // Connections in TIME-WAIT must not block a port.
    setsockopt(&socket, sockopt::ReuseAddr, &true).map_err(system("setting SO_REUSEADDR"))?;
    if let Some(name) = &config.congestion_control {
        setsockopt(&socket, sockopt::TcpCongestion, &name.into()).map_err(|errno| {
            let cure = match errno {
                Errno::ENOENT => ": is its module loaded?",
                Errno::EPERM => {
                    ": without CAP_NET_ADMIN it must be in net.ipv4.tcp_allowed_congestion_control"
                }
                _ => "",
            };
            Error::System {
                doing: format!("choosing the congestion control {name}{cure}"),
                error: errno.into(),
            }
        })?;
    }
    Ok(socket)
}

/// The error of a failed socket creation.
pub(super) fn no_descriptor(doing: &str, error: impl Into<io::Error>) -> Error {
    let error = error.into();
    let cure = match error.raw_os_error() {
        Some(libc::EMFILE) => " (each active flow needs two descriptors: raise `ulimit -n`)",
        Some(libc::ENFILE) => " (the system has no descriptor left: raise fs.file-max)",
        _ => "",
    };
    Error::System {
        doing: format!("{doing}{cure}"),
        error,
    }
}

struct Buffer<Forced, Plain> {
    name: &'static str,
    bytes: NonZeroU32,
    forced: Forced,
    plain: Plain,
    /// The sysctl that limits the unprivileged option.
    limit: &'static str,
}

/// Sets a buffer size, beyond the kernel's limit if privileges allow. Fails if the kernel takes
/// less, which it would do silently.
fn buffer<Forced, Plain>(
    socket: &OwnedFd,
    wanted: &Buffer<Forced, Plain>,
    get: impl FnOnce(&OwnedFd) -> nix::Result<usize>,
) -> Result<()>
where
    Forced: SetSockOpt<Val = usize> + Copy,
    Plain: SetSockOpt<Val = usize> + Copy,
{
    let Buffer { name, bytes, .. } = wanted;
    let value = bytes.get() as usize;
    if bytes.get() > i32::MAX.unsigned_abs() / 2 {
        return invalid(format!("{name} of {bytes} bytes: expected less than 1 GiB"));
    }
    setsockopt(socket, wanted.forced, &value)
        .or_else(|_| setsockopt(socket, wanted.plain, &value))
        .map_err(system(name))?;
    // The kernel doubles the value for its own bookkeeping.
    let got = get(socket).map_err(system(name))?;
    if got < 2 * value {
        return invalid(format!(
            "{name} of {bytes} bytes: the kernel allows {}, raise {}",
            got / 2,
            wanted.limit
        ));
    }
    Ok(())
}

/// Declares a flow's size in bytes and its class, 0 to 255, to weft's programs.
pub(super) fn declare(socket: impl AsFd, bytes: u64, class: u32) -> Result<()> {
    let said =
        weft_socket::flow_size(&socket, bytes).and_then(|()| weft_socket::class(&socket, class));
    said.map_err(|error| Error::System {
        doing: match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => {
                "declaring a flow's size (weft's programs are not attached to this process's \
                 cgroup: attach them, or do not declare sizes)"
                    .to_owned()
            }
            _ => format!("declaring a flow's size of {bytes} bytes"),
        },
        error,
    })
}

/// Declares a flow's deadline, from now, to weft's programs. If it has passed, declares 1 ns.
/// `None` clears the declaration of an earlier flow.
pub(super) fn declare_deadline(socket: impl AsFd, time: Option<Duration>) -> Result<()> {
    let said = match time {
        Some(time) => weft_socket::deadline_in(socket, time.max(Duration::from_nanos(1))),
        None => weft_socket::deadline(socket, 0),
    };
    said.map_err(system("declaring a flow's deadline"))
}

/// Gives the socket's packets a class selector, 0 to 7: the upper three bits of the IPv4 TOS or the
/// IPv6 traffic class (RFC 2474, §4.2.2). The two lower bits are ECN's, and stay.
pub(super) fn mark(socket: impl AsFd, address: IpAddr, selector: u8) -> Result<()> {
    let octet = i32::from(selector) << 5;
    let set = match address {
        IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4Tos, &octet),
        IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6TClass, &octet),
    };
    set.map_err(system("setting the class selector of a flow's packets"))
}

/// Binds and begins to connect. `EADDRINUSE` and `EADDRNOTAVAIL` mean: try another port.
pub(super) fn begin_connect(socket: &OwnedFd, from: SocketAddr, to: SocketAddr) -> nix::Result<()> {
    bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Err(Errno::EINPROGRESS) => Ok(()),
        result => result,
    }
}

/// Sends the acknowledgement that completes the handshake with the first data, which has to follow
/// at once. On its own it would occupy the wire when the flow begins, and the flow's first byte
/// would wait for it: 84 bytes of wire, more than a hundredth of a short flow's time.
pub(super) fn acknowledge_with_data(socket: &OwnedFd) -> Result<()> {
    let off = 0_u32;
    weft_socket::set_u32(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, off)
        .map_err(system("setting TCP_QUICKACK"))
}

/// Probes the peer's window. The window in a SYN is never scaled (RFC 7323, §2.2), so a fresh
/// connection knows of 64 kB at most, and its first flow would wait for an acknowledgement after
/// that many bytes. Returns whether the probe was sent, which requires CAP_NET_ADMIN.
pub(super) fn ask_window(socket: &TcpStream) -> bool {
    let set =
        |repair: u32| weft_socket::set_u32(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, repair);
    // When repair mode ends, the kernel probes the window.
    let asked = set(1).and_then(|()| set(0)).is_ok();
    // Repair mode clears this option.
    let _ = setsockopt(socket, sockopt::ReuseAddr, &true);
    asked
}

/// Writes as much as fits; `more` says that more bytes follow.
pub(super) fn write(socket: &TcpStream, bytes: &[u8], more: bool) -> nix::Result<usize> {
    let mut flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    // Lets the kernel fill segments across writes.
    flags.set(MsgFlags::from_bits_retain(libc::MSG_MORE), more);
    send(socket.as_raw_fd(), bytes, flags)
}

/// Takes up to `bytes` from the socket and discards them; returns 0 at the connection's end.
pub(super) fn discard(socket: &TcpStream, bytes: u64) -> nix::Result<u64> {
    let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(1 << 30);
    // SAFETY: With MSG_TRUNC, TCP sockets take bytes off the queue and write none (tcp(7)); a write
    // to null would be refused with EFAULT.
    let result = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            most,
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        )
    };
    Errno::result(result).map(|read| read.unsigned_abs() as u64)
}

/// Maximum of unread bytes before the receiver wakes.
const UNREAD: u64 = 64 << 10;

/// Makes the socket readable once this many bytes have arrived (`SO_RCVLOWAT`), rather than at each
/// packet: a wakeup per packet costs as much as the packet. Returns the number that was set. It is
/// less than requested if the request is a large part of the receive buffer, because unread bytes
/// narrow the window.
pub(super) fn tell_from(socket: &TcpStream, bytes: u64) -> Result<u64> {
    let buffer = getsockopt(socket, sockopt::RcvBuf).map_err(system("reading SO_RCVBUF"))?;
    let bytes = bytes.min(UNREAD).min(buffer as u64 / 16).max(1);
    weft_socket::set_u32(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes as u32)
        .map_err(system("setting SO_RCVLOWAT"))?;
    Ok(bytes)
}

/// Makes the next close a reset that discards unsent bytes.
pub(super) fn reset_on_close(socket: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // It cannot fail on a TCP socket. If it did, the connection would close in the usual way.
    let _ = setsockopt(socket, sockopt::Linger, &linger);
}

/// A sender's counters since its connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) retransmissions: u32,
    /// Of these, segments that the receiver reported as duplicates (D-SACK, RFC 2883); `None`: the
    /// connection has no selective acknowledgements.
    pub(super) spurious: Option<u32>,
    pub(super) timeouts: Option<u16>,
    pub(super) receive_window_limited_us: u64,
    pub(super) send_buffer_limited_us: u64,
    /// Not a counter: the current window in segments.
    pub(super) congestion_window: u32,
}

/// The part of `struct tcp_info` that is used here (include/uapi/linux/tcp.h).
struct TcpInfo {
    bytes: [u8; Self::SIZE],
    /// Number of bytes that this kernel filled in.
    known: usize,
}

impl TcpInfo {
    const SIZE: usize = 256;
    const OPTIONS: usize = 5;
    const SND_CWND: usize = 80;
    const TOTAL_RETRANS: usize = 100;
    const RWND_LIMITED: usize = 176;
    const SNDBUF_LIMITED: usize = 184;
    const DSACK_DUPS: usize = 216;
    const TOTAL_RTO: usize = 240;
    /// Flag of `OPTIONS`: selective acknowledgements.
    const SACK: u8 = 2;

    fn of(socket: &TcpStream) -> io::Result<Self> {
        let mut bytes = [0; Self::SIZE];
        let mut known = Self::SIZE as libc::socklen_t;
        // SAFETY: The kernel writes at most `known` bytes, which is the size of `bytes`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut known,
            )
        };
        Errno::result(result)?;
        Ok(Self {
            bytes,
            known: known as usize,
        })
    }

    fn field<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.bytes
            .get(..self.known)?
            .get(offset..)?
            .first_chunk()
            .copied()
    }
}

/// A sender's counters; all 0 if the kernel does not report them.
pub(super) fn counters(sender: &TcpStream) -> Counters {
    let Ok(info) = TcpInfo::of(sender) else {
        return Counters::default();
    };
    let word = |offset| info.field(offset).map_or(0, u32::from_ne_bytes);
    let long = |offset| info.field(offset).map_or(0, u64::from_ne_bytes);
    let has_sack = info
        .field(TcpInfo::OPTIONS)
        .is_some_and(|[options]| options & TcpInfo::SACK != 0);
    Counters {
        retransmissions: word(TcpInfo::TOTAL_RETRANS),
        spurious: has_sack.then(|| word(TcpInfo::DSACK_DUPS)),
        timeouts: info.field(TcpInfo::TOTAL_RTO).map(u16::from_ne_bytes),
        receive_window_limited_us: long(TcpInfo::RWND_LIMITED),
        send_buffer_limited_us: long(TcpInfo::SNDBUF_LIMITED),
        congestion_window: word(TcpInfo::SND_CWND),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, poll};
    use std::io::Write as _;
    use std::mem::offset_of;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (sender, listener.accept().unwrap().0)
    }

    #[test]
    fn fields_are_where_libc_has_them() {
        assert_eq!(TcpInfo::SND_CWND, offset_of!(libc::tcp_info, tcpi_snd_cwnd));
        assert_eq!(
            TcpInfo::TOTAL_RETRANS,
            offset_of!(libc::tcp_info, tcpi_total_retrans)
        );
    }

    #[test]
    fn a_new_connection_has_a_window_and_no_retransmission() {
        let (sender, _receiver) = connected();
        let counters = counters(&sender);
        assert!(counters.congestion_window >= 2);
        assert_eq!(counters.retransmissions, 0);
        assert!(counters.timeouts.is_none_or(|timeouts| timeouts == 0));
    }

    #[test]
    fn a_connection_has_its_peers_window_before_any_data() {
        const SND_WND: usize = 228;
        let flags = SockFlag::SOCK_CLOEXEC;
        let listener = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        setsockopt(&listener, sockopt::RcvBuf, &(1 << 20)).unwrap();
        let any: std::net::SocketAddrV4 = "127.0.0.1:0".parse().unwrap();
        bind(listener.as_raw_fd(), &SockaddrStorage::from(any)).unwrap();
        start_listening(&listener, Backlog::MAXALLOWABLE).unwrap();
        let listener = TcpListener::from(listener);
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _receiver = listener.accept().unwrap();
        let window = || TcpInfo::of(&sender).unwrap().field(SND_WND);
        let window = || window().map_or(0, u32::from_ne_bytes);
        assert!(window() <= 65_535, "{}", window());
        let asked = ask_window(&sender);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while asked && window() <= 65_535 && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(window() > 65_535, asked, "{}", window());
    }

    #[test]
    fn discard_removes_exactly_the_given_bytes() {
        let (mut sender, receiver) = connected();
        sender.write_all(&[7; 100]).unwrap();
        let mut first = [0];
        // Waits until the bytes have arrived.
        receiver.peek(&mut first).unwrap();
        assert_eq!(discard(&receiver, 60), Ok(60));
        assert_eq!(discard(&receiver, 1 << 40), Ok(40));
        assert_eq!(discard(&receiver, 1), Err(Errno::EAGAIN));
        drop(sender);
        receiver.peek(&mut first).unwrap();
        assert_eq!(discard(&receiver, 1), Ok(0));
    }

    #[test]
    fn the_receiver_is_woken_when_the_requested_bytes_have_arrived() {
        let (mut sender, receiver) = connected();
        let readable = |wait: u16| {
            let mut fds = [PollFd::new(receiver.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, wait).unwrap() == 1
        };
        assert_eq!(tell_from(&receiver, 1_000).unwrap(), 1_000);
        sender.write_all(&[7; 999]).unwrap();
        // They have arrived, and the socket is not readable.
        receiver.peek(&mut [0]).unwrap();
        assert!(!readable(0));
        sender.write_all(&[7]).unwrap();
        assert!(readable(10_000));
        assert_eq!(discard(&receiver, 1 << 20), Ok(1_000));
        assert!(tell_from(&receiver, 1 << 40).unwrap() <= UNREAD);
        // The end makes it readable, however few bytes there are.
        drop(sender);
        assert!(readable(10_000));
    }

    #[test]
    fn a_buffer_is_as_large_as_asked_or_refused() {
        let config = |bytes| Config {
            send_buffer: NonZeroU32::new(bytes),
            ..Config::default()
        };
        let from = "127.0.0.1".parse().unwrap();
        let socket = sender(from, &config(10_000)).unwrap();
        assert_eq!(getsockopt(&socket, sockopt::SndBuf), Ok(20_000));
        let refused = sender(from, &config(1 << 30)).unwrap_err().to_string();
        assert!(refused.contains("expected less than 1 GiB"), "{refused}");
    }

    #[test]
    fn a_class_selector_is_in_the_upper_three_bits() {
        for selector in [0, 3, 7, 1] {
            let address = "127.0.0.1".parse().unwrap();
            let socket = sender(address, &Config::default()).unwrap();
            mark(&socket, address, selector).unwrap();
            let tos = getsockopt(&socket, sockopt::Ipv4Tos);
            assert_eq!(tos, Ok(i32::from(selector) << 5));
            let address = "::1".parse().unwrap();
            let socket = sender(address, &Config::default()).unwrap();
            mark(&socket, address, selector).unwrap();
            let traffic_class = getsockopt(&socket, sockopt::Ipv6TClass);
            assert_eq!(traffic_class, Ok(i32::from(selector) << 5));
        }
    }

    #[test]
    fn an_unknown_congestion_control_is_refused_by_name() {
        let config = Config {
            congestion_control: Some("no_such".into()),
            ..Config::default()
        };
        let refused = sender("127.0.0.1".parse().unwrap(), &config).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.starts_with("choosing the congestion control no_such: is its module loaded?"),
            "{refused}"
        );
    }
}
