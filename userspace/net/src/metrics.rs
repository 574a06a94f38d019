// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `ip route add` other than a destination and its next hops.

use std::fmt::{self, Display, Formatter};

use weft_topo::{Node, Route};

use crate::attributes::Attributes;
use crate::error::{Error, Result, invalid};

/// A metric: its name, its `RTAX_` number, and the form of its value.
struct Metric {
    name: &'static str,
    number: u16,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Number,
    /// A number after the word `lock`.
    Locked,
    /// In ms; in text with a unit. It, too, has no effect unless locked: `ip` locks it without
    /// being asked.
    Time,
    /// The name of a congestion control.
    Name,
}

/// `RTAX_LOCK`: a bit for each metric that the kernel's own measurements do not change.
const RTAX_LOCK: u16 = 1;

const METRICS: [Metric; 7] = [
    Metric {
        name: "congctl",
        number: 16,
        form: Form::Name,
    },
    // The clamp of the congestion window; it has an effect only if locked.
    Metric {
        name: "cwnd",
        number: 7,
        form: Form::Locked,
    },
    Metric {
        name: "initcwnd",
        number: 11,
        form: Form::Number,
    },
    Metric {
        name: "initrwnd",
        number: 14,
        form: Form::Number,
    },
    Metric {
        name: "quickack",
        number: 15,
        form: Form::Number,
    },
    Metric {
        name: "reordering",
        number: 9,
        form: Form::Number,
    },
    Metric {
        name: "rto_min",
        number: 13,
        form: Form::Time,
    },
];

/// Metrics of routes: TCP's initial windows, its minimum retransmission timeout and the like.
///
/// Set a congestion control here if possible: the sysctl accepts only one that the whole machine
/// allows to everybody, which does not include dctcp, pfabric and bfc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteMetrics {
    /// Indices into [`METRICS`], and values.
    values: Vec<(usize, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(u32),
    Name(String),
}

/// `TCP_CA_NAME_MAX`, including the terminating 0.
const LONGEST_NAME: usize = 16;

impl RouteMetrics {
    /// Parses words in the syntax of `ip route`: `initcwnd 12 quickack 1 rto_min 45ms`.
    ///
    /// # Errors
    ///
    /// If a word is not a known metric, or its value is missing or not a number; a time must be
    /// whole milliseconds, as the kernel stores it.
    pub fn parse(words: &[String]) -> Result<Self> {
        let mut values: Vec<(usize, Value)> = Vec::new();
        let mut words = words.iter();
        while let Some(name) = words.next() {
            let Some(place) = METRICS.iter().position(|metric| metric.name == name) else {
                let known: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
                return invalid(format!(
                    "`{name}` is no route metric; known are {}",
                    known.join(", ")
                ));
            };
            if values.iter().any(|(other, _)| *other == place) {
                return invalid(format!("route metric `{name}` is given twice"));
            }
            let mut value = words.next();
            if let Form::Locked = METRICS[place].form {
                if value.is_none_or(|word| word != "lock") {
                    return invalid(format!(
                        "route metric {name}: has no effect unless locked; write `{name} lock N`"
                    ));
                }
                value = words.next();
            }
            let Some(value) = value else {
                return invalid(format!("route metric `{name}` needs a value"));
            };
            let number = match METRICS[place].form {
                Form::Number | Form::Locked => value.parse().ok().map(Value::Number),
                Form::Time => milliseconds(value).map(Value::Number),
                Form::Name => {
                    let fits = (1..LONGEST_NAME).contains(&value.len()) && value.is_ascii();
                    fits.then(|| Value::Name(value.clone()))
                }
            };
            let Some(number) = number else {
                return Err(Error::Invalid(match METRICS[place].form {
                    Form::Number | Form::Locked => {
                        format!("route metric {name}: `{value}` is not a whole number")
                    }
                    Form::Name => {
                        format!("route metric {name}: `{value}` is no name of a congestion control")
                    }
                    Form::Time => format!(
                        "route metric {name}: `{value}` is no time of whole milliseconds, such as 45ms"
                    ),
                }));
            };
            values.push((place, number));
        }
        Ok(Self { values })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The congestion control's name.
    pub(crate) fn congestion_control(&self) -> Option<&str> {
        self.values.iter().find_map(|(_, value)| match value {
            Value::Name(name) => Some(name.as_str()),
            Value::Number(_) => None,
        })
    }

    /// Writes the nest `RTA_METRICS`.
    pub(crate) fn put(&self, out: &mut Attributes) {
        let locked = self
            .values
            .iter()
            .map(|(place, _)| &METRICS[*place])
            .filter(|metric| matches!(metric.form, Form::Locked | Form::Time));
        let locks = locked.fold(0, |locks, metric| locks | 1 << metric.number);
        if locks != 0 {
            out.u32(RTAX_LOCK, locks);
        }
        for (place, value) in &self.values {
            match value {
                Value::Number(number) => out.u32(METRICS[*place].number, *number),
                Value::Name(name) => out.text(METRICS[*place].number, name),
            }
        }
    }
}

impl fmt::Display for RouteMetrics {
    /// In the syntax of `ip route`, each after a space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, value) in &self.values {
            let metric = &METRICS[*place];
            let lock = match metric.form {
                Form::Locked => " lock",
                _ => "",
            };
            match value {
                Value::Number(number) => write!(f, " {}{lock} {number}", metric.name)?,
                Value::Name(name) => write!(f, " {} {name}", metric.name)?,
            }
            if let Form::Time = metric.form {
                f.write_str("ms")?;
            }
        }
        Ok(())
    }
}

