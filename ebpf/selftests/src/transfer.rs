// SPDX-License-Identifier: MIT OR Apache-2.0

//! Transfers bytes from one namespace to another, and checks them on arrival.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use weft_ktap::Namespace;

/// Byte number `index` of every transfer.
fn byte(index: usize) -> u8 {
    (index % 251) as u8 ^ (index / 65_536) as u8
}

/// The first `length` bytes of every transfer.
pub(crate) fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(byte).collect()
}

/// Receives until the end of the stream, checks each byte, and returns the number of bytes.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    thread: JoinHandle<Result<usize>>,
}

impl Sink {
    pub(crate) fn start(namespace: &Namespace, address: IpAddr) -> Result<Self> {
        let listener = namespace.enter(|| TcpListener::bind((address, 0)))??;
        let address = listener.local_addr()?;
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            let mut buffer = vec![0; 1 << 16];
            let mut count = 0;
            loop {
                let length = stream.read(&mut buffer)?;
                if length == 0 {
                    return Ok(count);
                }
                for (index, got) in (count..).zip(&buffer[..length]) {
                    ensure!(*got == byte(index), "byte {index} of the stream is wrong");
                }
                count += length;
            }
        });
        Ok(Self { address, thread })
    }

    pub(crate) fn connect(&self, from: &Namespace) -> Result<TcpStream> {
        from.enter(|| TcpStream::connect(self.address))?
            .context("connecting")
    }

    pub(crate) fn finish(self, stream: TcpStream, expected: usize) -> Result<()> {
        drop(stream);
        let count = self
            .thread
            .join()
            .map_err(|_| anyhow::anyhow!("the sink panicked"))??;
        ensure!(count == expected, "{count} of {expected} bytes arrived");
        Ok(())
    }
}

/// Sends `size` bytes as one flow with a declared size.
pub(crate) fn send(
    from: &Namespace,
    to: &Namespace,
    address: IpAddr,
    size: usize,
) -> Result<SocketAddr> {
    let sink = Sink::start(to, address)?;
    let mut stream = sink.connect(from)?;
    weft_socket::flow_size(&stream, size as u64).context("saying the flow's size")?;
    stream.write_all(&bytes(size))?;
    let address = sink.address;
    sink.finish(stream, size)?;
    Ok(address)
}

/// Delivers a datagram; afterwards both ends know their neighbours.
///
/// A link that has just come up may lose packets for a second or more, because `linkwatch` handles
/// its events once a second. A lost neighbour solicitation is repeated after another second.
pub(crate) fn reach(from: &Namespace, to: &Namespace, address: IpAddr) -> Result<()> {
    let receiver = to.enter(|| UdpSocket::bind((address, 0)))??;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let any = if address.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let sender = from.enter(|| UdpSocket::bind(any))??;
    for _ in 0..100 {
        sender.send_to(b"hello", receiver.local_addr()?)?;
        let mut buffer = [0; 9];
        if receiver
            .recv(&mut buffer)
            .is_ok_and(|length| &buffer[..length] == b"hello")
        {
            return Ok(());
        }
    }
    anyhow::bail!("{address} cannot be reached")
}
