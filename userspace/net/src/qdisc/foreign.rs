// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines that are left to `tc`: qdiscs with unknown options, classes and filters.

use std::fmt;

use super::Handle;

/// A line that `tc` itself reads, as with `tc -b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcCommand {
    /// The port.
    pub device: String,
    /// The added object.
    pub object: Object,
    /// The qdisc or class above it, if the line gives a number.
    pub parent: Option<Handle>,
    /// A qdisc's own number, if the line gives one.
    pub handle: Option<Handle>,
    /// The kind of qdisc, class or filter, if the line gives one.
    pub kind: Option<String>,
    /// The file that it is in, and its line, counted from 1.
    pub place: (String, usize),
    /// This module's objection to it, if its kind is known here; `tc` may know more.
    pub doubt: Option<String>,
    words: Vec<String>,
}

/// The object of a `tc` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A queueing discipline.
    Qdisc,
    /// A class of one.
    Class,
    /// A filter of packets, at a qdisc.
    Filter,
}

impl TcCommand {
    /// `None` if the line does not add anything to a port.
    pub(super) fn new(
        place: (&str, usize),
        words: &[&str],
        doubt: Option<String>,
    ) -> Result<Option<Self>, String> {
        let (object, rest) = match words {
            ["qdisc", "add" | "replace" | "change" | "link", rest @ ..] => (Object::Qdisc, rest),
            ["class", "add" | "replace" | "change", rest @ ..] => (Object::Class, rest),
            ["filter", "add" | "replace" | "change", rest @ ..] => (Object::Filter, rest),
            _ => return Ok(None),
        };
        let after = |name: &str| {
            let mut pairs = rest.windows(2);
            pairs.find(|pair| pair[0] == name).map(|pair| pair[1])
        };
        let device = after("dev").ok_or("`dev` and the port are missing")?;
        let kind = kind(rest);
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if let Some(kind) = kind.filter(|kind| !kind.chars().all(plain)) {
            return Err(format!("`{kind}` is no kind of {}", words[0]));
        }
        let root = object != Object::Filter && rest.contains(&"root");
        let parent = after("parent").and_then(Handle::of_parent);
        Ok(Some(Self {
            device: device.to_owned(),
            object,
            parent: if root { Some(Handle::ROOT) } else { parent },
            handle: match object {
                Object::Qdisc => after("handle").and_then(Handle::of_qdisc),
                Object::Class | Object::Filter => None,
            },
            kind: kind.map(str::to_owned),
            place: (place.0.to_owned(), place.1),
            doubt,
            words: words.iter().map(|&word| word.to_owned()).collect(),
        }))
    }
}

impl fmt::Display for TcCommand {
    /// The line as it was written, with a space between words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// The same line with complete words for the object and the verb: `tc` accepts prefixes, and takes
/// the first match.
pub(super) fn canonical(mut words: Vec<&str>) -> Vec<&str> {
    const OBJECTS: [&str; 4] = ["qdisc", "class", "filter", "chain"];
    const VERBS: [&str; 5] = ["add", "change", "replace", "link", "delete"];
    for (word, names) in words.iter_mut().zip([&OBJECTS[..], &VERBS]) {
        if let Some(name) = names.iter().find(|name| name.starts_with(*word)) {
            *word = name;
        }
    }
    words
}

/// The word that names the kind: the first that is none of those that `tc` takes before it.
fn kind<'a>(mut words: &'a [&str]) -> Option<&'a str> {
    loop {
        let first = *words.first()?;
        let values = match first {
            "root" | "ingress" | "egress" => 0,
            // Abbreviations, too.
            _ if "stab".starts_with(first) => 0,
            _ if "estimator".starts_with(first) => 2,
            "dev" | "parent" | "handle" | "classid" | "ingress_block" | "egress_block"
            | "block" => 1,
            // Options of a size table, which `stab` begins.
            "mtu" | "tsize" | "mpu" | "overhead" | "linklayer" => 1,
            // Of filters.
            "protocol" | "pref" | "preference" | "prio" | "priority" | "chain" => {
                // As a qdisc, `prio` is a kind; then no number follows.
                match words.get(1)?.parse::<u32>() {
                    Err(_) if words[0] == "prio" => return Some("prio"),
                    _ => 1,
                }
            }
            kind => return Some(kind),
        };
        words = words.get(1 + values..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> TcCommand {
        let words: Vec<&str> = line.split(' ').collect();
        TcCommand::new(("x/switch.tc", 3), &words, None)
            .unwrap()
            .unwrap()
    }

    #[test]
    fn a_line_gives_its_object_parent_handle_and_kind() {
        for (line, object, parent, handle, kind) in [
            (
                "qdisc add dev p root handle a: stab overhead 24 mpu 84 htb default 10",
                Object::Qdisc,
                Some(Handle::ROOT),
                Some(Handle(0xa_0000)),
                Some("htb"),
            ),
            (
                "class add dev p parent a: classid a:10 est 1sec 8sec",
                Object::Class,
                Some(Handle(0xa_0000)),
                None,
                None,
            ),
            (
                "class replace dev p parent a: classid a:10 htb rate 1mbit",
                Object::Class,
                Some(Handle(0xa_0000)),
                None,
                Some("htb"),
            ),
            (
                "filter add dev p parent a: protocol ip prio 1 handle 6 fw classid a:10",
                Object::Filter,
                Some(Handle(0xa_0000)),
                None,
                Some("fw"),
            ),
            (
                "qdisc add dev p parent a:10 prio bands 3 priomap 1 1",
                Object::Qdisc,
                Some(Handle(0xa_0010)),
                None,
                Some("prio"),
            ),
            (
                "qdisc add dev p clsact",
                Object::Qdisc,
                None,
                None,
                Some("clsact"),
            ),
            ("qdisc add dev p ingress", Object::Qdisc, None, None, None),
        ] {
            let found = command(line);
            assert_eq!(found.to_string(), line);
            assert_eq!(found.device, "p");
            let told = (
                found.object,
                found.parent,
                found.handle,
                found.kind.as_deref(),
            );
            assert_eq!(told, (object, parent, handle, kind), "{line}");
        }
    }

    #[test]
    fn a_line_without_a_port_or_with_another_command_is_ignored() {
        let new = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            TcCommand::new(("f", 1), &words, None)
        };
        assert_eq!(
            new("class add parent 1: classid 1:1 htb rate 1mbit").unwrap_err(),
            "`dev` and the port are missing"
        );
        for line in [
            "qdisc del dev p root",
            "qdisc show",
            "monitor",
            "actions add action drop",
        ] {
            assert_eq!(new(line), Ok(None), "{line}");
        }
    }
}
