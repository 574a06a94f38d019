// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads the results' file of any version.

use std::io::{BufRead, ErrorKind};

use weft_words::file::{MIB, SizeLimit};

use super::{FORMAT, Flow, Header, PacketPath, PortSample, Record, Summary};
use crate::error::{Error, Result};

/// The largest file of results: of four million flows.
pub const RESULTS: SizeLimit = SizeLimit {
    kind: "results",
    bytes: 1024 * MIB,
};

/// The longest line of results.
pub const LINE: SizeLimit = SizeLimit {
    kind: "a line of results",
    bytes: 16 * MIB,
};

/// Iterates over the records of a file; skips unknown kinds. It ends after the first error.
#[derive(Debug)]
pub struct Reader<R> {
    name: String,
    from: R,
    line: String,
    number: usize,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// `name` is the file's name in errors.
    pub fn new(name: &str, from: R) -> Self {
        Self {
            name: name.to_owned(),
            from,
            line: String::new(),
            number: 0,
            failed: false,
        }
    }

    /// An error at the line just read.
    fn error(&self, message: impl Into<String>) -> Error {
        Error::Line {
            file: self.name.clone(),
            line: self.number,
            message: message.into(),
        }
    }

    /// The next line's record; `None` at the end.
    fn read(&mut self) -> Result<Option<Record>> {
        loop {
            self.line.clear();
            self.number += 1;
            match LINE.reader(&mut self.from).read_line(&mut self.line) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                    return Err(self.error(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
            if self.line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(&self.line) {
                Ok(Record::Unknown) => {}
                Ok(record) => return Ok(Some(record)),
                Err(_) if self.is_newer() => return Err(self.newer()),
                Err(error) => {
                    let cut_off = error.is_eof() && !self.line.ends_with('\n');
                    let message = if cut_off {
                        "the line is cut off: was the run interrupted?".to_owned()
                    } else {
                        // The error states the line; serde counts within the line, so its number is
                        // always 1.
                        let said = error.to_string();
                        let said = said.split(" at line ").next().unwrap_or_default();
                        let doubt = match self.number {
                            1 => ": is this a weft result?",
                            _ => "",
                        };
                        format!("{said}{doubt}")
                    };
                    return Err(self.error(message));
                }
            }
        }
    }

    /// Whether the line is the header of a newer format, which may differ in any way.
    fn is_newer(&self) -> bool {
        serde_json::from_str::<serde_json::Value>(&self.line).is_ok_and(|line| {
            line["record"] == "header" && line["format"].as_u64() > Some(u64::from(FORMAT))
        })
    }

    fn newer(&self) -> Error {
        self.error(format!(
            "written by a newer weft: this one reads format {FORMAT} and older"
        ))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = match self.read().transpose()? {
            Ok(Record::Header(header)) if header.format > FORMAT => Err(self.newer()),
            record => record,
        };
        self.failed = record.is_err();
        Some(record)
    }
}

/// The contents of a whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The description of the run.
    pub header: Header,
    /// In the order of the file.
    pub flows: Vec<Flow>,
    /// In the order of the file.
    pub ports: Vec<PortSample>,
    /// The path of a packet, if packets were traced.
    pub path: Option<PacketPath>,
    /// `None`: the run did not end.
    pub summary: Option<Summary>,
}

impl Recorded {
    /// Reads a whole file; `name` is the file's name in errors.
    ///
    /// # Errors
    ///
    /// Errors of the reader; with the line's number: an invalid record, a format newer than
    /// [`FORMAT`], a first record that is not a header, a second header, anything after the
    /// summary, a line of more than 16 MiB, more than [`RESULTS`]. Also if the file is empty.
    pub fn read(name: &str, from: impl BufRead) -> Result<Self> {
        let mut reader = Reader::new(name, RESULTS.reader(from));
        let header = match reader.next().transpose()? {
            Some(Record::Header(header)) => *header,
            Some(_) => {
                return Err(reader.error("expected the header first: is this a weft result?"));
            }
            None => {
                return Err(Error::File {
                    file: name.to_owned(),
                    message: "holds no result".to_owned(),
                });
            }
        };
        let mut run = Self {
            header,
            flows: Vec::new(),
            ports: Vec::new(),
            path: None,
            summary: None,
        };
        while let Some(record) = reader.next().transpose()? {
            if run.summary.is_some() {
                return Err(
                    reader.error("there is a record after the summary, which must be the last")
                );
            }
            match record {
                Record::Header(_) => {
                    return Err(reader.error("there is a second header: a file has one run"));
                }
                Record::Flow(flow) => run.flows.push(flow),
                Record::Port(sample) => run.ports.push(sample),
                Record::Path(path) => run.path = Some(path),
                Record::Summary(summary) => run.summary = Some(summary),
                // The reader skips it.
                Record::Unknown => {}
            }
        }
        Ok(run)
    }
}
