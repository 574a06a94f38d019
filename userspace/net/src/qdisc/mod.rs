// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queueing disciplines, as lines of a file for `tc -b`.
//!
//! ```
//! let lines = "qdisc add dev eth0 root handle 1: wire rate 10mbit delay 200us   # 10 Gbit/s / 1000
//! qdisc add dev eth0 parent 1: handle 10: pfabric limit 24";
//! let commands = weft_net::qdisc::parse("switch", lines)?;
//! let [_, weft_net::qdisc::Command::Qdisc(queue)] = &commands[..] else { unreachable!() };
//! assert_eq!(queue.kind, "pfabric");
//! assert_eq!(queue.parent.to_string(), "1:");
//! # Ok::<(), weft_net::Error>(())
//! ```
//!
//! Words, units and numbers are those of `tc`, and the requests to the kernel are those of `tc`.
//! The output of `tc qdisc show` is accepted, too: `limit 24p`, and the whole line. Words that `tc`
//! only prints are left out. A line of `red` lacks what `tc` needs, and is refused.
//!
//! Lines that this module does not know are left to `tc`: another kind, a class, a filter, and a
//! line of a known kind with an unknown word or value. Such a line is given to `tc` unchanged. If
//! `tc` refuses it, the message also has this module's interpretation. Options of weft's own qdiscs
//! are all known: wrong ones are refused here.
//!
//! Options that a line does not give have `tc`'s and the kernel's defaults. One request differs
//! from `tc`'s and means the same: that for `tbf` has no rate tables, which kernels since 3.8
//! ignore once the link layer is named.

mod dualpi2;
mod fifo;
mod foreign;
mod fq;
mod fq_codel;
mod prio;
mod red;
mod tbf;
pub(crate) mod units;
mod weft;

use std::fmt;

use crate::attributes::Attributes;
use crate::error::{Error, Result};

pub use foreign::{Object, TcCommand};

/// A qdisc's or a class's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// The device's root, `TC_H_ROOT`.
    pub const ROOT: Self = Self(u32::MAX);
    /// The parent of a device's [`clsact`](QdiscCommand::clsact), `TC_H_CLSACT`.
    pub const CLSACT: Self = Self(0xffff_fff1);
    /// No number: the kernel chooses one.
    pub const NONE: Self = Self(0);

    /// A qdisc's own number, as `tc` reads it: hexadecimal, with a colon or without; anything after
    /// the colon is ignored.
    fn of_qdisc(text: &str) -> Option<Self> {
        let (major, _) = text.split_once(':').unwrap_or((text, ""));
        let major = hexadecimal(major).filter(|&major| major != 0)?;
        Some(Self(u32::from(u16::try_from(major).ok()?) << 16))
    }

    /// A parent, as `tc` reads it: `1:`, `1:2`, or both parts in one hexadecimal number.
    fn of_parent(text: &str) -> Option<Self> {
        let part = |text: &str| u16::try_from(hexadecimal(text)?).ok();
        let number = match text.split_once(':') {
            None => hexadecimal(text)?,
            Some((major, minor)) => {
                let minor = if minor.is_empty() { 0 } else { part(minor)? };
                u32::from(part(major)?) << 16 | u32::from(minor)
            }
        };
        (number >> 16 != 0).then_some(Self(number))
    }
}

fn hexadecimal(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let digits = digits.unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| plain)
}

impl fmt::Display for Handle {
    /// `root`, `1:` or `1:2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.0 >> 16, self.0 & 0xffff) {
            (Self::ROOT, ..) => f.write_str("root"),
            (_, major, 0) => write!(f, "{major:x}:"),
            (_, major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

/// A line of a port's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A qdisc of a kind that is known here. Its request goes to the kernel with the others of its
    /// node.
    Qdisc(QdiscCommand),
    /// A line for `tc`.
    Tc(TcCommand),
}

impl Command {
    /// The port.
    pub fn device(&self) -> &str {
        match self {
            Self::Qdisc(command) => &command.device,
            Self::Tc(command) => &command.device,
        }
    }

    /// The kind of the qdisc that it adds.
    pub fn qdisc(&self) -> Option<&str> {
        match self {
            Self::Qdisc(command) => Some(command.kind),
            Self::Tc(command) => {
                let kind = command.kind.as_deref();
                kind.filter(|_| command.object == Object::Qdisc)
            }
        }
    }
}

impl fmt::Display for Command {
    /// The line in `tc` syntax.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qdisc(command) => command.fmt(f),
            Self::Tc(command) => command.fmt(f),
        }
    }
}

