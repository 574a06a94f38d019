// SPDX-License-Identifier: MIT OR Apache-2.0

//! The C side against functions with the behaviour of those of `tc`. `tests/plugin/real_tc.rs`
//! checks the real ones; these tests check the requests to the kernel and the JSON.

use super::*;
use std::cell::RefCell;
use weft_mechanisms::pfabric::options as pfabric;
use weft_mechanisms::wire::options as wire;

/// `enum output_type` of iproute2's `include/json_print.h`.
const FP: c_uint = 1;
const JSON: c_uint = 2;
const ANY: c_uint = 4;
/// `enum color_attr` of iproute2's `include/color.h`.
const NONE: c_uint = 6;

thread_local! {
    /// The JSON that was printed, call by call.
    static PRINTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn printed(call: String) {
    PRINTED.with_borrow_mut(|calls| calls.push(call));
}

/// A C string; empty for null.
///
/// # Safety
///
/// `text` is null or points to a string that outlives the result.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller upholds it.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap()
}

/// `number` times 10 if the text is a number, else a failure: a unit that exists only here.
///
/// # Safety
///
/// That of [`text`].
unsafe fn tenfold<T: From<u32>>(value: *mut T, from: *const c_char) -> c_int {
    // SAFETY: the caller upholds it.
    match unsafe { text(from) }.parse::<u32>() {
        Ok(number) => {
            // SAFETY: the code under test passes a variable.
            unsafe { *value = (number * 10).into() };
            0
        }
        Err(_) => -1,
    }
}

unsafe extern "C" fn get_rate64(value: *mut u64, from: *const c_char) -> c_int {
    // SAFETY: as passed by the code under test.
    unsafe { tenfold(value, from) }
}

/// Like iproute2 6.1, accepts negative times.
unsafe extern "C" fn get_time64(value: *mut i64, from: *const c_char) -> c_int {
    // SAFETY: as passed by the code under test.
    match unsafe { text(from) }.parse() {
        Ok(number) => {
            // SAFETY: as above.
            unsafe { *value = number };
            0
        }
        Err(_) => -1,
    }
}

unsafe extern "C" fn get_size(value: *mut c_uint, from: *const c_char) -> c_int {
    // SAFETY: as passed by the code under test.
    unsafe { tenfold(value, from) }
}

unsafe extern "C" fn get_u64(value: *mut u64, from: *const c_char, base: c_int) -> c_int {
    assert_eq!(base, 0, "numbers may be hexadecimal");
    // SAFETY: as passed by the code under test.
    unsafe { tenfold(value, from) }
}

unsafe extern "C" fn sprint_time64(nanoseconds: i64, buffer: *mut c_char) -> *mut c_char {
    let time = CString::new(format!("{nanoseconds} ns")).unwrap();
    // SAFETY: the code under test passes a buffer of `TIME_TEXT_MAX` bytes.
    unsafe { ptr::copy_nonoverlapping(time.as_ptr(), buffer, time.as_bytes_with_nul().len()) };
    buffer
}

unsafe extern "C" fn print_color_string(
    output: c_uint,
    color: c_uint,
    key: *const c_char,
    format: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: as passed by the code under test.
    let (name, format, value) = unsafe { (text(key), text(format), text(value)) };
    assert_eq!(color, NONE);
    match output {
        FP => {
            assert!(key.is_null());
            assert_eq!(format, "%s");
            printed(format!("text {value}"));
        }
        JSON => printed(format!("{name}: \"{value}\"")),
        other => panic!("output type {other}"),
    }
    0
}

unsafe extern "C" fn ll_name_to_index(name: *const c_char) -> c_uint {
    // SAFETY: as passed by the code under test.
    match unsafe { text(name) } {
        "eth7" => 7,
        _ => 0,
    }
}

unsafe extern "C" fn ll_index_to_name(index: c_uint) -> *const c_char {
    match index {
        7 => c"eth7".as_ptr(),
        _ => c"if?".as_ptr(),
    }
}

unsafe extern "C" fn print_color_lluint(
    output: c_uint,
    color: c_uint,
    key: *const c_char,
    _format: *const c_char,
    value: c_ulonglong,
) -> c_int {
    assert_eq!((output, color), (JSON, NONE));
    // SAFETY: as passed by the code under test.
    printed(format!("{}: {value}", unsafe { text(key) }));
    0
}

unsafe extern "C" fn print_color_bool(
    output: c_uint,
    color: c_uint,
    key: *const c_char,
    _format: *const c_char,
    value: bool,
) -> c_int {
    assert_eq!((output, color), (JSON, NONE));
    // SAFETY: as passed by the code under test.
    printed(format!("{}: {value}", unsafe { text(key) }));
    0
}

