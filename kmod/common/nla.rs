// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Netlink attributes: a sequence of type, length and payload, each aligned to 4 bytes.
//!
//! ```text
//!  0      2      4                    length        next multiple of 4
//!  +------+------+--------------------+-------------+
//!  |length| type | payload            | padding     | next attribute …
//!  +------+------+--------------------+-------------+
//!  length counts the header and the payload, not the padding; both are host-endian.
//! ```
//!
//! The format is that of the kernel's `include/uapi/linux/netlink.h` (`struct nlattr`). A request
//! is checked strictly: junk after the last attribute, an unknown type, a payload of the wrong size
//! or an option given twice is refused with a sentence that says so, because a half-understood
//! request is worse than one that fails.

use core::ffi::CStr;

/// Bytes of an attribute's header.
pub const HEADER: usize = 4;

/// The bits of the type field that hold the type: the two above are `NLA_F_NESTED` and
/// `NLA_F_NET_BYTEORDER`.
pub const TYPE_MASK: u16 = 0x3fff;

/// A refusal: one sentence for extack (which `tc` prints as `Error: <sentence>.`) and, if one
/// attribute is at fault, its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence without its full stop.
    pub message: &'static CStr,
    /// The attribute at fault, if it is in the request.
    pub attr: Option<u16>,
    /// The error number of the refusal.
    pub kind: RefusalKind,
}

/// The error number of a [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// `EINVAL`: the request is malformed or incomplete.
    Invalid,
    /// `ERANGE`: a well-formed value outside of its range.
    Range,
}

impl Refusal {
    /// A request that is malformed or incomplete as a whole.
    pub const fn invalid(message: &'static CStr) -> Self {
        Self {
            message,
            attr: None,
            kind: RefusalKind::Invalid,
        }
    }

    /// A request with one malformed attribute.
    pub const fn invalid_attr(message: &'static CStr, attr: u16) -> Self {
        Self {
            message,
            attr: Some(attr),
            kind: RefusalKind::Invalid,
        }
    }

    /// A request with one attribute whose value is out of range.
    pub const fn range(message: &'static CStr, attr: u16) -> Self {
        Self {
            message,
            attr: Some(attr),
            kind: RefusalKind::Range,
        }
    }

    /// An attribute of an unknown type.
    pub const fn unknown(attr: u16) -> Self {
        Self::invalid_attr(c"Unknown attribute", attr)
    }
}

/// A destination of attributes: the kernel's socket buffer, `tc`'s request, a test's vector.
pub trait Sink {
    /// Appends one attribute.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it does not fit; nothing is then written. There are no other errors.
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), NoRoom>;
}

/// The message being written is full (`EMSGSIZE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Iterates over the attributes in the payload of a nest: the type, without its flag bits, and
/// the payload. It ends after the first [`Refusal`].
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The attributes in `payload`, which starts with the first one's header.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// Takes the first attribute and its padding.
    fn take(&mut self) -> Result<(u16, &'a [u8]), Refusal> {
        const TRUNCATED: Refusal = Refusal::invalid(c"Attribute is truncated");

        let Some((&[l0, l1, t0, t1], body)) = self.rest.split_first_chunk::<HEADER>() else {
            return Err(Refusal::invalid(c"Junk after the last attribute"));
        };
        let length = u16::from_ne_bytes([l0, l1]);
        let attr = u16::from_ne_bytes([t0, t1]) & TYPE_MASK;
        let size = usize::from(length).checked_sub(HEADER).ok_or(TRUNCATED)?;
        let (payload, after) = body.split_at_checked(size).ok_or(TRUNCATED)?;
        // The last attribute's padding may be missing, as the kernel's nla_next() allows.
        let padding = usize::from(length.wrapping_neg() & 3);
        self.rest = after.get(padding..).unwrap_or_default();
        Ok((attr, payload))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let attribute = self.take();
        if attribute.is_err() {
            self.rest = &[];
        }
        Some(attribute)
    }
}

impl core::iter::FusedIterator for Attributes<'_> {}

/// Reads a request: `say` stores one attribute, and returns `false` if its type is unknown.
///
/// # Errors
///
/// A [`Refusal`] for bytes that are not attributes, for an unknown type, and any refusal by `say`.
pub fn each(
    payload: &[u8],
    mut say: impl FnMut(u16, &[u8]) -> Result<bool, Refusal>,
) -> Result<(), Refusal> {
    for attribute in Attributes::new(payload) {
        let (attr, value) = attribute?;
        if !say(attr, value)? {
            return Err(Refusal::unknown(attr));
        }
    }
    Ok(())
}

/// Reads a payload of exactly `N` bytes.
fn exactly<const N: usize>(attr: u16, payload: &[u8]) -> Result<[u8; N], Refusal> {
    <[u8; N]>::try_from(payload)
        .map_err(|_| Refusal::invalid_attr(c"Attribute has the wrong size", attr))
}

/// Reads the payload of `attr` as a `u8`.
///
/// # Errors
///
/// A [`Refusal`] that names `attr` if the payload is not exactly 1 byte.
pub fn read_u8(attr: u16, payload: &[u8]) -> Result<u8, Refusal> {
    exactly(attr, payload).map(u8::from_ne_bytes)
}

/// Reads the payload of `attr` as a `u32`.
///
/// # Errors
///
/// A [`Refusal`] that names `attr` if the payload is not exactly 4 bytes.
pub fn read_u32(attr: u16, payload: &[u8]) -> Result<u32, Refusal> {
    exactly(attr, payload).map(u32::from_ne_bytes)
}

/// Reads the payload of `attr` as a `u64`.
///
/// # Errors
///
/// A [`Refusal`] that names `attr` if the payload is not exactly 8 bytes.
pub fn read_u64(attr: u16, payload: &[u8]) -> Result<u64, Refusal> {
    exactly(attr, payload).map(u64::from_ne_bytes)
}

/// Stores the value of `attr`, which may be given only once.
///
/// # Errors
///
/// A [`Refusal`] that names `attr` if `slot` is occupied.
pub fn say_once<T>(slot: &mut Option<T>, attr: u16, value: T) -> Result<(), Refusal> {
    if slot.is_some() {
        return Err(Refusal::invalid_attr(c"Attribute given twice", attr));
    }
    *slot = Some(value);
    Ok(())
}

/// Writes the fields of a fixed structure in sequence, in host byte order.
///
/// A field that does not fit is omitted. With the sizes of this crate, which its tests check, this
/// cannot happen; and a statistic of 0 is better than a kernel that stops.
pub(crate) struct FieldWriter<'a> {
    rest: &'a mut [u8],
}

impl<'a> FieldWriter<'a> {
    pub(crate) fn new(rest: &'a mut [u8]) -> Self {
        Self { rest }
    }

    fn put<const N: usize>(&mut self, field: [u8; N]) {
        if let Some((slot, rest)) = core::mem::take(&mut self.rest).split_first_chunk_mut::<N>() {
            *slot = field;
            self.rest = rest;
        }
    }

    pub(crate) fn put_u32(&mut self, field: u32) {
        self.put(field.to_ne_bytes());
    }

    pub(crate) fn put_u64(&mut self, field: u64) {
        self.put(field.to_ne_bytes());
    }
}

/// Reads the output of a [`FieldWriter`]; `None` once the bytes are used up.
pub(crate) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }

    pub(crate) fn take_u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(crate) fn take_u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }
}
