// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results as files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use weft_load::record::{self, Header, Record};

use crate::sample::Sample;

impl Sample {
    /// Writes it to `folder`, under the name that `weft run` gives it.
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

/// An empty folder of a test's own.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
