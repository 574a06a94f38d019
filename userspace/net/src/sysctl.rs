// SPDX-License-Identifier: MIT OR Apache-2.0

//! Variables of a network namespace, as `sysctl -p` reads them from a file.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Result, invalid};

/// The directory of variables as files.
const PLACE: &str = "/proc/sys";

/// A variable of a network namespace and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    key: String,
    /// `None`: excludes this variable from patterns.
    value: Option<String>,
    failure: Failure,
}

/// The failures that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Error,
    /// A kernel may lack the variable.
    AbsentIsFine,
    /// Any failure is allowed: `-key = value`.
    Ignored,
}

impl Sysctl {
    /// `key` is in `sysctl` syntax, such as `net.ipv4.tcp_congestion_control`; it may be a pattern,
    /// such as `net.ipv4.conf.*.rp_filter`.
    ///
    /// # Errors
    ///
    /// If `key` is not a name or not below `net.`, because other variables are the machine's; if
    /// `value` is empty or longer than a line.
    pub fn new(key: &str, value: &str) -> Result<Self> {
        check_key(key)?;
        if value.trim().is_empty() || value.contains('\n') {
            return invalid(format!("sysctl `{key}` needs a value of one line"));
        }
        Ok(Self {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            failure: Failure::Error,
        })
    }

    /// Parses a line that is not a comment, as `sysctl -p` reads it: `key = value`; `-key = value`,
    /// which may fail; `-key`, which is excluded from patterns.
    ///
    /// # Errors
    ///
    /// As [`Sysctl::new`]; if the line is invalid.
    pub fn read(line: &str) -> Result<Self> {
        let line = line.trim();
        let (rest, failure) = match line.strip_prefix('-') {
            Some(rest) => (rest.trim_start(), Failure::Ignored),
            None => (line, Failure::Error),
        };
        let Some((key, value)) = rest.split_once('=') else {
            if failure == Failure::Error {
                return invalid(format!(
                    "`{line}` is no sysctl: write KEY = VALUE, or -KEY = VALUE if it may fail"
                ));
            }
            check_key(rest)?;
            return Ok(Self {
                key: rest.to_owned(),
                value: None,
                failure,
            });
        };
        let read = Self::new(key.trim(), value.trim())?;
        Ok(Self { failure, ..read })
    }

    /// A variable that weft sets.
    pub(crate) fn own(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            failure: Failure::Error,
        }
    }

    /// The same variable, which a kernel may lack.
    pub(crate) fn optional(self) -> Self {
        Self {
            failure: Failure::AbsentIsFine,
            ..self
        }
    }

    /// Its name, as written.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its value.
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// Whether it is skipped if the kernel has no such variable.
    pub(crate) fn is_optional(&self) -> bool {
        self.failure == Failure::AbsentIsFine
    }

    /// Whether any failure is allowed.
    pub(crate) fn is_ignored(&self) -> bool {
        self.failure == Failure::Ignored
    }

    /// Whether only `sysctl -p` understands it, not `sysctl -w`.
    pub(crate) fn is_for_a_file(&self) -> bool {
        self.value.is_none() || self.is_ignored() || self.is_pattern()
    }

    /// Whether it only excludes a variable from patterns.
    pub(crate) fn is_exclusion(&self) -> bool {
        self.value.is_none()
    }

    fn is_pattern(&self) -> bool {
        self.key.contains(['*', '?', '['])
    }

    /// Its file in procfs.
    pub(crate) fn path(&self) -> String {
        format!("{PLACE}/{}", relative(&self.key))
    }

    /// The device whose setting it is, if it belongs to one.
    pub(crate) fn device(&self) -> Option<String> {
        let path = relative(&self.key);
        match path.split('/').collect::<Vec<_>>()[..] {
            ["net", _, "conf" | "neigh", device, ..] => Some(device.to_owned()),
            _ => None,
        }
    }

    /// Whether it belongs to IPv6.
    pub(crate) fn is_ipv6(&self) -> bool {
        relative(&self.key).starts_with("net/ipv6/")
    }

    /// Sets it, in the calling thread's namespace. A pattern does not apply to variables that
    /// others of the same list name.
    ///
    /// # Errors
    ///
    /// Refusals by the kernel that are not allowed.
    pub(crate) fn set(&self, list: &[Self]) -> io::Result<()> {
        let set = match &self.value {
            None => Ok(()),
            Some(value) if self.is_pattern() => self.set_all(value, list),
            Some(value) => write(Path::new(&self.path()), value),
        };
        match set {
            Err(error) if self.is_optional() && error.kind() == ErrorKind::NotFound => Ok(()),
            Err(_) if self.is_ignored() => Ok(()),
            set => set,
        }
    }

    fn set_all(&self, value: &str, list: &[Self]) -> io::Result<()> {
        let path = self.path();
        let components = path.split('/').filter(|it| !it.is_empty());
        let mut found = expand(Path::new("/"), &components.collect::<Vec<_>>())?;
        if found.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        let named: Vec<String> = list
            .iter()
            .filter(|it| !it.is_pattern())
            .map(Self::path)
            .collect();
        found.retain(|path| !named.iter().any(|named| path.as_path() == Path::new(named)));
        let mut failed = Ok(());
        for path in &found {
            // A failure does not keep the others from being set.
            failed = failed.and(write(path, value));
        }
        failed
    }
}

