// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a results' file, of this version or another.

use std::io::BufRead;

use super::{FORMAT, Flow, Header, PacketPath, PortSample, Record, Summary};
use crate::error::{Error, Result};

/// The records of a file, one by one; those of an unknown kind are passed over. It ends after the
/// first error.
#[derive(Debug)]
pub struct Reader<R> {
    name: String,
    from: R,
    line: String,
    number: usize,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// `name` is what errors call the file.
    pub fn new(name: &str, from: R) -> Self {
        Self {
            name: name.to_owned(),
            from,
            line: String::new(),
            number: 0,
            failed: false,
        }
    }

    /// Of the line just read.
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
            if self.from.read_line(&mut self.line)? == 0 {
                return Ok(None);
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
                        // The line is told already; serde's is of the line alone, always 1.
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

    /// Whether the line is the header of a format that may look different altogether.
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

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What was run.
    pub header: Header,
    /// In the file's order.
    pub flows: Vec<Flow>,
    /// In the file's order.
    pub ports: Vec<PortSample>,
    /// Where a packet came by, if packets were followed.
    pub path: Option<PacketPath>,
    /// `None`: the run did not end.
    pub summary: Option<Summary>,
}

impl Recorded {
    /// Reads all of it; `name` is what errors call the file.
    ///
    /// # Errors
    ///
    /// What reading gives; with the line's number: what is no record, a format newer than
    /// [`FORMAT`], a first record that is no header, a second header, anything after the summary.
    /// Also if the file is empty.
    pub fn read(name: &str, from: impl BufRead) -> Result<Self> {
        let mut reader = Reader::new(name, from);
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
                return Err(reader.error("there is a record after the summary, which is the last"));
            }
            match record {
                Record::Header(_) => {
                    return Err(reader.error("there is a second header: one run a file"));
                }
                Record::Flow(flow) => run.flows.push(flow),
                Record::Port(sample) => run.ports.push(sample),
                Record::Path(path) => run.path = Some(path),
                Record::Summary(summary) => run.summary = Some(summary),
                // The reader passes over it.
                Record::Unknown => {}
            }
        }
        Ok(run)
    }
}
