// SPDX-License-Identifier: MIT OR Apache-2.0

//! The machine that a result is from: the hash of its image, the last field of the header.
//!
//! The host adds it when the guest has ended, and hashes of results leave it out: an image that
//! differs in what no run meets gives the same results.

use std::borrow::Cow;

const BEGIN: &str = ",\"machine\":\"";
const END: &str = "\"}";

/// A result with its machine.
pub fn stamped(result: &[u8], machine: &str) -> Vec<u8> {
    let result = unstamped(result);
    let end = header(&result).len();
    let Some(head) = result[..end].strip_suffix(b"}") else {
        return result.into_owned();
    };
    [
        head,
        BEGIN.as_bytes(),
        machine.as_bytes(),
        END.as_bytes(),
        &result[end..],
    ]
    .concat()
}

/// A result without its machine, as the guest wrote it.
pub fn unstamped(result: &[u8]) -> Cow<'_, [u8]> {
    let Some(begin) = begin(result) else {
        return result.into();
    };
    let end = header(result).len();
    [&result[..begin], b"}", &result[end..]].concat().into()
}

/// The machine of a result.
pub fn machine(result: &[u8]) -> Option<&str> {
    let header = std::str::from_utf8(header(result)).ok()?;
    header.get(begin(result)? + BEGIN.len()..header.len() - END.len())
}

/// The first line.
fn header(result: &[u8]) -> &[u8] {
    result
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default()
}

/// Where the field begins, if the header has it.
fn begin(result: &[u8]) -> Option<usize> {
    let header = std::str::from_utf8(header(result)).ok()?;
    let begin = header.rfind(BEGIN)?;
    let value = header[begin + BEGIN.len()..].strip_suffix(END)?;
    let plain = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then_some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &[u8] =
        b"{\"record\":\"header\",\"inputs\":{\"flows\":\"0a\"}}\n{\"record\":\"summary\"}\n";

    #[test]
    fn a_result_tells_its_machine_and_is_the_same_without() {
        let one = stamped(RESULT, "0123456789abcdef");
        assert_eq!(machine(&one), Some("0123456789abcdef"));
        assert_eq!(*unstamped(&one), *RESULT);
        assert_eq!(machine(RESULT), None);
        assert_eq!(*unstamped(RESULT), *RESULT);
        let other = stamped(&one, "ff");
        assert_eq!(machine(&other), Some("ff"));
        assert_eq!(*unstamped(&other), *RESULT);
        let first = other.split(|&byte| byte == b'\n').next().unwrap();
        serde_json::from_slice::<serde_json::Value>(first).unwrap();
    }

    #[test]
    fn a_field_that_an_option_looks_like_is_none() {
        let odd = b"{\"options\":[\",\\\"machine\\\":\\\"aa\"]}\n";
        assert_eq!(machine(odd), None);
        assert_eq!(*unstamped(odd), *odd);
        assert_eq!(stamped(b"", "aa"), b"");
    }
}
