// SPDX-License-Identifier: GPL-2.0-only

//! Options in, refusals and dumps out.
//!
//! Each mechanism's `options` defines the attributes' meanings and the refusals' sentences. This
//! module moves their bytes between the kernel's structures and Rust slices.

use core::ptr::NonNull;

use kernel::prelude::*;

use super::bindings::{
    netlink_ext_ack, nla_put, nlattr, sk_buff, weft_nest_cancel, weft_nest_end, weft_nest_start,
    weft_nla_find, TCA_OPTIONS,
};
use crate::common::nla::{NoRoom, Refusal, RefusalKind, Sink};

/// The nest of options of a request; a request without one has an empty nest.
#[derive(Clone, Copy)]
pub(super) struct Nest {
    attr: Option<NonNull<nlattr>>,
}

impl Nest {
    /// # Safety
    ///
    /// `attr` is null or a whole, validated attribute that outlives the value.
    pub(super) unsafe fn from_raw(attr: *mut nlattr) -> Self {
        Self {
            attr: NonNull::new(attr),
        }
    }

    /// The attributes inside.
    pub(super) fn payload(&self) -> &[u8] {
        let Some(attr) = self.attr else {
            return &[];
        };
        // SAFETY: A valid attribute (from_raw).
        let len = usize::from(unsafe { (*attr.as_ptr()).nla_len });
        let len = len.saturating_sub(size_of::<nlattr>());
        // SAFETY: `nla_len` bytes from the header on are the attribute's (from_raw), and the
        // header's size is a multiple of NLA_ALIGNTO.
        unsafe { core::slice::from_raw_parts(attr.as_ptr().add(1).cast::<u8>(), len) }
    }
}

/// The place for a reply's sentence: `Error: …` in tc.
pub(super) struct ExtAck(*mut netlink_ext_ack);

impl ExtAck {
    /// # Safety
    ///
    /// `extack` is null or valid for the value's life.
    pub(super) unsafe fn from_raw(extack: *mut netlink_ext_ack) -> Self {
        Self(extack)
    }

    pub(super) fn as_ptr(&self) -> *mut netlink_ext_ack {
        self.0
    }

    /// Puts a sentence into the reply.
    pub(super) fn explain(&mut self, sentence: &'static core::ffi::CStr) {
        if !self.0.is_null() {
            // SAFETY: Valid (from_raw); the sentence is static.
            unsafe { (*self.0)._msg = sentence.as_ptr().cast() }
        }
    }

    /// Puts the refusal's sentence, and the attribute at fault, into the reply; returns the
    /// matching errno.
    pub(super) fn refuse(&mut self, refusal: &Refusal, nest: &Nest) -> Error {
        let bad_attr = match (refusal.attr, nest.attr) {
            (Some(attr), Some(nest)) => {
                // SAFETY: A whole attribute (Nest::from_raw), which nla_find() walks with its own
                // checks.
                unsafe { weft_nla_find(nest.as_ptr(), attr.into()) }
            }
            _ => core::ptr::null(),
        };
        self.explain(refusal.message);
        if !self.0.is_null() && !bad_attr.is_null() {
            // SAFETY: Valid (from_raw); the attribute is part of the request.
            unsafe { (*self.0).bad_attr = bad_attr }
        }
        match refusal.kind {
            RefusalKind::Invalid => EINVAL,
            RefusalKind::Range => ERANGE,
        }
    }
}

/// A reply under construction, inside its nest of options.
pub struct Dump(*mut sk_buff);

impl Sink for Dump {
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), NoRoom> {
        let Ok(len) = c_int::try_from(payload.len()) else {
            return Err(NoRoom);
        };
        // SAFETY: The message is valid (dump_options); nla_put() copies `len` bytes or fails.
        match unsafe { nla_put(self.0, attr.into(), len, payload.as_ptr().cast()) } {
            0 => Ok(()),
            _ => Err(NoRoom),
        }
    }
}

/// Writes a nest `TCA_OPTIONS` with the contents from `fill`; returns a dump callback's return
/// value.
///
/// # Safety
///
/// `skb` is the message of a running dump.
pub(super) unsafe fn dump_options(
    skb: *mut sk_buff,
    fill: impl FnOnce(&mut Dump) -> Result<(), NoRoom>,
) -> c_int {
    // SAFETY: As the caller promises.
    let nest = unsafe { weft_nest_start(skb, TCA_OPTIONS as c_int) };
    if nest.is_null() {
        return EMSGSIZE.to_errno();
    }
    match fill(&mut Dump(skb)) {
        // SAFETY: `nest` was started above in the same message.
        Ok(()) => unsafe { weft_nest_end(skb, nest) },
        Err(NoRoom) => {
            // SAFETY: As above.
            unsafe { weft_nest_cancel(skb, nest) };
            EMSGSIZE.to_errno()
        }
    }
}