unsafe extern "C" fn tc_print_rate(
    output: c_uint,
    key: *const c_char,
    format: *const c_char,
    rate: c_ulonglong,
) {
    assert_eq!(output, ANY);
    // SAFETY: as passed by the code under test.
    let (key, format) = unsafe { (text(key), text(format)) };
    assert_eq!(format, "%s");
    printed(format!("{key}: rate of {rate}"));
}

unsafe extern "C" fn print_nl() {
    printed("end of line".to_owned());
}

unsafe extern "C" fn open_json_array(output: c_uint, key: *const c_char) {
    assert_eq!(output, JSON);
    // SAFETY: as passed by the code under test.
    printed(format!("{}: [", unsafe { text(key) }));
}

unsafe extern "C" fn close_json_array(output: c_uint, _: *const c_char) {
    assert_eq!(output, JSON);
    printed("]".to_owned());
}

/// A netlink message: `struct nlmsghdr` and room after it.
#[repr(C, align(4))]
struct Buffer {
    length: u32,
    rest: [u8; 2044],
}

/// `struct nlmsghdr` and `struct tcmsg`.
const EMPTY: usize = 16 + 20;

impl Buffer {
    fn of_length(length: usize) -> Self {
        Self {
            length: length.try_into().unwrap(),
            rest: [0; 2044],
        }
    }

    fn as_message(&mut self) -> *mut Message {
        ptr::from_mut(self).cast()
    }

    /// The bytes appended to an empty request.
    fn appended(&self) -> &[u8] {
        &self.rest[EMPTY - 4..self.length as usize - 4]
    }
}

unsafe extern "C" fn addattr_l(
    message: *mut Message,
    limit: c_int,
    attr: c_int,
    payload: *const c_void,
    length: c_int,
) -> c_int {
    // SAFETY: the tests pass a `Buffer`.
    let buffer = unsafe { &mut *message.cast::<Buffer>() };
    let size = usize::try_from(length).unwrap();
    let start = buffer.length as usize;
    let end = start + (HEADER + size).next_multiple_of(4);
    if end > usize::try_from(limit).unwrap() {
        return -1;
    }
    let place = &mut buffer.rest[start - 4..end - 4];
    place[..2].copy_from_slice(&u16::try_from(HEADER + size).unwrap().to_ne_bytes());
    place[2..4].copy_from_slice(&u16::try_from(attr).unwrap().to_ne_bytes());
    if size != 0 {
        // SAFETY: the code under test passes a payload of this length.
        let payload = unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), size) };
        place[HEADER..HEADER + size].copy_from_slice(payload);
    }
    buffer.length = end.try_into().unwrap();
    0
}

unsafe extern "C" fn addattr_nest(
    message: *mut Message,
    limit: c_int,
    attr: c_int,
) -> *mut Attribute {
    // SAFETY: the tests pass a `Buffer`.
    let nest = unsafe {
        let length = (*message.cast::<Buffer>()).length;
        message.cast::<u8>().add(length as usize).cast()
    };
    // SAFETY: as passed by the code under test.
    unsafe { addattr_l(message, limit, attr, ptr::null(), 0) };
    nest
}

unsafe extern "C" fn addattr_nest_end(message: *mut Message, nest: *mut Attribute) -> c_int {
    // SAFETY: the tests pass a `Buffer`, and the nest begins in it.
    unsafe {
        let length = (*message.cast::<Buffer>()).length;
        let end = message.cast::<u8>().add(length as usize);
        (*nest).length = end.offset_from(nest.cast::<u8>()).try_into().unwrap();
        length.try_into().unwrap()
    }
}

unsafe extern "C" fn incomplete_command() -> ! {
    std::process::abort()
}

unsafe extern "C" fn duparg(_: *const c_char, _: *const c_char) -> ! {
    std::process::abort()
}

const TC: Tc = Tc {
    get_rate64,
    get_time64,
    get_size,
    get_u64,
    sprint_time64,
    ll_name_to_index,
    ll_index_to_name,
    print_color_string,
    print_color_lluint,
    print_color_bool,
    tc_print_rate,
    print_nl,
    open_json_array,
    close_json_array,
    addattr_l,
    addattr_nest,
    addattr_nest_end,
    incomplete_command,
    duparg,
};

