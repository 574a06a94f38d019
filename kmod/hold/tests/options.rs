// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! hold's options: round trips.

use super::message::{attributes, written};
use proptest::prelude::*;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::hold::options::{Config, Options, KIND};

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "hold");
    let everything = Options {
        backlog: Some(10_000),
        random_priority: Some(0xffff),
        txtime: Some(1_000_000),
    };
    let expected = attributes(&[
        (1, &10_000_u32.to_ne_bytes()),
        (2, &0xffff_u32.to_ne_bytes()),
        (3, &1_000_000_u64.to_ne_bytes()),
    ]);
    assert_eq!(written(|message| everything.put(message)), expected);
    let config = Config::new(&everything).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
}

proptest! {
    #[test]
    fn options_survive_encoding_and_a_change_keeps_the_omitted_ones(
        backlog in any::<Option<u32>>(),
        random_priority in any::<Option<u32>>(),
        txtime in any::<Option<u64>>(),
        old in any::<(u32, u32, u64)>(),
    ) {
        let options = Options { backlog, random_priority, txtime };
        let bytes = written(|message| options.put(message));
        prop_assert_eq!(Options::parse(&bytes), Ok(options));

        let old = Config { backlog: old.0, random_priority: old.1, txtime: old.2 };
        let new = old.updated(&options).unwrap();
        prop_assert_eq!(new.backlog, backlog.unwrap_or(old.backlog));
        prop_assert_eq!(new.random_priority, random_priority.unwrap_or(old.random_priority));
        prop_assert_eq!(new.txtime, txtime.unwrap_or(old.txtime));
    }
}
