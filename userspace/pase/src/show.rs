// SPDX-License-Identifier: MIT OR Apache-2.0

//! What arbitrators know, for whoever asks in their network namespace: an abstract Unix socket, which is
//! that of a namespace as addresses are.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;
use weft_pase::arbitrators::{Arbitrators, Counters, Seen, SeenFlow};

const NAME: &str = "weft-pase";

/// All that is told.
#[derive(Serialize)]
struct Told<'a> {
    node: &'a str,
    counters: Counters,
    links: Vec<Seen>,
    flows: Vec<SeenFlow>,
}

/// Where those who ask come.
pub(crate) struct Listener(UnixListener);

impl Listener {
    pub(crate) fn open() -> Result<Self> {
        let address = SocketAddr::from_abstract_name(NAME)?;
        let listener = UnixListener::bind_addr(&address)
            .context("one serves already in this network namespace")?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    pub(crate) fn accept(&self) -> Option<UnixStream> {
        let (stream, _) = self.0.accept().ok()?;
        // It is told what fits; nobody holds up messages.
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One line of JSON.
pub(crate) fn told(node: &str, arbitrators: &Arbitrators, now: u64) -> Result<Vec<u8>> {
    let told = Told {
        node,
        counters: arbitrators.counters(),
        links: arbitrators.links(),
        flows: arbitrators.flows(now),
    };
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    Ok(line)
}

/// Asks, and prints.
pub(crate) fn print(json: bool) -> Result<()> {
    let address = SocketAddr::from_abstract_name(NAME)?;
    let connecting = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("no weft-pase serves in this network namespace")
        }
        _ => error.into(),
    };
    let mut stream = UnixStream::connect_addr(&address).map_err(connecting)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if !json {
        let told: Value =
            serde_json::from_str(&text).context("what it told is cut off: ask with --json")?;
        text = rows(&told).join("\n") + "\n";
    }
    match io::stdout().write_all(text.as_bytes()) {
        // Who read it has seen enough: `weft-pase show | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to standard output"),
    }
}

fn rows(told: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kbit = |value: &Value| value.as_u64().unwrap_or(0) / 125;
    let mut rows = vec![format!("{} kbit/s flows demand", word(&told["node"]))];
    for link in told["links"].as_array().into_iter().flatten() {
        rows.push(format!(
            "{}: {} {} {}",
            word(&link["link"]),
            kbit(&link["rate"]),
            link["flows"],
            kbit(&link["demand"])
        ));
    }
    for flow in told["flows"].as_array().into_iter().flatten() {
        rows.push(format!(
            "{} {} to {} ({}): queue {}, {} kbit/s",
            word(&flow["from"]),
            flow["number"],
            word(&flow["to"]),
            word(&flow["part"]),
            flow["queue"],
            kbit(&flow["rate"])
        ));
    }
    for (name, count) in told["counters"].as_object().into_iter().flatten() {
        rows.push(format!("{name} {count}"));
    }
    rows
}

/// The names of all that is told.
#[cfg(test)]
pub(crate) fn fields() -> Vec<String> {
    let told = Told {
        node: "",
        counters: Counters::default(),
        links: vec![Seen::default()],
        flows: vec![SeenFlow::default()],
    };
    fn names(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                all.push(name.clone());
                names(value, all);
            }),
            Value::Array(values) => values.iter().for_each(|value| names(value, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    names(&serde_json::to_value(told).unwrap(), &mut all);
    all
}