fn milliseconds(text: &str) -> Option<u32> {
    let split = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let number: u64 = number.parse().ok()?;
    let ns = number.checked_mul(match unit {
        "ns" => 1,
        "us" => 1_000,
        // A number alone is milliseconds to `ip`, too.
        "ms" | "" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    })?;
    let whole = ns > 0 && ns.is_multiple_of(1_000_000);
    u32::try_from(ns / 1_000_000).ok().filter(|_| whole)
}

/// `route add …`, also for error messages.
pub(crate) struct RouteCommand<'a, A>(
    pub(crate) &'a Node,
    pub(crate) &'a Route<A>,
    pub(crate) &'a RouteMetrics,
);

impl<A: Display> Display for RouteCommand<'_, A> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(node, route, metrics) = self;
        let way = |hop: &weft_topo::NextHop<A>| {
            format!(
                "via {} dev {} onlink",
                hop.gateway, node.ports[hop.port].name
            )
        };
        f.write_str("route add ")?;
        match route.next_hops.as_slice() {
            [] => write!(f, "unreachable {} proto static", route.prefix),
            [hop] => write!(f, "{} proto static{metrics} {}", route.prefix, way(hop)),
            hops => {
                write!(f, "{} proto static{metrics}", route.prefix)?;
                hops.iter()
                    .try_for_each(|hop| write!(f, " nexthop {}", way(hop)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn words_are_read_and_written() {
        let text = "initcwnd 12 initrwnd 1000 cwnd lock 23 quickack 1 congctl dctcp rto_min 45ms reordering 300";
        let metrics = RouteMetrics::parse(&words(text)).unwrap();
        assert_eq!(metrics.to_string(), format!(" {text}"));
        let metrics = RouteMetrics::parse(&words("rto_min 2s")).unwrap();
        assert_eq!(metrics.to_string(), " rto_min 2000ms");
        let metrics = RouteMetrics::parse(&words("rto_min 45")).unwrap();
        assert_eq!(metrics.to_string(), " rto_min 45ms");
        assert!(RouteMetrics::parse(&[]).unwrap().is_empty());
    }

    #[test]
    fn the_congestion_control_of_a_route_is_found() {
        let metrics = RouteMetrics::parse(&words("quickack 1 congctl bfc initcwnd 3")).unwrap();
        assert_eq!(metrics.congestion_control(), Some("bfc"));
        let metrics = RouteMetrics::parse(&words("quickack 1")).unwrap();
        assert_eq!(metrics.congestion_control(), None);
    }

    #[test]
    fn metrics_that_need_a_lock_are_locked() {
        for (text, locks) in [
            ("initcwnd 12 cwnd lock 23 rto_min 45ms", 1 << 7 | 1 << 13),
            ("rto_min 45ms", 1_u32 << 13),
        ] {
            let mut nest = Attributes::default();
            RouteMetrics::parse(&words(text)).unwrap().put(&mut nest);
            let mut expected = Attributes::default();
            expected.u32(RTAX_LOCK, locks);
            assert!(nest.0.starts_with(&expected.0), "{text}: {:?}", nest.0);
        }
    }

    #[test]
    fn an_error_names_the_wrong_metric() {
        for (text, expected) in [
            ("initcwnd", "`initcwnd` needs a value"),
            (
                "cwnd 23",
                "has no effect unless locked; write `cwnd lock N`",
            ),
            ("cwnd lock", "`cwnd` needs a value"),
            ("initcwnd many", "`many` is not a whole number"),
            ("rto_min 45us", "`45us` is no time of whole milliseconds"),
            ("rto_min 0ms", "`0ms` is no time"),
            (
                "window 5",
                "`window` is no route metric; known are congctl, cwnd, initcwnd",
            ),
            ("quickack 1 quickack 1", "given twice"),
        ] {
            let error = RouteMetrics::parse(&words(text)).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
