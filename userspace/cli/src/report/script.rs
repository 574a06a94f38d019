// SPDX-License-Identifier: MIT OR Apache-2.0

//! The script of a page, and the permission to run it and no other one.

use sha2::{Digest as _, Sha256};

/// The script, without the comment about its source.
pub(super) fn text() -> &'static str {
    let script = include_str!("script.js");
    script.split_once('\n').map_or("", |it| it.1)
}

/// The source of scripts in a content security policy: the hash of this one.
pub(super) fn source() -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text())))
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, place| {
            bits << 8 | u32::from(three.get(place).copied().unwrap_or(0))
        });
        for place in 0..4 {
            let digit = bits >> (18 - 6 * place) & 63;
            let is_padding = place > three.len();
            text.push(if is_padding {
                '='
            } else {
                char::from(DIGITS[digit as usize])
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 4648, section 10.
    #[test]
    fn base64_agrees_with_its_standard() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
