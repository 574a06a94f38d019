// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What holds for any bytes whatever. The fuzzer (`fuzz/fuzz_targets/decode.rs`) searches for bytes
//! for which it does not; `corpus.rs` replays those it has kept.

use super::message::written;
use weft_proto::nla::{Attributes, HEADER};
use weft_proto::{hold, pfabric, wire};

/// Runs every decoder over `bytes`.
///
/// # Panics
///
/// If a decoder does, or accepts what it should not, or does not read back what it wrote.
pub(crate) fn decode(bytes: &[u8]) {
    attributes(bytes);
    hold_options(bytes);
    pfabric_options(bytes);
    wire_options(bytes);
    statistics(bytes);
}

fn attributes(bytes: &[u8]) {
    let mut consumed = 0;
    let mut refused = false;
    for attribute in Attributes::new(bytes) {
        assert!(!refused, "an attribute follows a refusal");
        match attribute {
            Ok((attr, payload)) => {
                assert!(attr < 1 << 14, "the flag bits are masked off");
                // The payload is where the format says: right behind its header.
                assert_eq!(payload.as_ptr(), bytes[consumed + HEADER..].as_ptr());
                consumed = (consumed + HEADER + payload.len()).next_multiple_of(4);
            }
            Err(_) => refused = true,
        }
    }
    assert!(refused || consumed >= bytes.len(), "bytes left unread");
}

fn hold_options(bytes: &[u8]) {
    if let Ok(options) = hold::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(hold::Options::parse(&again), Ok(options));
    }
}

fn pfabric_options(bytes: &[u8]) {
    if let Ok(options) = pfabric::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(pfabric::Options::parse(&again), Ok(options));

        let config = pfabric::Config::new(&options).expect("a parsed request is in range");
        assert!((1..=pfabric::MAX_LIMIT).contains(&config.limit));
        assert_eq!(config.updated(&options), Ok(config));
    }
    if let Ok(config) = pfabric::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(pfabric::Config::parse(&again), Ok(config));
    }
}

fn wire_options(bytes: &[u8]) {
    if let Ok(options) = wire::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(wire::Options::parse(&again), Ok(options));

        match wire::Config::new(&options) {
            Ok(config) => {
                assert!((wire::MIN_RATE..=wire::MAX_RATE).contains(&config.rate.get()));
                assert!(config.delay <= wire::MAX_DELAY);
                assert!(config.overhead <= wire::MAX_OVERHEAD);
                assert!(config.mpu <= wire::MAX_MPU);
                assert!(config.slack <= wire::MAX_SLACK);
                assert_eq!(config.updated(&options), Ok(config));
            }
            Err(_) => assert_eq!(options.rate, None, "only the rate is required"),
        }
    }
    if let Ok(config) = wire::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(wire::Config::parse(&again), Ok(config));
    }
}

fn statistics(bytes: &[u8]) {
    match pfabric::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(stats.to_bytes(), bytes[..pfabric::Stats::SIZE]),
        None => assert!(bytes.len() < pfabric::Stats::SIZE),
    }
    match wire::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(stats.to_bytes(), bytes[..wire::Stats::SIZE]),
        None => assert!(bytes.len() < wire::Stats::SIZE),
    }
}
