// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft's own qdiscs, by their tables, in the syntax of their `tc` plugin.

use std::cell::RefCell;

use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::options::Unit;
use weft_tc::args::Complaint;
use weft_tc::options;

use super::{Words, units, unknown};
use crate::attributes::Attributes;

/// This crate's parsers of quantities; devices are given by name, and get their indices later.
#[derive(Default)]
struct Quantities {
    devices: RefCell<Vec<String>>,
}

impl weft_tc::tc::Units for Quantities {
    fn rate(&self, text: &str) -> Option<u64> {
        units::rate(text).filter(|&rate| rate != 0)
    }

    fn time(&self, text: &str) -> Option<u64> {
        units::nanoseconds(text)
    }

    fn size(&self, text: &str) -> Option<u64> {
        units::long_size(text)
    }

    fn number(&self, text: &str) -> Option<u64> {
        units::long_number(text)
    }

    fn device(&self, name: &str) -> Option<u32> {
        self.devices.borrow_mut().push(name.to_owned());
        // Any index will do until the plan assigns it.
        Some(1)
    }
}

/// Encodes the words after the kind's name as the payload of `TCA_OPTIONS`.
pub(super) fn encode(
    qdisc: &'static Qdisc,
    words: &mut Words<'_>,
) -> Result<Option<Attributes>, String> {
    let quantities = Quantities::default();
    let said = options::read(qdisc, words.rest, &quantities);
    let mut said = said.map_err(|complaint| sentence(qdisc, complaint))?;
    let mut request = Attributes::default();
    said.put(&mut request).map_err(|_| "too long")?;
    (qdisc.check_new)(&request.0).map_err(|refusal| refusal.message.to_string_lossy())?;

    let devices = quantities.devices.into_inner();
    let lists = qdisc.options.iter();
    let list = lists
        .filter(|row| matches!(row.unit, Unit::Devices(..)))
        .find(|_| !devices.is_empty());
    if let Some(row) = list {
        said.take(row.attr);
        words.ports = Some((row.attr, devices));
    }
    let mut attributes = Attributes::default();
    said.put(&mut attributes).map_err(|_| "too long")?;
    Ok(Some(attributes))
}

fn sentence(qdisc: &Qdisc, complaint: Complaint) -> String {
    let names = || options::words(qdisc).join(", ");
    match complaint {
        Complaint::Help => unknown::<()>("help", &names()).unwrap_err(),
        Complaint::Unknown(word) => unknown::<()>(&word, &names()).unwrap_err(),
        Complaint::Illegal {
            option,
            value,
            expected,
        } => format!("`{option} {value}`: not {expected}"),
        Complaint::Refused(refusal) => refusal.message.to_string_lossy().into_owned(),
        Complaint::Incomplete { option, expected } => {
            format!("`{option}` takes {expected}, which is missing")
        }
        Complaint::Duplicate { option, .. } => {
            let mut rows = qdisc.options.iter();
            let either = rows.find_map(|row| match row.unit {
                Unit::Switch(on, off) if option == on => Some((on, off)),
                Unit::Devices(_, none, _) if option == none => Some((row.name, none)),
                _ => None,
            });
            match either {
                Some((one, other)) => format!("`{one}` or `{other}`: say one"),
                None => format!("`{option}` is given twice"),
            }
        }
    }
}
