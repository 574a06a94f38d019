// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests Wireshark's plugin against the crates: a capture has frames of the crates' own encoders,
//! and the test compares the fields that `tshark` prints. Every field that the plugin declares must
//! occur, with its value.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

use anyhow::{Result, ensure};
use weft_build::base::cache::{Cache, Entry};
use weft_build::base::enter::Enter;
use weft_build::base::process;
use weft_build::stages::chain::Base;
use weft_build::stages::layer;
use weft_machine::interrupt::Temporary;
use weft_mechanisms::bfc::frame as bfc;
use weft_mechanisms::common::tag::{IPV6_DESTINATION_OPTIONS, Tag};
use weft_mechanisms::fastpass::frame as fcp;
use weft_mechanisms::pase::message::{self as pase, Message, Says};
use weft_mechanisms::pase::{Flow, Verdict};

const PLUGIN: &str = "packaging/wireshark/weft.lua";
/// The plugin's path in the package, where Wireshark looks for it.
const PLACE: &str = "/usr/lib/x86_64-linux-gnu/wireshark/plugins/weft.lua";
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
/// Bytes of the Ethernet header.
const ETHERNET: usize = 14;

/// A frame, and the expected output of the plugin.
struct Case {
    frame: Vec<u8>,
    fields: Vec<(&'static str, String)>,
}

impl Case {
    fn new(frame: Vec<u8>) -> Self {
        let fields = Vec::new();
        Self { frame, fields }
    }

    /// The same frame with another kind of message, for BFC or PASE.
    fn of_kind(mut self, kind: u8) -> Self {
        self.frame[ETHERNET + 4] = kind;
        self
    }