/// `qdisc add …` or `qdisc replace …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QdiscCommand {
    /// The port.
    pub device: String,
    /// Whether to replace an existing qdisc; otherwise there must be none.
    pub replace: bool,
    /// [`Handle::ROOT`], a qdisc or a class; or [`Handle::CLSACT`].
    pub parent: Handle,
    /// Its own number; [`Handle::NONE`] leaves it to the kernel.
    pub handle: Handle,
    /// Its kind, one of [`kinds`] or `clsact`.
    pub kind: &'static str,
    /// The words after the kind, as they were written.
    pub words: Vec<String>,
    /// The payload of `TCA_OPTIONS`; `None` sends no such attribute.
    pub(crate) options: Option<Vec<u8>>,
    /// Ports named in the options; their indices are added as the payload of an attribute.
    ports: Option<(u16, Vec<String>)>,
}

impl QdiscCommand {
    /// `clsact`: not a queue, but the attachment point of eBPF programs, as filters of incoming and
    /// outgoing packets.
    pub fn clsact(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            replace: false,
            parent: Handle::CLSACT,
            handle: Handle(0xffff_0000),
            kind: "clsact",
            words: Vec::new(),
            options: None,
            ports: None,
        }
    }

    /// The payload of `TCA_OPTIONS` in the request, if it has one. It includes other ports that the
    /// words name once the command is in a plan, which knows their indices.
    pub fn options(&self) -> Option<&[u8]> {
        self.options.as_deref()
    }

    /// Adds the indices of the named ports to the options.
    ///
    /// # Errors
    ///
    /// The name of a port that does not exist.
    pub(crate) fn resolve(&mut self, index: impl Fn(&str) -> Option<u32>) -> Result<(), String> {
        let Some((attribute, names)) = &self.ports else {
            return Ok(());
        };
        let mut indices = Vec::new();
        for name in names {
            let index = index(name).ok_or_else(|| name.clone())?;
            indices.extend(index.to_ne_bytes());
        }
        let mut attributes = Attributes(self.options.take().unwrap_or_default());
        attributes.bytes(*attribute, &indices);
        self.options = Some(attributes.0);
        self.ports = None;
        Ok(())
    }
}

impl fmt::Display for QdiscCommand {
    /// The line in `tc` syntax, in `tc`'s usual order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.replace { "replace" } else { "add" };
        write!(f, "qdisc {verb} dev {}", self.device)?;
        match self.parent {
            Handle::CLSACT => {}
            Handle::ROOT => f.write_str(" root")?,
            parent => write!(f, " parent {parent}")?,
        }
        // The handle of `clsact` is fixed, and `tc` accepts none.
        if self.handle != Handle::NONE && self.parent != Handle::CLSACT {
            write!(f, " handle {}", self.handle)?;
        }
        write!(f, " {}", self.kind)?;
        self.words.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

/// Encodes the words after a kind's name as the payload of `TCA_OPTIONS`.
type Encode = fn(&mut Words<'_>) -> Result<Option<Attributes>, String>;

/// The kernel's own kinds; weft's are known by their tables.
const KINDS: &[(&str, Encode)] = &[
    ("bfifo", fifo::bytes),
    ("dualpi2", dualpi2::options),
    ("fq", fq::options),
    ("fq_codel", fq_codel::options),
    ("pfifo", fifo::packets),
    ("prio", prio::options),
    ("red", red::options),
    ("tbf", tbf::options),
];

/// The kinds with known options, in alphabetical order.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    let stock = KINDS.iter().map(|&(name, _)| name);
    let own = weft_mechanisms::QDISCS
        .iter()
        .filter(|qdisc| !qdisc.for_tests);
    let mut kinds: Vec<_> = stock.chain(own.map(|qdisc| qdisc.kind)).collect();
    kinds.sort_unstable();
    kinds.into_iter()
}

/// A kind's name, and its parser.
fn kind_of(name: &str) -> Option<(&'static str, Kind)> {
    let stock = KINDS.iter().find(|(kind, _)| *kind == name);
    let stock = stock.map(|&(kind, encode)| (kind, Kind::Stock(encode)));
    let own = || weft_mechanisms::qdisc(name).filter(|qdisc| !qdisc.for_tests);
    stock.or_else(|| own().map(|qdisc| (qdisc.kind, Kind::Own(qdisc))))
}

/// The parser of the words after a kind's name.
#[derive(Clone, Copy)]
enum Kind {
    Stock(Encode),
    Own(&'static weft_mechanisms::common::mechanism::Qdisc),
}

/// The commands in `text`, in the format of `tc -b`: one command per line; `#` begins a comment; a
/// line that ends in a backslash continues on the next. `file` is for error messages.
///
/// # Errors
///
/// [`Error::Line`] for the first line that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Vec<Command>> {
    let mut commands = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let mut command = without_comment(line).to_owned();
        while let Some(begun) = command.strip_suffix('\\') {
            let next = lines.next().map_or("", |(_, next)| without_comment(next));
            command = format!("{begun} {next}");
        }
        commands.extend(parse_line((file, number), &command)?);
    }
    Ok(commands)
}

