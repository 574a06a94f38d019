// SPDX-License-Identifier: MIT OR Apache-2.0

//! The C side: the symbols that `tc` finds in this library, and those that this library uses of
//! `tc`.
//!
//! `tc` is linked with `-export-dynamic`, so a plugin may call its functions. This library looks
//! them up at first use instead of linking against them: if a `tc` lacks one, the message names it
//! instead of a failure in the dynamic linker, and tests link without a `tc`. iproute2 6.1 to 7.2
//! export all functions in [`Tc`] with the same signature; `struct qdisc_util` is the same, too.
//!
//! `tc` has one thread.

use crate::args::Complaint;
use crate::options;
use crate::statistics;
use crate::tc::{Output, Units};
use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::io::Write;
use std::ptr;
use std::sync::OnceLock;
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::nla::{HEADER, NoRoom, Sink};
use weft_words::quantity::exact;

#[cfg(test)]
mod tests;

/// iproute2's `struct qdisc_util` (`tc/tc_util.h`).
#[repr(C)]
struct QdiscUtil {
    /// `tc` keeps the qdiscs that it knows in a list.
    next: *mut QdiscUtil,
    id: *const c_char,
    parse_qopt: Option<ParseOptions>,
    print_qopt: Option<Print>,
    print_xstats: Option<Print>,
    parse_copt: Option<ParseOptions>,
    print_copt: Option<Print>,
    has_block: Option<
        unsafe extern "C" fn(*const QdiscUtil, *const Attribute, c_uint, *mut bool) -> c_int,
    >,
}

type ParseOptions = unsafe extern "C" fn(
    *const QdiscUtil,
    c_int,
    *const *const c_char,
    *mut Message,
    *const c_char,
) -> c_int;

type Print = unsafe extern "C" fn(*const QdiscUtil, *mut File, *const Attribute) -> c_int;

/// C's `FILE`. `tc` passes `stdout`, to which its printing functions write anyway.
#[repr(C)]
struct File {
    _opaque: [u8; 0],
}

/// `struct nlmsghdr`, followed by the message. Only `tc` reads it.
#[repr(C)]
struct Message {
    _opaque: [u8; 0],
}

/// `struct rtattr`, followed by its payload.
#[repr(C)]
struct Attribute {
    length: u16,
    attr: u16,
}

/// A [`QdiscUtil`] that `tc` may write to.
#[repr(transparent)]
struct Exported(UnsafeCell<QdiscUtil>);

// SAFETY: only `tc` accesses it, and `tc` has one thread.
unsafe impl Sync for Exported {}

const fn exported(id: &'static CStr) -> Exported {
    Exported(UnsafeCell::new(QdiscUtil {
        next: ptr::null_mut(),
        id: id.as_ptr(),
        parse_qopt: Some(parse_qopt),
        print_qopt: Some(print_qopt),
        print_xstats: Some(print_xstats),
        parse_copt: None,
        print_copt: None,
        has_block: None,
    }))
}

macro_rules! export {
    ($($qdisc:ident),*) => {
        /// The exported symbols, for tests.
        #[cfg(test)]
        const EXPORTED: &[(&str, &Exported)] = &[$((stringify!($qdisc), &$qdisc::UTIL)),*];

        $(mod $qdisc {
            // SAFETY: `tc` looks for a `struct qdisc_util` under this name, and nothing else has
            // this name.
            #[unsafe(export_name = concat!(stringify!($qdisc), "_qdisc_util"))]
            pub(super) static UTIL: super::Exported =
                super::exported(super::c_str(concat!(stringify!($qdisc), "\0")));
        })*
    };
}
weft_mechanisms::for_qdiscs!(export);

/// The qdisc for which `tc` calls, and `tc`'s functions; prints an error if `tc` lacks one.
///
/// # Safety
///
/// `util` is one of those exported above.
unsafe fn called(util: *const QdiscUtil) -> Option<(&'static Qdisc, &'static Tc)> {
    // SAFETY: the caller vouches for it; `id` is a static string, to which `tc` does not write.
    let id = unsafe { CStr::from_ptr((*util).id) };
    let qdisc = weft_mechanisms::qdisc(id.to_str().ok()?)?;
    Some((qdisc, Tc::of_this_process(qdisc)?))
}