/// Lets a qdisc's code parse `command` and write its request into `buffer`.
fn request(qdisc: &'static Qdisc, command: &str, buffer: &mut Buffer) -> c_int {
    let words: Vec<CString> = command
        .split_whitespace()
        .map(|word| CString::new(word).unwrap())
        .collect();
    let argv: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    let argc = argv.len().try_into().unwrap();
    // SAFETY: `argv` has `argc` strings, and the message has room after it.
    unsafe { parse(qdisc, &TC, argc, argv.as_ptr(), buffer.as_message()) }
}

/// The payload of a request that is one nest, `TCA_OPTIONS`.
fn options(buffer: &Buffer) -> &[u8] {
    let (header, payload) = buffer.appended().split_at(HEADER);
    let length = u16::try_from(buffer.appended().len()).unwrap();
    assert_eq!(header[..2], length.to_ne_bytes());
    assert_eq!(header[2..], (0x8000 | 2_u16).to_ne_bytes());
    payload
}

/// The attributes that `put` writes.
fn dump(put: impl FnOnce(&mut Request<'_>) -> Result<(), NoRoom>) -> Vec<u8> {
    let mut buffer = Buffer::of_length(EMPTY);
    let message = buffer.as_message();
    put(&mut Request { tc: &TC, message }).unwrap();
    buffer.appended().to_vec()
}

#[test]
fn a_request_is_a_nest_of_the_given_options() {
    let mut buffer = Buffer::of_length(EMPTY);
    let command = "limit 2 limit_bytes 3600 nostarvation";
    assert_eq!(
        request(&weft_mechanisms::pfabric::QDISC, command, &mut buffer),
        0
    );
    let said = pfabric::Options {
        limit: Some(20),
        limit_bytes: Some(36_000),
        starvation_prevention: Some(false),
    };
    assert_eq!(pfabric::Options::parse(options(&buffer)), Ok(said));

    let mut buffer = Buffer::of_length(EMPTY);
    let command = "rate 125000 delay 200000 overhead 2 mpu 6 slack 60000 limit 100";
    assert_eq!(
        request(&weft_mechanisms::wire::QDISC, command, &mut buffer),
        0
    );
    let said = wire::Options {
        rate: Some(1_250_000),
        delay: Some(200_000),
        overhead: Some(20),
        mpu: Some(60),
        slack: Some(60_000),
        limit: Some(1000),
    };
    assert_eq!(wire::Options::parse(options(&buffer)), Ok(said));
}

#[test]
fn a_request_without_options_is_an_empty_nest() {
    let mut buffer = Buffer::of_length(EMPTY);
    assert_eq!(
        request(&weft_mechanisms::pfabric::QDISC, "", &mut buffer),
        0
    );
    assert_eq!(options(&buffer), []);
}

#[test]
fn a_wrong_command_line_makes_no_request() {
    for command in ["limit 0", "limit x", "foo", "limit 1 help"] {
        let mut buffer = Buffer::of_length(EMPTY);
        assert_eq!(
            request(&weft_mechanisms::pfabric::QDISC, command, &mut buffer),
            -1,
            "{command}"
        );
        assert_eq!(buffer.appended(), []);
    }
}

#[test]
fn a_negative_time_is_refused() {
    let mut buffer = Buffer::of_length(EMPTY);
    assert_eq!(
        request(&weft_mechanisms::wire::QDISC, "delay -1", &mut buffer),
        -1
    );
    assert_eq!(
        request(&weft_mechanisms::wire::QDISC, "delay 1", &mut buffer),
        0
    );
}

#[test]
fn a_message_without_room_is_a_failure() {
    for free in (0..20).step_by(4) {
        let mut buffer = Buffer::of_length(REQUEST_MAX as usize - free);
        let expected = if free < 12 { -1 } else { 0 };
        assert_eq!(
            request(&weft_mechanisms::pfabric::QDISC, "limit 1", &mut buffer),
            expected,
            "{free}"
        );
    }
}

#[test]
fn options_are_printed_by_tcs_functions() {
    let said = wire::Options {
        rate: Some(1_250_000),
        delay: Some(200_000),
        overhead: Some(24),
        mpu: Some(84),
        slack: Some(60_000),
        limit: Some(0),
    };
    let dump = dump(|sink| said.put(sink));
    options::print(&weft_mechanisms::wire::QDISC, &dump, &TC).unwrap();
    let expected = [
        "text rate ",
        "rate: rate of 1250000",
        "text  ",
        "delay: 200000",
        "text delay 200000 ns ",
        "overhead: 24",
        "text overhead 24 ",
        "mpu: 84",
        "text mpu 84b ",
        "slack: 60000",
        "text slack 60000 ns ",
        "limit: 0",
    ];
    assert_eq!(PRINTED.take(), expected);
}

#[test]
fn booleans_are_printed_by_tcs_functions() {
    let said = pfabric::Options {
        limit: Some(24),
        limit_bytes: Some(0),
        starvation_prevention: Some(true),
    };
    let dump = dump(|sink| said.put(sink));
    options::print(&weft_mechanisms::pfabric::QDISC, &dump, &TC).unwrap();
    let expected = [
        "limit: 24",
        "text limit 24p ",
        "limit_bytes: 0",
        "starvation_prevention: true",
        "text starvation ",
    ];
    assert_eq!(PRINTED.take(), expected);
}

#[test]
fn arrays_are_printed_by_tcs_functions() {
    let stats = weft_mechanisms::wire::stats::Stats {
        late_histogram: std::array::from_fn(|bucket| bucket as u64),
        ..weft_mechanisms::wire::stats::Stats::default()
    };
    statistics::print(&weft_mechanisms::wire::QDISC, &stats.to_bytes(), &TC).unwrap();
    let calls = PRINTED.take();
    let open = calls
        .iter()
        .position(|call| call == "late_histogram: [")
        .unwrap();
    let close = calls.iter().position(|call| call == "]").unwrap();
    let numbers: Vec<String> = (0..32).map(|number| format!(": {number}")).collect();
    assert_eq!(calls[open + 1..close], numbers);
    assert_eq!(
        calls.iter().filter(|call| *call == "end of line").count(),
        1
    );
}

#[test]
fn devices_and_strings_are_printed_by_tcs_functions() {
    use weft_mechanisms::bfc;
    use weft_mechanisms::common::options::Configuration as _;
    let mut buffer = Buffer::of_length(EMPTY);
    assert_eq!(
        request(&weft_mechanisms::bfc::QDISC, "elide eth8", &mut buffer),
        -1
    );
    let mut buffer = Buffer::of_length(EMPTY);
    assert_eq!(
        request(&weft_mechanisms::bfc::QDISC, "th 1 elide eth7", &mut buffer),
        0
    );
    let said = bfc::options::Options::parse(options(&buffer)).unwrap();
    assert_eq!(said.elide.unwrap().indices(), [7]);
    let config = bfc::options::Config::new(&said).unwrap();
    let dump = dump(|sink| config.put(sink));
    options::print(&weft_mechanisms::bfc::QDISC, &dump, &TC).unwrap();
    let calls = PRINTED.take();
    for call in ["scheduler: \"fq\"", "text elide eth7 "] {
        assert!(calls.iter().any(|other| other == call), "{calls:?}");
    }
    let open = calls.iter().position(|call| call == "elide: [").unwrap();
    assert_eq!(calls[open + 1..open + 3], [": \"eth7\"", "]"]);
}

/// The exported symbol of a qdisc.
fn util(kind: &CStr) -> *const QdiscUtil {
    let name = kind.to_str().unwrap();
    let found = EXPORTED.iter().find(|(other, _)| *other == name);
    found.unwrap().1.0.get()
}

#[test]
fn an_empty_dump_prints_nothing() {
    // SAFETY: null is a missing attribute.
    unsafe {
        let (util, file) = (ptr::null(), ptr::null_mut());
        assert_eq!(print_qopt(util, file, ptr::null()), 0);
        assert_eq!(print_xstats(util, file, ptr::null()), 0);
    }
}

#[test]
fn an_error_names_the_function_that_a_process_other_than_tc_lacks() {
    assert_eq!(Tc::look_up().err(), Some(c"get_rate64"));
    // SAFETY: no words; the message is not accessed.
    let result = unsafe { parse_qopt(util(c"wire"), 0, ptr::null(), ptr::null_mut(), ptr::null()) };
    assert_eq!(result, -1);
}

#[test]
fn each_qdisc_has_the_functions_and_the_layout_that_tc_expects() {
    for qdisc in weft_mechanisms::QDISCS {
        let name = CString::new(qdisc.kind).unwrap();
        // SAFETY: nothing writes to it in this process.
        let util = unsafe { &*util(&name) };
        assert!(util.next.is_null());
        // SAFETY: a string that is never freed.
        assert_eq!(unsafe { CStr::from_ptr(util.id) }, name.as_c_str());
        assert!(util.parse_qopt.is_some() && util.print_qopt.is_some());
        assert!(util.print_xstats.is_some());
        assert!(util.parse_copt.is_none() && util.print_copt.is_none());
        assert!(util.has_block.is_none());
    }
    assert_eq!(size_of::<QdiscUtil>(), 8 * size_of::<*const ()>());
}
