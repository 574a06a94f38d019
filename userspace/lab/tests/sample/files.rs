// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results in files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use weft_load::record::{self, Header, Record};

use crate::sample::Sample;

impl Sample {
    /// Writes it to `folder`, with the file name of `weft run`.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let Header { scheme, seed, .. } = &self.header;
        let path = folder.join(format!("{scheme}-seed{seed}.jsonl"));
        let mut records = vec![Record::Header(Box::new(self.header.clone()))];
        records.extend(self.ports.iter().cloned().map(Record::Port));
        records.extend(self.flows.iter().cloned().map(Record::Flow));
        records.push(Record::Summary(self.summary.clone()));
        let mut file = BufWriter::new(File::create(&path).unwrap());
        for record in &records {
            record::write(&mut file, record).unwrap();
        }
        path
    }
}

/// An empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