// iproute2's `enum output_type` and `COLOR_NONE` of `enum color_attr`.
const PRINT_FP: c_uint = 1;
const PRINT_JSON: c_uint = 2;
const PRINT_ANY: c_uint = 4;
const COLOR_NONE: c_uint = 6;

/// Attribute type of a qdisc's options, and the flag that says it holds attributes.
const TCA_OPTIONS: c_int = 2;
const NLA_F_NESTED: c_int = 1 << 15;

/// Maximum size of a request in bytes: the limit of iproute2's own qdiscs, and a small part of the
/// buffer.
const REQUEST_MAX: c_int = 1024;

/// Buffer size for `sprint_time64()`: iproute2's `SPRINT_BSIZE`.
const TIME_TEXT_MAX: usize = 64;

/// Declares [`Tc`], the table of the functions of `tc` that are used here.
macro_rules! tc_functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of the `tc` that loaded this library.
        struct Tc {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Tc {
            /// Looks up all functions; if one is missing, returns its name.
            fn look_up() -> Result<Self, &'static CStr> {
                Ok(Self {
                    $($name: {
                        const NAME: &CStr = c_str(concat!(stringify!($name), "\0"));
                        // SAFETY: a name and a handle that stands for every loaded object.
                        let address = unsafe { dlsym(RTLD_DEFAULT, NAME.as_ptr()) };
                        if address.is_null() {
                            return Err(NAME);
                        }
                        // SAFETY: the address is that of tc's function with this name, which has
                        // this signature in every supported version.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

tc_functions! {
    get_rate64: fn(*mut u64, *const c_char) -> c_int;
    get_time64: fn(*mut i64, *const c_char) -> c_int;
    get_size: fn(*mut c_uint, *const c_char) -> c_int;
    get_u64: fn(*mut u64, *const c_char, c_int) -> c_int;
    sprint_time64: fn(i64, *mut c_char) -> *mut c_char;
    ll_name_to_index: fn(*const c_char) -> c_uint;
    ll_index_to_name: fn(c_uint) -> *const c_char;

    print_color_string: fn(c_uint, c_uint, *const c_char, *const c_char, *const c_char) -> c_int;
    print_color_lluint: fn(c_uint, c_uint, *const c_char, *const c_char, c_ulonglong) -> c_int;
    print_color_bool: fn(c_uint, c_uint, *const c_char, *const c_char, bool) -> c_int;
    tc_print_rate: fn(c_uint, *const c_char, *const c_char, c_ulonglong);
    print_nl: fn();
    open_json_array: fn(c_uint, *const c_char);
    close_json_array: fn(c_uint, *const c_char);

    addattr_l: fn(*mut Message, c_int, c_int, *const c_void, c_int) -> c_int;
    addattr_nest: fn(*mut Message, c_int, c_int) -> *mut Attribute;
    addattr_nest_end: fn(*mut Message, *mut Attribute) -> c_int;

    incomplete_command: fn() -> !;
    duparg: fn(*const c_char, *const c_char) -> !;
}

/// Searches all objects of the process, in the order in which they were loaded.
const RTLD_DEFAULT: *mut c_void = ptr::null_mut();

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

const fn c_str(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("no name with one NUL at its end"),
    }
}

impl Tc {
    /// The functions of the `tc` that loaded this library; prints an error if one is missing.
    fn of_this_process(qdisc: &Qdisc) -> Option<&'static Self> {
        static TC: OnceLock<Result<Tc, &'static CStr>> = OnceLock::new();
        match TC.get_or_init(Self::look_up) {
            Ok(tc) => Some(tc),
            Err(name) => {
                complain(&format!(
                    "{}: this tc has no {}(): use tc of iproute2 6.1 or newer\n",
                    qdisc.kind,
                    name.to_string_lossy(),
                ));
                None
            }
        }
    }

    /// Parses a quantity with `get`, one of tc's functions that return 0 on success.
    fn quantity<T: Default>(
        &self,
        text: &str,
        get: unsafe extern "C" fn(*mut T, *const c_char) -> c_int,
    ) -> Option<T> {
        let text = CString::new(text).ok()?;
        let mut value = T::default();
        // SAFETY: a variable to write to and a string to read.
        let result = unsafe { get(&mut value, text.as_ptr()) };
        (result == 0).then_some(value)
    }
}

impl Units for Tc {
    fn rate(&self, text: &str) -> Option<u64> {
        self.quantity(text, self.get_rate64)
    }

    fn time(&self, text: &str) -> Option<u64> {
        exact(text, |one| {
            // iproute2 6.1 accepts negative times.
            self.quantity(one, self.get_time64)?.try_into().ok()
        })
    }

    fn size(&self, text: &str) -> Option<u64> {
        exact(text, |one| Some(self.quantity(one, self.get_size)?.into()))
    }

    fn number(&self, text: &str) -> Option<u64> {
        // C's strtoull() accepts a sign and wraps around. Negative values count as -1: all are out
        // of range.
        if text.starts_with('-') {
            return Some(u64::MAX);
        }
        let text = CString::new(text).ok()?;
        let mut value = 0;
        // SAFETY: a variable to write to and a string to read; base 0 accepts prefixes such as 0x.
        let result = unsafe { (self.get_u64)(&mut value, text.as_ptr(), 0) };
        (result == 0).then_some(value)
    }

    fn device(&self, name: &str) -> Option<u32> {
        let name = CString::new(name).ok()?;
        // SAFETY: a string to read; 0 is no device.
        let index = unsafe { (self.ll_name_to_index)(name.as_ptr()) };
        (index != 0).then_some(index)
    }
}

impl Output for Tc {
    fn text(&self, text: &str) {
        let Ok(text) = CString::new(text) else {
            return; // No text of this library holds a NUL.
        };
        // SAFETY: a format for one string, and that string.
        unsafe {
            (self.print_color_string)(
                PRINT_FP,
                COLOR_NONE,
                ptr::null(),
                c"%s".as_ptr(),
                text.as_ptr(),
            );
        }
    }

    fn new_line(&self) {
        // SAFETY: it has no parameters.
        unsafe { (self.print_nl)() }
    }

    fn time(&self, nanoseconds: u64) -> String {
        let nanoseconds = nanoseconds.try_into().unwrap_or(i64::MAX);
        let mut text = [0_u8; TIME_TEXT_MAX];
        // SAFETY: a buffer of the size that tc's own callers use.
        unsafe { (self.sprint_time64)(nanoseconds, text.as_mut_ptr().cast()) };
        CStr::from_bytes_until_nul(&text)
            .map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    fn rate(&self, key: &CStr, bytes_per_second: u64) {
        // SAFETY: a key, and a format for one string.
        unsafe {
            (self.tc_print_rate)(PRINT_ANY, key.as_ptr(), c"%s".as_ptr(), bytes_per_second);
        }
    }

    fn number(&self, key: &CStr, value: u64) {
        self.json_number(key.as_ptr(), value);
    }

    fn boolean(&self, key: &CStr, value: bool) {
        // SAFETY: a key; no format is needed for JSON.
        unsafe {
            (self.print_color_bool)(PRINT_JSON, COLOR_NONE, key.as_ptr(), ptr::null(), value);
        }
    }

    fn string(&self, key: &CStr, value: &str) {
        self.json_string(key.as_ptr(), value);
    }

    fn array(&self, key: &CStr, values: &[u64]) {
        self.json_array(key, values, |value| self.json_number(ptr::null(), *value));
    }

    fn strings(&self, key: &CStr, values: &[String]) {
        self.json_array(key, values, |value| self.json_string(ptr::null(), value));
    }

    fn device(&self, index: u32) -> String {
        // SAFETY: tc returns a string for any index, which is valid until the next call.
        let name = unsafe { CStr::from_ptr((self.ll_index_to_name)(index)) };
        name.to_string_lossy().into_owned()
    }
}

impl Tc {
    fn json_array<T>(&self, key: &CStr, values: &[T], print: impl FnMut(&T)) {
        // SAFETY: a key.
        unsafe { (self.open_json_array)(PRINT_JSON, key.as_ptr()) }
        values.iter().for_each(print);
        // SAFETY: closes the array that was opened; JSON needs no name here.
        unsafe { (self.close_json_array)(PRINT_JSON, ptr::null()) }
    }

    /// A string in JSON, or in an array if `key` is null.
    fn json_string(&self, key: *const c_char, value: &str) {
        let Ok(value) = CString::new(value) else {
            return; // No text of this library holds a NUL.
        };
        // SAFETY: a key or null, which tc too passes within arrays; JSON needs no format.
        unsafe {
            let format = ptr::null();
            (self.print_color_string)(PRINT_JSON, COLOR_NONE, key, format, value.as_ptr());
        }
    }

    /// A number in JSON, or in an array if `key` is null.
    fn json_number(&self, key: *const c_char, value: u64) {
        // SAFETY: a key or null, which tc too passes within arrays; JSON needs no format.
        unsafe {
            (self.print_color_lluint)(PRINT_JSON, COLOR_NONE, key, ptr::null(), value);
        }
    }

    /// Prints an error of the command line, and exits if `tc` does so for this error.
    fn complain(&self, qdisc: &Qdisc, complaint: &Complaint) {
        if let Some(lines) = complaint.lines(&options::usage(qdisc)) {
            complain(&lines);
        }
        match complaint {
            // SAFETY: it has no parameters; it exits the process.
            Complaint::Incomplete { .. } => unsafe { (self.incomplete_command)() },
            Complaint::Duplicate { option, value } => {
                let option = CString::new(*option).unwrap_or_default();
                let value = CString::new(value.as_str()).unwrap_or_default();
                // SAFETY: two strings; it exits the process.
                unsafe { (self.duparg)(option.as_ptr(), value.as_ptr()) }
            }
            _ => {}
        }
    }
}

/// Writes to standard error. A failure cannot be reported anywhere, so it is ignored.
fn complain(lines: &str) {
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

/// A request under construction.
struct Request<'a> {
    tc: &'a Tc,
    message: *mut Message,
}

impl Sink for Request<'_> {
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), NoRoom> {
        let length = payload.len().try_into().map_err(|_| NoRoom)?;
        // SAFETY: `message` is the request that tc is building, whose buffer holds more than
        // `REQUEST_MAX` bytes; the payload has this length.
        let result = unsafe {
            let payload = payload.as_ptr().cast();
            (self.tc.addattr_l)(self.message, REQUEST_MAX, attr.into(), payload, length)
        };
        if result == 0 { Ok(()) } else { Err(NoRoom) }
    }
}

/// The words after the qdisc's name. A word that is not UTF-8 stays an unknown option.
///
/// # Safety
///
/// `argv` points to `argc` strings, if `argc` is not 0, which live as long as the result.
unsafe fn words<'a>(argc: c_int, argv: *const *const c_char) -> Vec<Cow<'a, str>> {
    (0..argc.try_into().unwrap_or(0))
        .map(|index| {
            // SAFETY: the index is less than `argc`; the caller vouches for `argv`.
            let word = unsafe { CStr::from_ptr(*argv.add(index)) };
            word.to_string_lossy()
        })
        .collect()
}

/// The payload of an attribute.
///
/// # Safety
///
/// `attribute` points to an attribute whose length is correct and which outlives the result.
unsafe fn payload<'a>(attribute: *const Attribute) -> &'a [u8] {
    // SAFETY: the caller vouches for the header …
    let length = usize::from(unsafe { (*attribute).length });
    // SAFETY: … and for the bytes of its length.
    unsafe {
        std::slice::from_raw_parts(
            attribute.cast::<u8>().add(HEADER),
            length.saturating_sub(HEADER),
        )
    }
}

/// Parses the command line and writes the request with `tc`'s functions; returns 0, or −1 after an
/// error message.
///
/// # Safety
///
/// That of [`words`]; `message` is a request of `tc`, with room after it.
unsafe fn parse(
    qdisc: &'static Qdisc,
    tc: &Tc,
    argc: c_int,
    argv: *const *const c_char,
    message: *mut Message,
) -> c_int {
    // SAFETY: the caller upholds it.
    let words = unsafe { words(argc, argv) };
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let options = match options::read(qdisc, &words, tc) {
        Ok(options) => options,
        Err(complaint) => {
            tc.complain(qdisc, &complaint);
            return -1;
        }
    };
    // SAFETY: `message` is the request that tc is building.
    let nest = unsafe { (tc.addattr_nest)(message, REQUEST_MAX, TCA_OPTIONS | NLA_F_NESTED) };
    // If the message is full, tc has already reported it.
    let result = options.put(&mut Request { tc, message });
    // SAFETY: ends the nest begun above, in the same message.
    unsafe { (tc.addattr_nest_end)(message, nest) };
    if result.is_ok() { 0 } else { -1 }
}

/// `qdisc_util.parse_qopt`: `tc qdisc add … KIND` and its options.
///
/// # Safety
///
/// Called by `tc`, which passes `argc` strings in `argv` and its request as `message`.
unsafe extern "C" fn parse_qopt(
    util: *const QdiscUtil,
    argc: c_int,
    argv: *const *const c_char,
    message: *mut Message,
    _device: *const c_char,
) -> c_int {
    // SAFETY: `tc` passes the symbol that it called.
    let Some((qdisc, tc)) = (unsafe { called(util) }) else {
        return -1;
    };
    // SAFETY: the caller upholds it.
    unsafe { parse(qdisc, tc, argc, argv, message) }
}

/// `qdisc_util.print_qopt`: the options in `tc qdisc show`.
///
/// # Safety
///
/// Called by `tc`, which passes null, or an attribute that it has checked to lie within its
/// message.
unsafe extern "C" fn print_qopt(
    util: *const QdiscUtil,
    _: *mut File,
    dumped: *const Attribute,
) -> c_int {
    if dumped.is_null() {
        return 0;
    }
    // SAFETY: `tc` passes the symbol that it called.
    let Some((qdisc, tc)) = (unsafe { called(util) }) else {
        return -1;
    };
    // SAFETY: the caller vouches for the attribute.
    let dump = unsafe { payload(dumped) };
    match options::print(qdisc, dump, tc) {
        Ok(()) => 0,
        Err(refusal) => {
            complain(&format!(
                "{}: cannot read the options: {}: is {} of the same release as the kernel module?\n",
                qdisc.kind,
                refusal.message.to_string_lossy(),
                library_name(qdisc),
            ));
            -1
        }
    }
}

/// `qdisc_util.print_xstats`: the statistics in `tc -s qdisc show`.
///
/// # Safety
///
/// That of [`print_qopt`].
unsafe extern "C" fn print_xstats(
    util: *const QdiscUtil,
    _: *mut File,
    dumped: *const Attribute,
) -> c_int {
    if dumped.is_null() {
        return 0;
    }
    // SAFETY: `tc` passes the symbol that it called.
    let Some((qdisc, tc)) = (unsafe { called(util) }) else {
        return -1;
    };
    // SAFETY: the caller vouches for the attribute.
    let dump = unsafe { payload(dumped) };
    match statistics::print(qdisc, dump, tc) {
        Ok(()) => 0,
        Err(too_short) => {
            complain(&format!(
                "{}: {} bytes of statistics instead of {}: \
                 is {} of the same release as the kernel module?\n",
                qdisc.kind,
                dump.len(),
                too_short.needed,
                library_name(qdisc),
            ));
            -1
        }
    }
}

/// The name under which `tc` finds this library.
fn library_name(qdisc: &Qdisc) -> String {
    format!("q_{}.so", qdisc.kind)
}