    fn says(mut self, field: &'static str, value: impl Display) -> Self {
        self.fields.push((field, value.to_string()));
        self
    }
}

/// Compares the output of `tshark` for all frames.
///
/// # Errors
/// The first frame that differs.
pub(super) fn check(cache: &Cache, base: &Base, tools: &Entry, workspace: &Path) -> Result<()> {
    let place = cache.file(format!("run/{}.dissected", std::process::id()));
    let directory = Temporary::new(place)?;
    let cases = cases();
    let file = directory.path().join("capture.pcap");
    fs::write(&file, capture(&cases))?;
    let root = base.rootfs.path().join("root");
    let layer = directory.path().join("layer");
    let enter = Enter::layered(&root, &[&layer::place(tools)], &layer)?
        .with(&workspace.join(PLUGIN), PLACE)
        .with(&file, "/mnt/capture.pcap");
    let tshark = |arguments: &[&str]| {
        let mut command = enter.command("tshark");
        process::capture(command.args(arguments))
    };
    let declared = tshark(&["-G", "fields"])?;
    // `F`, its label, its name …
    let declared = declared
        .lines()
        .filter_map(|line| line.strip_prefix("F\t")?.split('\t').nth(1));
    let declared: Vec<&str> = declared.filter(|name| name.starts_with("weft.")).collect();
    let mut arguments = vec!["-r", "/mnt/capture.pcap", "-T", "fields"];
    arguments.extend(declared.iter().flat_map(|name| ["-e", name]));
    let rows = tshark(&arguments)?;
    ensure!(
        rows.lines().count() == cases.len(),
        "tshark read other frames:\n{rows}"
    );
    let mut seen = BTreeSet::new();
    for (number, (row, case)) in (1..).zip(rows.lines().zip(&cases)) {
        let columns = declared.iter().zip(row.split('\t'));
        let read: BTreeSet<_> = columns.filter(|(_, value)| !value.is_empty()).collect();
        let wanted: BTreeSet<_> = case
            .fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let read: BTreeSet<_> = read
            .into_iter()
            .map(|(name, value)| (*name, value))
            .collect();
        ensure!(
            read == wanted,
            "tshark reads of frame {number}\n{read:?}\nnot\n{wanted:?}"
        );
        seen.extend(read.into_iter().map(|(name, _)| name.to_owned()));
    }
    let unseen: Vec<_> = declared
        .iter()
        .filter(|name| !seen.contains(**name))
        .collect();
    ensure!(unseen.is_empty(), "no frame has {unseen:?}");
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = tags();
    cases.extend(bfc_frames());
    cases.extend(fcp_packets());
    cases.extend(pase_messages());
    cases
}

/// Tags of both layouts, exact and not, malformed ones, and frames without a tag.
fn tags() -> Vec<Case> {
    let tag = |rank, upstream_queue| Tag {
        rank,
        upstream_queue,
    };
    let of = |frame, tag: Tag, layout: u8, code: u32| {
        let read = tag.on_the_wire();
        Case::new(frame)
            .says("weft.tag.layout", layout)
            .says("weft.tag.queue", read.upstream_queue)
            .says("weft.tag.code", code)
            .says("weft.tag.rank", read.rank)
    };
    let code = |tag: Tag| u32::from_be_bytes(tag.to_word());
    let (exact, rough, far) = (tag(1_460, 5), tag(3_000_000_001, 255), tag(5_000_001, 300));
    let mut reserved = tag(0, 7).to_ipv4();
    reserved[5..].fill(0xff);
    let datagram = udp(1, b"x");
    vec![
        of(ipv4(&exact.to_ipv4(), &datagram), exact, 0, 1_460),
        of(
            ipv4(&rough.to_ipv4(), &datagram),
            rough,
            0,
            code(rough) & 0x7f_ffff,
        ),
        of(
            ipv6(&far.to_ipv6(UDP), IPV6_DESTINATION_OPTIONS, &datagram),
            far,
            1,
            code(far) & 0x1f_ffff,
        ),
        Case::new(ipv4(&reserved, &datagram))
            .says("weft.tag.layout", 0)
            .says("weft.tag.queue", 7)
            .says("weft.tag.code", 0x7f_ffff)
            .says("weft.tag.malformed", 1),
        Case::new(ipv4(&[], &datagram)),
    ]
}

fn bfc_frames() -> Vec<Case> {
    let mut bitmap = [0; bfc::WORDS];
    (bitmap[0], bitmap[15]) = (1 << 1 | 1 << 63, 1 << 62);
    let messages = [
        (bfc::Message::Pause(9), 1, 0, 9, None),
        (bfc::Message::Resume(1_023), 2, 0, 1_023, None),
        (bfc::Message::Bitmap(bitmap), 3, 16, 0, Some("1,63,1022")),
    ];
    let case = |(message, kind, words, queue, paused): (_, u8, u8, u16, Option<&str>)| {
        let mut bytes = [0; bfc::MAX_SIZE];
        let frame = bfc::Frame {
            sequence: u64::MAX - 1,
            hold: 60_000_000,
            message,
        };
        let size = frame.encode(&mut bytes);
        let case = Case::new(ethernet(bfc::ETHERTYPE, &bytes[..size]))
            .says("weft.bfc.version", 1)
            .says("weft.bfc.kind", kind)
            .says("weft.bfc.words", words)
            .says("weft.bfc.queue", queue)
            .says("weft.bfc.sequence", u64::MAX - 1)
            .says("weft.bfc.hold", 60_000_000);
        match paused {
            Some(paused) => case.says("weft.bfc.paused", paused),
            None => case,
        }
    };
    let mut cases: Vec<Case> = messages.into_iter().map(case).collect();
    cases.push(
        case((bfc::Message::Pause(9), 9, 0, 9, None))
            .of_kind(9)
            .says("weft.bfc.malformed", 1),
    );
    cases
}

fn fcp_packets() -> Vec<Case> {
    let (word, nonce) = (0x0123_4567_89ab_cdef, 77);
    let counts =
        [(3, u32::MAX), (65_535, 5)].map(|(destination, total)| fcp::Count { destination, total });
    let runs = [(0, 1, 2, 0, 0), (200, 0, 15, 0, 0), (1, 1, 3, 4, 63)];
    let runs = runs.map(|(offset, count, path, step, further)| fcp::Run {
        first: fcp::Slot {
            offset,
            count,
            path,
        },
        step,
        further,
    });
    let head = |bytes: &[u8], kind: u8, counts: u8, [slots, runs]: [u8; 2]| {
        let number = |bytes: &[u8]| {
            let bytes = bytes.iter();
            bytes.fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
        };
        let (proof, check) = (number(&bytes[20..24]), number(&bytes[24..32]));
        Case::new(ipv4(&[], &udp(4_000, bytes)))
            .says("weft.fcp.version", 3)
            .says("weft.fcp.kind", kind)
            .says("weft.fcp.counts", counts)
            .says("weft.fcp.slots", slots)
            .says("weft.fcp.runs", runs)
            .says("weft.fcp.endpoint", 600)
            .says("weft.fcp.proof", format!("0x{proof:08x}"))
            .says("weft.fcp.check", format!("0x{check:016x}"))
    };
    let with_counts = |case: Case| {
        case.says("weft.fcp.destination", "3,65535")
            .says("weft.fcp.total", "4294967295,5")
    };
    let cookie = format!("0x{word:016x}");
    let mut bytes = [0; fcp::MAX_SIZE];
    let kinds = [
        (fcp::Kind::Request, 1),
        (fcp::Kind::AckRequest, 3),
        (fcp::Kind::AckAlloc, 4),
    ];
    let mut cases = Vec::new();
    for (kind, number) in kinds {
        let first = fcp::Head {
            kind,
            endpoint: 600,
            word,
        };
        let size = fcp::encode(&mut bytes, first, nonce, counts.into_iter(), &[]);
        cases.push(
            with_counts(head(&bytes[..size], number, 2, [0; 2])).says("weft.fcp.cookie", &cookie),
        );
    }
    let first = fcp::Head {
        kind: fcp::Kind::Alloc,
        endpoint: 600,
        word,
    };
    let size = fcp::encode(&mut bytes, first, nonce, counts.into_iter(), &runs);
    cases.push(
        with_counts(head(&bytes[..size], 2, 2, [2, 1]))
            .says("weft.fcp.first", word)
            .says("weft.fcp.slot.offset", "0,200")
            .says("weft.fcp.slot.count", "1,0")
            .says("weft.fcp.slot.path", "2,15")
            .says("weft.fcp.run.offset", 1)
            .says("weft.fcp.run.count", 1)
            .says("weft.fcp.run.path", 3)
            .says("weft.fcp.run.step", 4)
            .says("weft.fcp.run.further", 63),
    );
    let first = fcp::Head {
        kind: fcp::Kind::Report,
        endpoint: 600,
        word,
    };
    let entries =
        [(7, 1, 2, 3, 4), (65_535, 255, 65_535, 0, 1)].map(|(peer, path, sent, seen, lost)| {
            fcp::Entry {
                peer,
                path,
                sent,
                seen,
                lost,
            }
        });
    let size = fcp::encode_report(&mut bytes, first, nonce, 99, &entries);
    cases.push(
        head(&bytes[..size], 6, 2, [0; 2])
            .says("weft.fcp.cookie", &cookie)
            .says("weft.fcp.time", 99)
            .says("weft.fcp.report.peer", "7,65535")
            .says("weft.fcp.report.path", "1,255")
            .says("weft.fcp.report.sent", "2,65535")
            .says("weft.fcp.report.seen", "3,0")
            .says("weft.fcp.report.lost", "4,1"),
    );
    let size = fcp::encode_reset(&mut bytes, 600, word, nonce);
    cases.push(
        head(&bytes[..size], 5, 0, [0; 2])
            .says("weft.fcp.cookie", cookie)
            .says("weft.fcp.nonce", format!("0x{nonce:016x}")),
    );
    // A truncated frame.
    cases.push(
        head(&bytes[..size - 1], 5, 0, [0; 2])
            .says("weft.fcp.cookie", format!("0x{word:016x}"))
            .says("weft.fcp.malformed", 1),
    );
    cases
}

fn pase_messages() -> Vec<Case> {
    let to: Ipv6Addr = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 9].into();
    let (id, child, rate) = (0xfeed, 12, 1_250_000_000);
    let flow = Flow {
        id,
        urgency: 1 << 40,
        demand: rate,
    };
    let verdict = Verdict { queue: 3, rate };
    let head = |says, kind: u8, in_datagram| {
        let bytes = Message {
            sequence: 1 << 60,
            link: 4_000_000_000,
            says,
        }
        .encode();
        let frame = match in_datagram {
            true => ipv4(&[], &udp(5_000, &bytes)),
            false => ethernet(pase::FRAMES.ethertype, &bytes),
        };
        Case::new(frame)
            .says("weft.pase.version", 1)
            .says("weft.pase.kind", kind)
            .says("weft.pase.sequence", 1_u64 << 60)
            .says("weft.pase.link", 4_000_000_000_u32)
    };
    let number = format!("0x{id:016x}");
    vec![
        head(
            Says::Ask {
                flow,
                to: to.octets(),
            },
            1,
            false,
        )
        .says("weft.pase.flow", &number)
        .says("weft.pase.urgency", 1_u64 << 40)
        .says("weft.pase.demand", rate)
        .says("weft.pase.to", to),
        head(
            Says::Answer {
                flow: id,
                verdict,
                hold: 7,
            },
            2,
            false,
        )
        .says("weft.pase.queue", 3)
        .says("weft.pase.hold", 7)
        .says("weft.pase.flow", &number)
        .says("weft.pase.rate", rate),
        head(Says::End(id), 9, false)
            .of_kind(9)
            .says("weft.pase.malformed", 1),
        head(Says::End(id), 3, true).says("weft.pase.flow", &number),
        head(
            Says::Report {
                child,
                demand: rate,
            },
            4,
            true,
        )
        .says("weft.pase.child", child)
        .says("weft.pase.demand", rate),
        head(
            Says::Share {
                child,
                rate,
                hold: 7,
            },
            5,
            true,
        )
        .says("weft.pase.child", child)
        .says("weft.pase.rate", rate)
        .says("weft.pase.hold", 7),
    ]
}

fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let (to, from) = ([0x01, 0x80, 0xc2, 0, 0, 0x0e], [2, 0, 0, 0, 0, 1]);
    [&to[..], &from, &ethertype.to_be_bytes(), payload].concat()
}

fn ipv4(options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let total = ((header + payload.len()) as u16).to_be_bytes();
    let first = [
        0x40 | (header / 4) as u8,
        0,
        total[0],
        total[1],
        0,
        0,
        0,
        0,
        64,
        UDP,
        0,
        0,
    ];
    let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
    ethernet(IPV4, &[&first[..], &addresses, options, payload].concat())
}

fn ipv6(extension: &[u8], next: u8, payload: &[u8]) -> Vec<u8> {
    let length = ((extension.len() + payload.len()) as u16).to_be_bytes();
    let first = [0x60, 0, 0, 0, length[0], length[1], next, 64];
    let address = [0xfd; 16];
    ethernet(
        IPV6,
        &[&first[..], &address, &address, extension, payload].concat(),
    )
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = ((8 + payload.len()) as u16).to_be_bytes();
    [
        &50_000_u16.to_be_bytes()[..],
        &port.to_be_bytes(),
        &length,
        &[0, 0],
        payload,
    ]
    .concat()
}

/// A file in libpcap's first format, of Ethernet.
fn capture(cases: &[Case]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for case in cases {
        let length = case.frame.len() as u32;
        for word in [0, 0, length, length] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&case.frame);
    }
    bytes
}