impl Display for Sysctl {
    /// As a line for `sysctl -p`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_ignored() {
            f.write_str("-")?;
        }
        f.write_str(&self.key)?;
        match &self.value {
            Some(value) => write!(f, " = {value}"),
            None => Ok(()),
        }
    }
}

/// Its value in the calling thread's namespace, with one space between numbers; `None` if the
/// kernel has no such variable, or does not show it.
pub(crate) fn get(key: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(PLACE).join(relative(key))).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

pub(crate) fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(value.as_bytes())
}

fn check_key(key: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-/*?[]!".contains(c);
    let path = relative(key);
    let parts = || path.split('/');
    let bad = |part: &str| ["", ".", ".."].contains(&part);
    if !key.chars().all(good) || parts().any(bad) || parts().count() < 2 {
        return invalid(format!(
            "`{key}` is no sysctl; write for example net.ipv4.tcp_ecn"
        ));
    }
    if parts().next() != Some("net") {
        return invalid(format!(
            "sysctl `{key}` is the machine's, not a network namespace's; only those that \
             begin with `net.` may be set"
        ));
    }
    Ok(())
}

/// The path below `/proc/sys`: the first separator, a dot or a slash, separates; the other
/// character is a dot in a name, as in `net.ipv4.conf.eth0/100.rp_filter`.
fn relative(key: &str) -> String {
    match key.find(['.', '/']).map(|at| key.as_bytes()[at]) {
        Some(b'.') => key
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
        _ => key.to_owned(),
    }
}

/// The files that match a pattern of components, sorted.
fn expand(place: &Path, components: &[&str]) -> io::Result<Vec<PathBuf>> {
    let Some((component, rest)) = components.split_first() else {
        return Ok(if place.is_file() {
            vec![place.to_owned()]
        } else {
            Vec::new()
        });
    };
    if !component.contains(['*', '?', '[']) {
        return match place.join(component) {
            next if next.exists() => expand(&next, rest),
            _ => Ok(Vec::new()),
        };
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name();
        if matches(component.as_bytes(), name.as_encoded_bytes())
            && (rest.is_empty() || place.join(&name).is_dir())
        {
            found.extend(expand(&place.join(&name), rest)?);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a name matches a pattern of `*`, `?` and `[…]`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return name.is_empty();
    };
    match (first, name.split_first()) {
        (b'*', _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        (b'?', Some((_, after))) => matches(rest, after),
        (b'[', Some((byte, after))) => {
            // A bracket that is first in a set is a member of it.
            let negated = matches!(rest.first(), Some(b'!'));
            let set = &rest[usize::from(negated)..];
            let end = set.iter().skip(1).position(|&it| it == b']');
            let Some(end) = end.map(|end| end + 1) else {
                return *byte == b'[' && matches(rest, after);
            };
            is_of_set(&set[..end], *byte) != negated && matches(&set[end + 1..], after)
        }
        (first, Some((byte, after))) => first == byte && matches(rest, after),
        (_, None) => false,
    }
}

fn is_of_set(mut set: &[u8], byte: u8) -> bool {
    loop {
        set = match set {
            [] => return false,
            [low, b'-', high, ..] if (low..=high).contains(&&byte) => return true,
            [_, b'-', _, rest @ ..] => rest,
            [one, ..] if *one == byte => return true,
            [_, rest @ ..] => rest,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_sysctl_reads_it() {
        for (line, key, value, is_ignored) in [
            ("net.ipv4.tcp_ecn = 1", "net.ipv4.tcp_ecn", "1", false),
            ("net.ipv4.tcp_ecn=1", "net.ipv4.tcp_ecn", "1", false),
            ("net/ipv4/tcp_ecn =1", "net/ipv4/tcp_ecn", "1", false),
            ("-net.ipv4.tcp_ecn = 1", "net.ipv4.tcp_ecn", "1", true),
            ("- net.ipv4.tcp_ecn = 1", "net.ipv4.tcp_ecn", "1", true),
            (
                "net.ipv4.tcp_rmem = 4096 'a' = 5",
                "net.ipv4.tcp_rmem",
                "4096 'a' = 5",
                false,
            ),
            ("-net.ipv4.conf.h0.tag", "net.ipv4.conf.h0.tag", "", true),
        ] {
            let read = Sysctl::read(line).unwrap();
            let found = (read.key(), read.value(), read.is_ignored());
            assert_eq!(found, (key, value, is_ignored), "{line}");
        }
        for line in [
            "net.ipv4.tcp_ecn",
            "net.ipv4.tcp_ecn =",
            "= 1",
            "-",
            "-kernel.panic = 1",
        ] {
            assert!(Sysctl::read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_first_separator_ends_the_name() {
        for (key, path) in [
            ("net.ipv4.tcp_ecn", "net/ipv4/tcp_ecn"),
            ("net/ipv4/conf/eth0.1/tag", "net/ipv4/conf/eth0.1/tag"),
            ("net.ipv4.conf.eth0/1.tag", "net/ipv4/conf/eth0.1/tag"),
        ] {
            assert_eq!(
                Sysctl::new(key, "1").unwrap().path(),
                format!("/proc/sys/{path}")
            );
        }
        let of = |key: &str| Sysctl::new(key, "1").unwrap().device();
        assert_eq!(of("net.ipv4.conf.tor0.tag").as_deref(), Some("tor0"));
        assert_eq!(of("net.ipv6.neigh.*.app_solicit").as_deref(), Some("*"));
        assert_eq!(of("net.ipv4.tcp_ecn"), None);
    }

    #[test]
    fn a_pattern_matches_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "h0", true),
            ("h?", "h0", true),
            ("h?", "h10", false),
            ("h[0-4]", "h4", true),
            ("h[0-4]", "h5", false),
            ("h[!0-4]", "h5", true),
            ("h[15]*", "h10", true),
            ("tcp_*mem", "tcp_rmem", true),
            ("tcp_*mem", "tcp_rmem_x", false),
            ("h[", "h[", true),
            ("[]]", "]", true),
            ("x", "x", true),
            ("", "x", false),
        ] {
            let found = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_expands_to_existing_files() {
        let components = ["proc", "sys", "net", "ipv4", "conf", "[ad]*", "rp_filter"];
        let found = expand(Path::new("/"), &components).unwrap();
        let all = |name: &str| PathBuf::from(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        assert!(found.contains(&all("all")) && found.contains(&all("default")));
        assert!(!found.contains(&all("lo")), "{found:?}");
        let none = ["proc", "sys", "net", "ipv4", "nothing*"];
        assert!(expand(Path::new("/"), &none).unwrap().is_empty());
    }
}