/// The command of one line, without its comment; `None` if there is none. `place` is the file and
/// the line's number.
///
/// # Errors
///
/// [`Error::Line`] if it is wrong.
pub fn parse_line(place: (&str, usize), line: &str) -> Result<Option<Command>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.is_empty() {
        return Ok(None);
    }
    let wrong = |message| Error::Line {
        file: place.0.to_owned(),
        line: place.1,
        message,
    };
    let words = match shown(&words) {
        Some(shown) => shown.map_err(wrong)?,
        None => foreign::canonical(words),
    };
    let doubt = match command_of(&words) {
        Ok(Some(command)) => return Ok(Some(Command::Qdisc(command))),
        Ok(None) => None,
        Err(Wrong::Doubt(doubt)) => Some(doubt),
        Err(Wrong::Refusal(sentence)) => return Err(wrong(sentence)),
    };
    match TcCommand::new(place, &words, doubt).map_err(wrong)? {
        Some(command) => Ok(Some(Command::Tc(command))),
        None => Err(wrong(format!(
            "`{}` is not `add`, `replace` or `change` of a qdisc, class or filter, which is all that a port takes",
            words[..words.len().min(2)].join(" ")
        ))),
    }
}

/// Options that `tc` prints but does not read: the kind, the word, and how many values follow it.
const ONLY_SHOWN: &[(&str, &str, usize)] = &[
    ("htb", "direct_packets_stat", 1),
    ("htb", "ver", 1),
    ("prio", "multiqueue:", 1),
    ("red", "ewma", 1),
    ("red", "Plog", 1),
    ("red", "Scell_log", 1),
];

/// A line of `tc qdisc show`, such as `qdisc pfifo 10: dev p0 parent 1: limit 24p`, as a command;
/// `None` if it is another line.
///
/// # Errors
///
/// If the line lacks a word that a command needs.
fn shown<'a>(words: &[&'a str]) -> Option<Result<Vec<&'a str>, String>> {
    let ["qdisc", kind, handle, "dev", device, rest @ ..] = words else {
        return None;
    };
    handle.strip_suffix(':').and_then(hexadecimal)?;
    let mut command = vec!["qdisc", "add", "dev", *device];
    let mut rest = match rest {
        ["root", rest @ ..] => {
            command.push("root");
            rest
        }
        ["parent", parent, rest @ ..] => {
            command.extend(["parent", *parent]);
            rest
        }
        _ => return None,
    };
    while let ["refcnt", _, more @ ..] | ["offloaded", more @ ..] = rest {
        rest = more;
    }
    if *kind == "red" && !rest.contains(&"avpkt") {
        return Some(Err(
            "red: `tc qdisc show` does not print `avpkt`, `burst` and `bandwidth`: add them, for example \
             `avpkt 1500 burst 30 bandwidth 10mbit`"
                .to_owned(),
        ));
    }
    if Handle::of_qdisc(handle).is_some() {
        command.extend(["handle", *handle]);
    }
    command.push(kind);
    let is_known = kind_of(kind).is_some();
    while let Some((&word, more)) = rest.split_first() {
        let only_shown = ONLY_SHOWN.iter().find(|it| (it.0, it.1) == (*kind, word));
        rest = match only_shown {
            Some(&(_, _, values)) => more.get(values..).unwrap_or_default(),
            None => {
                // `tc` itself does not read the `p` of packets.
                let packets = word.strip_suffix('p').filter(|_| !is_known);
                let number = packets.filter(|it| units::number(it).is_some());
                command.push(number.unwrap_or(word));
                more
            }
        };
    }
    Some(Ok(command))
}

/// The reason why a line is not a command known here.
enum Wrong {
    /// `tc` may know it: this module's objection.
    Doubt(String),
    /// It is invalid.
    Refusal(String),
}

fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(before, _)| before)
}

