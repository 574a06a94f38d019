// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft-pase show`: asks the arbitrators of this network namespace, and prints their answer.
//!
//! The answer is one line of JSON, an object of `node`, `counters`, `links` and `flows`. The server
//! writes it in pieces: the [`beginning`], and then [`flows`] until there are none.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;
use weft_pase::arbitrators::{Arbitrators, Counters, FlowKey, FlowState, LinkState};

use crate::socket;

/// Everything before the flows.
#[derive(Serialize)]
struct Beginning<'a> {
    node: &'a str,
    counters: Counters,
    links: Vec<LinkState>,
}

/// The answer up to the first flow.
pub(crate) fn beginning(node: &str, arbitrators: &Arbitrators) -> Result<Vec<u8>> {
    let beginning = Beginning {
        node,
        counters: arbitrators.counters(),
        links: arbitrators.links(),
    };
    let mut text = serde_json::to_vec(&beginning)?;
    // Leaves the object open.
    text.pop();
    text.extend(b",\"flows\":[");
    Ok(text)
}

/// The next flows of the answer, or its end if there are none.
pub(crate) fn flows(flows: &[(FlowKey, FlowState)], are_first: bool) -> Result<Vec<u8>> {
    if flows.is_empty() {
        return Ok(b"]}\n".to_vec());
    }
    let mut text = Vec::new();
    for (place, (_, flow)) in flows.iter().enumerate() {
        if place > 0 || !are_first {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, flow)?;
    }
    Ok(text)
}

/// Requests and prints the answer.
pub(crate) fn print(json: bool) -> Result<()> {
    let path = socket::path()?;
    let connecting = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            anyhow::anyhow!("no weft-pase serves in this network namespace")
        }
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!(
                "{}: run weft-pase show as the user that runs weft-pase serve",
                error
            )
        }
        _ => error.into(),
    };
    let mut stream = UnixStream::connect(&path).map_err(connecting)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if !json {
        let told: Value = serde_json::from_str(&text)
            .context("the answer is cut off: weft-pase serve has ended, or has other clients")?;
        text = rows(&told).join("\n") + "\n";
    }
    match io::stdout().write_all(text.as_bytes()) {
        // The reader needs no more: `weft-pase show | head`.
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

/// The names of all fields.
#[cfg(test)]
pub(crate) fn fields() -> Vec<String> {
    let beginning = Beginning {
        node: "",
        counters: Counters::default(),
        links: vec![LinkState::default()],
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
    let mut all = vec!["flows".to_owned()];
    names(&serde_json::to_value(beginning).unwrap(), &mut all);
    names(
        &serde_json::to_value(FlowState::default()).unwrap(),
        &mut all,
    );
    all
}
