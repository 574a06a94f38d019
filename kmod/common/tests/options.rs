// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The common behaviour of all qdiscs' options: how requests and dumps are read.

use super::message::{attribute, attributes};
use proptest::prelude::*;
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::nla::{Refusal, RefusalKind, TYPE_MASK};
use weft_mechanisms::common::options::{Row, Unit, LACKS, PAD};
use weft_mechanisms::QDISCS;

/// Options that a configuration may lack.
const OPTIONAL: [(&str, &str); 2] = [("bfc", "incast"), ("bfc", "control")];

type Attribute = (u16, Vec<u8>);

fn bytes(list: &[Attribute]) -> Vec<u8> {
    let list: Vec<(u16, &[u8])> = list
        .iter()
        .map(|(attr, value)| (*attr, &value[..]))
        .collect();
    attributes(&list)
}

/// Every option of every qdisc.
fn rows() -> impl Iterator<Item = (&'static Qdisc, &'static Row)> {
    let rows = |qdisc: &'static Qdisc| qdisc.options.iter().map(move |row| (qdisc, row));
    QDISCS.iter().flat_map(rows)
}

/// The option with a value in its range.
fn good(qdisc: &Qdisc, row: &Row) -> Attribute {
    let numbers = [1_u64, 0, 16, 1_000, 1_000_000, 1_000_000_000];
    let values = numbers.map(|number| number.to_le_bytes()[..row.width].to_vec());
    let mut good = values.into_iter().map(|value| (row.attr, value));
    let good = good.find(|(attr, value)| (qdisc.check)(&attribute(*attr, value)).is_ok());
    good.unwrap_or_else(|| panic!("{} {} has no value", qdisc.kind, row.name))
}

fn everything(qdisc: &Qdisc) -> Vec<Attribute> {
    qdisc.options.iter().map(|row| good(qdisc, row)).collect()
}

/// Types that are neither an option nor padding.
fn unknown(qdisc: &Qdisc) -> Vec<u16> {
    let known = |attr| qdisc.options.iter().any(|row| row.attr == attr);
    let types = (0..64).chain([99, TYPE_MASK]);
    types
        .filter(|attr| !known(*attr) && (*attr != PAD || !is_padded(qdisc)))
        .collect()
}

/// Only 8-byte payloads are ever aligned to 8 bytes.
fn is_padded(qdisc: &Qdisc) -> bool {
    qdisc.options.iter().any(|row| row.width == 8)
}

#[test]
fn each_option_has_a_unique_number_and_name() {
    for qdisc in QDISCS {
        let mut numbers: Vec<u16> = qdisc.options.iter().map(|row| row.attr).collect();
        let mut names: Vec<&str> = qdisc.options.iter().map(|row| row.name).collect();
        numbers.sort_unstable();
        numbers.dedup();
        names.sort_unstable();
        names.dedup();
        let options = qdisc.options.len();
        assert_eq!((numbers.len(), names.len()), (options, options));
        assert!(numbers.iter().all(|number| ![0, PAD].contains(number)));
    }
}

#[test]
fn an_empty_request_sets_nothing() {
    for qdisc in QDISCS {
        assert_eq!((qdisc.check)(&[]), Ok(()), "{}", qdisc.kind);
    }
}

#[test]
fn an_unknown_attribute_is_refused_in_a_request_and_skipped_in_a_dump() {
    for (qdisc, row) in rows() {
        for attr in unknown(qdisc) {
            let refused = Err(Refusal::unknown(attr));
            assert_eq!((qdisc.check)(&attribute(attr, &[0; 4])), refused);
            let after_a_known_one = bytes(&[good(qdisc, row), (attr, vec![0; 8])]);
            assert_eq!((qdisc.check)(&after_a_known_one), refused);
        }
        // From a newer kernel.
        let mut dump = everything(qdisc);
        for (place, attr) in unknown(qdisc).into_iter().enumerate() {
            dump.insert((place * 7) % (dump.len() + 1), (attr, vec![1; place % 5]));
        }
        assert_eq!((qdisc.check_dump)(&bytes(&dump)), Ok(()), "{}", qdisc.kind);
    }
}

#[test]
fn an_attribute_of_the_wrong_size_is_refused() {
    for (qdisc, row) in rows() {
        let several = matches!(row.unit, Unit::Devices(..));
        let right = |size: usize| size == row.width || several && size.is_multiple_of(row.width);
        let expected = Refusal::invalid_attr(c"Attribute has the wrong size", row.attr);
        for size in (0..=17).filter(|size| !right(*size)) {
            let bytes = attribute(row.attr, &vec![1; size]);
            let what = || format!("{} {}, {size} bytes", qdisc.kind, row.name);
            assert_eq!((qdisc.check)(&bytes), Err(expected), "{}", what());
            assert_eq!((qdisc.check_dump)(&bytes), Err(expected), "{}", what());
        }
    }
}

#[test]
fn an_attribute_given_twice_is_refused_even_with_the_same_value() {
    for (qdisc, row) in rows() {
        let once = good(qdisc, row);
        let twice = bytes(&[once.clone(), once]);
        let expected = Refusal::invalid_attr(c"Attribute given twice", row.attr);
        assert_eq!((qdisc.check)(&twice), Err(expected));
        assert_eq!((qdisc.check_dump)(&twice), Err(expected));
    }
}