/// `None`: it is for `tc` to read.
fn command_of(words: &[&str]) -> Result<Option<QdiscCommand>, Wrong> {
    let (replace, rest) = match words {
        ["qdisc", "add", rest @ ..] => (false, rest),
        ["qdisc", "replace", rest @ ..] => (true, rest),
        _ => return Ok(None),
    };
    let mut words = Words {
        rest,
        seen: Vec::new(),
        ports: None,
    };
    let head = read_head(&mut words).map_err(Wrong::Doubt)?;
    let Some((kind, reader)) = kind_of(head.kind) else {
        return Ok(None);
    };
    let missing = |what: &str| Wrong::Doubt(format!("a line in which {what} is missing"));
    let mut options = Words {
        rest: words.rest,
        seen: Vec::new(),
        ports: None,
    };
    let written = options.rest.iter().map(|&word| word.to_owned()).collect();
    let place = |wrong| format!("{kind}: {wrong}");
    let encoded = match reader {
        Kind::Stock(encode) => encode(&mut options).map_err(|wrong| Wrong::Doubt(place(wrong)))?,
        Kind::Own(qdisc) => {
            weft::encode(qdisc, &mut options).map_err(|wrong| Wrong::Refusal(place(wrong)))?
        }
    };
    Ok(Some(QdiscCommand {
        device: head.device.ok_or_else(|| missing("`dev`"))?,
        replace,
        parent: head.parent.ok_or_else(|| missing("`root` or `parent`"))?,
        handle: head.handle,
        kind,
        words: written,
        options: encoded.map(|attributes| attributes.0),
        ports: options.ports,
    }))
}

/// The words before a qdisc's options.
struct Head<'a> {
    device: Option<String>,
    parent: Option<Handle>,
    handle: Handle,
    kind: &'a str,
}

fn read_head<'a>(words: &mut Words<'a>) -> Result<Head<'a>, String> {
    let (mut device, mut parent, mut handle) = (None, None, Handle::NONE);
    while let Some(word) = words.option()? {
        match word {
            "dev" => device = Some(words.value("dev", "a port", |name| Some(name.to_owned()))?),
            "root" | "parent" if parent.is_some() => {
                return Err("`root` or `parent`: say one, once".to_owned());
            }
            "root" => parent = Some(Handle::ROOT),
            "parent" => {
                let expected = "a qdisc or a class, for example 1: or 1:1";
                parent = Some(words.value("parent", expected, Handle::of_parent)?);
            }
            "handle" => {
                let expected = "a number from 1: to fffe:";
                handle = words.value("handle", expected, |text| {
                    Handle::of_qdisc(text).filter(|handle| handle.0 >> 16 != 0xffff)
                })?;
            }
            kind => {
                return Ok(Head {
                    device,
                    parent,
                    handle,
                    kind,
                });
            }
        }
    }
    Err("a line in which the kind of qdisc is missing".to_owned())
}

/// The remaining words of a line.
struct Words<'a> {
    rest: &'a [&'a str],
    seen: Vec<&'a str>,
    /// Named ports, and the attribute for their indices.
    ports: Option<(u16, Vec<String>)>,
}

impl<'a> Words<'a> {
    /// The next option's name.
    fn option(&mut self) -> Result<Option<&'a str>, String> {
        let Some((&word, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        if self.seen.contains(&word) {
            return Err(format!("`{word}` is given twice"));
        }
        self.seen.push(word);
        self.rest = rest;
        Ok(Some(word))
    }

    /// The value of `option`, which has just been read.
    fn value<T>(
        &mut self,
        option: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, String> {
        let Some((&word, rest)) = self.rest.split_first() else {
            return Err(format!("`{option}` takes {expected}, which is missing"));
        };
        self.rest = rest;
        read(word).ok_or_else(|| format!("`{option} {word}`: not {expected}"))
    }

    fn rate(&mut self, option: &str) -> Result<u64, String> {
        self.value(option, "a rate, for example 10mbit", |text| {
            units::rate(text).filter(|&rate| rate != 0)
        })
    }

    fn size(&mut self, option: &str) -> Result<u32, String> {
        self.value(option, SIZE, units::size)
    }

    /// Bytes that `tc` reads as a number, and prints with a unit.
    fn bytes(&mut self, option: &str) -> Result<u32, String> {
        self.value(option, SIZE, |text| {
            units::number(text).or_else(|| units::size(text))
        })
    }

    fn microseconds(&mut self, option: &str) -> Result<u32, String> {
        self.value(option, "a time, for example 5ms", units::microseconds)
    }

    fn number(&mut self, option: &str) -> Result<u32, String> {
        self.value(option, "a number", units::number)
    }

    /// A number of packets, which `tc` prints as `24p`.
    fn packets(&mut self, option: &str) -> Result<u32, String> {
        self.value(option, "a number of packets, for example 24", |text| {
            units::number(text.strip_suffix('p').unwrap_or(text))
        })
    }

    /// The next `count` words, each a decimal number.
    fn list<T: std::str::FromStr>(&mut self, option: &str, count: usize) -> Result<Vec<T>, String> {
        let expected = format!("{count} numbers");
        let numbers = (0..count).map(|_| self.value(option, &expected, |text| text.parse().ok()));
        numbers.collect()
    }
}

const SIZE: &str = "a size of at most 4294967295 bytes, for example 15k";

/// Rejects a word that is not an option.
fn unknown<T>(word: &str, options: &str) -> Result<T, String> {
    Err(format!("`{word}` is no option; options are {options}"))
}
