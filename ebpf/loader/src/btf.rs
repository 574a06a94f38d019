// SPDX-License-Identifier: MIT OR Apache-2.0

//! A reader of the kernel's type information (BTF) that finds the offset of a structure's member.
//! aya does this for programs written in C (CO-RE), but not for those in Rust.

use anyhow::{Context as _, Result};

/// The file of the running kernel.
pub(crate) const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;

const STRUCT: u32 = 4;

/// Offset in bytes of `member` in `struct name` of the kernel whose types are in a file, such as
/// [`KERNEL`].
pub(crate) fn member_offset(kernel: &str, name: &str, member: &str) -> Result<u32> {
    let bytes = std::fs::read(kernel).with_context(|| {
        format!("reading {kernel}: weft's eBPF programs need a kernel with CONFIG_DEBUG_INFO_BTF=y")
    })?;
    find(&bytes, name, member)
        .with_context(|| format!("{kernel} does not tell where {name}.{member} is"))
}

fn find(bytes: &[u8], name: &str, member: &str) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
        return None;
    }
    let header = word(4)? as usize;
    let types = header + word(8)? as usize;
    let end = types + word(12)? as usize;
    let strings = header + word(16)? as usize;
    let is = |offset: u32, expected: &str| {
        let text = bytes.get(strings + offset as usize..)?;
        let text = text.strip_prefix(expected.as_bytes())?;
        (text.first() == Some(&0)).then_some(())
    };
    let mut at = types;
    while at < end {
        let (type_name, info) = (word(at)?, word(at + 4)?);
        let (kind, count) = (info >> 24 & 31, info as usize & 0xffff);
        at += 12;
        if kind == STRUCT && is(type_name, name).is_some() {
            // With this flag, the upper byte is the width of a bit field.
            let mask = if info >> 31 == 1 { 0xff_ffff } else { u32::MAX };
            return (0..count).map(|index| at + 12 * index).find_map(|at| {
                is(word(at)?, member)?;
                Some((word(at + 8)? & mask) / 8)
            });
        }
        at += size(kind, count)?;
    }
    None
}

/// Bytes after a type of this kind with `count` parts.
fn size(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Pointer, forward, typedef, volatile, const, restrict, function, float, type tag.
        2 | 7..=12 | 16 | 18 => 0,
        // Integer, variable, declaration tag.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Structure, union, section, 64-bit enumeration.
        4 | 5 | 15 | 19 => 12 * count,
        // Enumeration, function prototype.
        6 | 13 => 8 * count,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct s { int a; int b; }` after a pointer and an integer.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0s\0a\0b\0";
        let types: Vec<u32> = [
            &[1, 1 << 24, 4, 32][..],
            &[0, 2 << 24, 1],
            &[5, 4 << 24 | 2, 8, 7, 1, 0, 9, 1, 32],
        ]
        .concat();
        let mut bytes = Vec::new();
        bytes.extend(0xeb9f_u16.to_ne_bytes());
        bytes.extend([1, 0]);
        let length = types.len() as u32 * 4;
        for word in [24, 0, length, length, strings.len() as u32] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        for word in types {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn the_offset_of_a_member_is_found() {
        assert_eq!(find(&sample(), "s", "a"), Some(0));
        assert_eq!(find(&sample(), "s", "b"), Some(4));
        assert_eq!(find(&sample(), "s", "c"), None);
        assert_eq!(find(&sample(), "t", "a"), None);
    }

    #[test]
    fn a_kernel_without_types_is_answered_with_its_option() {
        let error = member_offset("/nowhere/btf/vmlinux", "tcp_sock", "write_seq").unwrap_err();
        let said = format!("{error:#}");
        assert!(
            said.starts_with("reading /nowhere/btf/vmlinux: ")
                && said.contains("CONFIG_DEBUG_INFO_BTF=y"),
            "{said}"
        );
        // A file that has no such types.
        let other = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let error = member_offset(other, "tcp_sock", "write_seq").unwrap_err();
        let said = format!("{other} does not tell where tcp_sock.write_seq is");
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn truncated_types_are_no_answer() {
        let bytes = sample();
        for length in 0..bytes.len() - 3 {
            assert_eq!(find(&bytes[..length], "s", "b"), None, "{length}");
        }
    }
}