#[test]
fn any_number_of_alignment_paddings_is_ignored_anywhere() {
    for qdisc in QDISCS {
        let padding = [vec![], vec![1, 2, 3], vec![0; 4]];
        let mut padded = everything(qdisc);
        for (place, value) in [0, 2, 4].into_iter().zip(padding) {
            // The end, if a qdisc has too few options for the place.
            padded.insert(place.min(padded.len()), (PAD, value));
        }
        let expected = if is_padded(qdisc) {
            (qdisc.check)(&bytes(&everything(qdisc)))
        } else {
            Err(Refusal::unknown(PAD))
        };
        assert_eq!((qdisc.check)(&bytes(&padded)), expected, "{}", qdisc.kind);
        assert_eq!((qdisc.check_dump)(&bytes(&padded)), Ok(()));
    }
}

#[test]
fn malformed_attributes_are_refused() {
    let truncated = Refusal::invalid(c"Attribute is truncated");
    let junk = Refusal::invalid(c"Junk after the last attribute");
    for (qdisc, row) in rows() {
        let (attr, value) = good(qdisc, row);
        let whole = attribute(attr, &value);
        for length in 1..4 + value.len() {
            let expected = Err(if length < 4 { junk } else { truncated });
            assert_eq!((qdisc.check)(&whole[..length]), expected);
            assert_eq!((qdisc.check_dump)(&whole[..length]), expected);
        }
    }
}

#[test]
fn a_dump_without_a_mandatory_attribute_is_refused() {
    for qdisc in QDISCS {
        let whole = everything(qdisc);
        assert_eq!((qdisc.check_dump)(&bytes(&whole)), Ok(()), "{}", qdisc.kind);
        for (missing, row) in qdisc.options.iter().enumerate() {
            let mut rest = whole.clone();
            rest.remove(missing);
            let optional = OPTIONAL.contains(&(qdisc.kind, row.name));
            let expected = if optional { Ok(()) } else { Err(LACKS) };
            let read = (qdisc.check_dump)(&bytes(&rest));
            assert_eq!(read, expected, "{} {}", qdisc.kind, row.name);
        }
        assert_eq!((qdisc.check_dump)(&[]), Err(LACKS));
    }
}

#[test]
fn a_number_out_of_range_is_refused_in_a_request_and_read_in_a_dump() {
    let ranged = rows().filter(|(_, row)| row.ranged && row.width > 1);
    for (qdisc, row) in ranged {
        let worst = (row.attr, vec![0xff; row.width]);
        let mut dump = everything(qdisc);
        dump.retain(|(attr, _)| *attr != row.attr);
        dump.push(worst.clone());
        assert_eq!((qdisc.check_dump)(&bytes(&dump)), Ok(()), "{}", row.name);
        // Unless the range includes every value that fits.
        if let Err(refusal) = (qdisc.check)(&bytes(&[worst])) {
            assert_eq!(refusal.kind, RefusalKind::Range);
            assert_eq!(refusal.attr, Some(row.attr));
        }
    }
}

/// Whether a value of the row is checked as it is read, before all ranges.
fn is_read_strictly(row: &Row) -> bool {
    matches!(
        row.unit,
        Unit::Choice(_) | Unit::Switch(..) | Unit::Devices(..)
    )
}

/// A request is refused for the first attribute that is malformed or given before. After that it is
/// refused for the first one, in the order of the table, whose value is refused on its own.
fn model(qdisc: &Qdisc, list: &[Attribute]) -> Result<(), Refusal> {
    let mut said = Vec::<&Attribute>::new();
    for it in list {
        let alone = (qdisc.check)(&attribute(it.0, &it.1));
        let Some(row) = qdisc.options.iter().find(|row| row.attr == it.0) else {
            // Unknown, or padding.
            alone?;
            continue;
        };
        match alone {
            Err(refusal) if refusal.kind == RefusalKind::Invalid || is_read_strictly(row) => {
                return alone;
            }
            _ if said.iter().any(|before| before.0 == it.0) => {
                return Err(Refusal::invalid_attr(c"Attribute given twice", it.0));
            }
            _ => said.push(it),
        }
    }
    for row in qdisc.options {
        if let Some(it) = said.iter().find(|it| it.0 == row.attr) {
            (qdisc.check)(&attribute(it.0, &it.1))?;
        }
    }
    Ok(())
}

fn request() -> impl Strategy<Value = (&'static Qdisc, Vec<Attribute>)> {
    let number = prop_oneof![
        0..4_u64,
        (any::<u64>(), 0..64_u32).prop_map(|(number, bits)| number >> bits),
    ];
    let value = (
        number,
        prop_oneof![9 => Just(None), 1 => (0..12_usize).prop_map(Some)],
    );
    let place = prop_oneof![12 => (0..1000_usize).prop_map(Ok), 1 => (0..24_u16).prop_map(Err)];
    let list = prop::collection::vec((place, value), 0..6);
    (
        prop::sample::select(QDISCS.iter().collect::<Vec<_>>()),
        list,
    )
        .prop_map(|(qdisc, list)| {
            let attribute =
                |(place, (number, size)): (Result<usize, u16>, (u64, Option<usize>))| {
                    let row = |place| &qdisc.options[place % qdisc.options.len()];
                    let attr = place.map_or_else(|attr| attr, |place| row(place).attr);
                    let right = place.map_or(4, |place| row(place).width);
                    let mut value = number.to_le_bytes().to_vec();
                    value.resize(size.unwrap_or(right), 0);
                    (attr, value)
                };
            (qdisc, list.into_iter().map(attribute).collect())
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 16 } else { 4096 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn requests_are_judged_attribute_by_attribute((qdisc, list) in request()) {
        prop_assert_eq!((qdisc.check)(&bytes(&list)), model(qdisc, &list));
    }
}
