// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! carry's options: round trips.

use super::message::{attributes, written};
use weft_mechanisms::carry::options::{Config, Options, Telemetry, KIND};
use weft_mechanisms::common::options::Configuration as _;

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "carry");
    for (number, telemetry) in [
        (0, Telemetry::None),
        (1, Telemetry::Room),
        (2, Telemetry::Records),
        (3, Telemetry::Full),
        (4, Telemetry::Tag),
    ] {
        let options = Options {
            telemetry: Some(telemetry),
        };
        let expected = attributes(&[(1, &[number])]);
        assert_eq!(written(|message| options.put(message)), expected);
        assert_eq!(Options::parse(&expected), Ok(options));
        let config = Config::new(&options).unwrap();
        assert_eq!(written(|message| config.put(message)), expected);
        assert_eq!(config.updated(&Options::default()), Ok(config));
    }
    assert!(Options::parse(&attributes(&[(1, &[5])])).is_err());
}
