// SPDX-License-Identifier: MIT OR Apache-2.0

//! Schemes as folders of files.

mod extends;
mod lines;

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use weft_lab::fabric::{Fabric, FabricOptions};
use weft_lab::testbed;
use weft_net::Plan;

const WIRE: &str = "qdisc add dev $dev root handle 1: wire rate $rate delay $delay\n";

/// A new folder for a test, with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// A fabric of two hosts under the scheme with this name or in this folder.
fn fabric(scheme: &str) -> Result<Fabric> {
    Fabric::new(&FabricOptions {
        topology: "rack:hosts=2".to_owned(),
        dilation: NonZeroU32::MIN,
        slack: Duration::ZERO,
        scheme: scheme.to_owned(),
        settings: Vec::new(),
        modules: Vec::new(),
    })
}

fn plan(folder: &Path) -> Result<Plan> {
    testbed::plan("mine", &fabric(folder.to_str().unwrap())?)
}

/// The error message, which must be one sentence.
fn refusal<T>(result: Result<T>) -> String {
    let Err(error) = result else {
        panic!("it is taken");
    };
    assert!(weft_lab::error::is_usage(&error), "{error:#}");
    format!("{error:#}")
}
