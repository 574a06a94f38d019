// SPDX-License-Identifier: MIT OR Apache-2.0

//! The user's terminal, for a shell in a guest.

use std::io::{IsTerminal as _, stdin, stdout};

use crate::request::Request;

/// Whether standard input and output are a terminal.
pub fn is_there() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// The request for a shell, with the terminal's size, 0 if unknown, and its kind.
pub fn shell(request: Request) -> Request {
    let size = terminal_size::terminal_size();
    let (columns, rows) = size.map_or((0, 0), |(width, height)| (width.0, height.0));
    Request {
        rows,
        columns,
        terminal: std::env::var("TERM").unwrap_or_default(),
        ..request
    }
}
