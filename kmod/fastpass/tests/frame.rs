// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Control packets: byte by byte as documented, and nothing else decodes as one.

use proptest::prelude::*;
use weft_mechanisms::fastpass::frame::{
    encode, encode_report, encode_reset, Count, Entry, Frame, Head, Kind, Malformed, Run, Slot,
    ENTRIES, MAX_SIZE, MOST, MOST_TIMESLOTS, TIMESLOTS,
};
use weft_mechanisms::fastpass::siphash;

const NONCE: u64 = 0x0123_4567_89ab_cdef;

fn head(kind: Kind) -> Head {
    Head {
        kind,
        endpoint: 0x0102,
        word: 0x0304_0506_0708_090a,
    }
}

fn counts(count: usize) -> Vec<Count> {
    let count = 0..count as u16;
    count
        .map(|number| Count {
            destination: 0x1000 + number,
            total: 0xa0b0_c000 + u32::from(number),
        })
        .collect()
}

fn encoded(head: Head, counts: &[Count], runs: &[Run]) -> Vec<u8> {
    let mut bytes = [0xaa; MAX_SIZE];
    let size = encode(&mut bytes, head, NONCE, counts.iter().copied(), runs);
    bytes[..size].to_vec()
}

fn reset() -> Vec<u8> {
    let mut bytes = [0xaa; MAX_SIZE];
    let size = encode_reset(&mut bytes, 0x0102, 7, NONCE);
    bytes[..size].to_vec()
}

fn report(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = [0xaa; MAX_SIZE];
    let time = 0x1112_1314_1516_1718;
    let size = encode_report(&mut bytes, head(Kind::Report), NONCE, time, entries);
    bytes[..size].to_vec()
}

const ENTRY: Entry = Entry {
    peer: 0x0203,
    path: 4,
    sent: 0x0506,
    seen: 0x0708,
    lost: 0x090a,
};

const SLOT: Run = Run {
    first: Slot {
        offset: 200,
        count: 1,
        path: 9,
    },
    step: 0,
    further: 0,
};

/// Offsets 3, 7, 11.
const RUN: Run = Run {
    first: Slot {
        offset: 3,
        count: 0,
        path: 2,
    },
    step: 4,
    further: 2,
};

#[test]
fn the_layout_never_changes() {
    let bytes = encoded(head(Kind::Alloc), &counts(2), &[RUN, SLOT]);
    let expected = [
        b'F', b'C', b'P', 3, 2, 2, 1, 1, 1, 2, 0, 0, 3, 4, 5, 6, 7, 8, 9, 10,
    ];
    assert_eq!(bytes[..20], expected);
    let body = [
        0x10, 0, 0xa0, 0xb0, 0xc0, 0, 0x10, 1, 0xa0, 0xb0, 0xc0, 1, 200, 1, 9, 3, 0, 2, 4, 2,
    ];
    assert_eq!(bytes[32..], body);
    let label = u64::from_be_bytes(*b"weft FCP");
    let before = siphash::hash([NONCE, label], &bytes[..20]);
    assert_eq!(bytes[20..24], before.to_be_bytes()[..4]);
    let check = siphash::hash([NONCE, before], &bytes[32..]);
    assert_eq!(bytes[24..32], check.to_be_bytes());

    let bytes = reset();
    assert_eq!(bytes[..8], *b"FCP\x03\x05\0\0\0");
    assert_eq!(bytes[12..20], 7_u64.to_be_bytes());
    assert_eq!(bytes[32..], NONCE.to_be_bytes());
    let frame = Frame::decode(&bytes).unwrap();
    assert!(frame.is_under(7) && !frame.is_under(NONCE));
    assert_eq!(frame.nonce(), NONCE);
    assert_eq!(MAX_SIZE, 608);

    let bytes = report(&[ENTRY]);
    assert_eq!(bytes[..8], *b"FCP\x03\x06\x01\0\0");
    let body = [
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 2, 3, 4, 0, 5, 6, 7, 8, 9, 10,
    ];
    assert_eq!(bytes[32..], body);
    let frame = Frame::decode(&bytes).unwrap();
    assert!(frame.is_under(NONCE) && frame.head == head(Kind::Report));
    assert_eq!(frame.time(), 0x1112_1314_1516_1718);
    assert_eq!(frame.entries().collect::<Vec<_>>(), [ENTRY]);
}

#[test]
fn entries_that_do_not_fit_are_left_out() {
    let bytes = encoded(head(Kind::Alloc), &counts(MOST + 3), &[RUN; MOST]);
    assert_eq!(bytes.len(), MAX_SIZE - 2);
    let frame = Frame::decode(&bytes).unwrap();
    assert_eq!(frame.slots().count(), TIMESLOTS / 5 * 3);
    let bytes = encoded(head(Kind::Alloc), &counts(MOST + 3), &[SLOT; MOST + 3]);
    let frame = Frame::decode(&bytes).unwrap();
    assert_eq!(frame.counts().count(), MOST);
    assert_eq!(frame.slots().count(), MOST);
    let bytes = report(&[ENTRY; ENTRIES + 3]);
    assert_eq!(bytes.len(), 600);
    assert_eq!(Frame::decode(&bytes).unwrap().entries().count(), ENTRIES);
}

#[test]
fn a_packet_that_is_too_short_or_too_long_is_refused() {
    for bytes in [
        encoded(head(Kind::Request), &counts(3), &[]),
        encoded(head(Kind::Alloc), &counts(2), &[SLOT]),
        encoded(head(Kind::Alloc), &counts(2), &[SLOT, RUN]),
        reset(),
        report(&[ENTRY; 3]),
    ] {
        for size in 0..bytes.len() {
            let refused = Frame::decode(&bytes[..size]).err();
            assert_eq!(refused, Some(Malformed::Length), "{size}");
        }
        let mut long = bytes.clone();
        long.push(0);
        assert_eq!(Frame::decode(&long).err(), Some(Malformed::Length));
    }
}

#[test]
fn fields_with_undefined_values_are_refused() {
    let refused = |at: usize, with: u8, of: &[u8]| {
        let mut bytes = of.to_vec();
        bytes[at] = with;
        let refused = Frame::decode(&bytes).err();
        assert_eq!(refused, Some(Malformed::Field), "{at}: {with}");
    };
    let alloc = encoded(head(Kind::Alloc), &counts(2), &[SLOT]);
    let request = encoded(head(Kind::Request), &counts(2), &[]);
    for kind in [0, 7, 255] {
        refused(4, kind, &alloc);
    }
    refused(5, 65, &alloc);
    refused(6, 65, &alloc);
    refused(6, 1, &request);
    refused(5, 1, &reset());
    refused(6, 1, &reset());
    refused(7, 38, &alloc);
    refused(7, 1, &request);
    refused(7, 1, &reset());
    for zero in [10, 11] {
        refused(zero, 1, &alloc);
    }
    // A run without distance, without further timeslots, too far, and of no count.
    let run = encoded(head(Kind::Alloc), &counts(2), &[RUN]);
    let last = run.len() - 1;
    for (at, with) in [
        (last - 1, 0),
        (last, 0),
        (last, 64),
        (last - 4, 248),
        (last - 3, 2),
    ] {
        refused(at, with, &run);
    }
    // Runs that are valid one by one, and together have more timeslots than a packet may.
    let mut bytes = [0; MAX_SIZE];
    let far = Run { further: 63, ..RUN };
    let long = |count| vec![far; count];
    for (runs, is_refused) in [(long(4), false), (long(5), true)] {
        let counts = counts(1).into_iter();
        let size = encode(&mut bytes, head(Kind::Alloc), NONCE, counts, &runs);
        let frame = Frame::decode(&bytes[..size]);
        assert_eq!(frame.is_err(), is_refused);
        if let Ok(frame) = frame {
            assert_eq!(frame.slots().count(), MOST_TIMESLOTS);
        }
    }
    let report = report(&[ENTRY; 2]);
    refused(5, 57, &report);
    refused(6, 1, &report);
    refused(7, 1, &report);
    refused(43, 1, &report);
    refused(53, 1, &report);
    // A slot of a count that does not exist.
    refused(alloc.len() - 2, 2, &alloc);
    for byte in 0..4 {
        let mut bytes = alloc.clone();
        bytes[byte] ^= 1;
        assert_eq!(Frame::decode(&bytes).err(), Some(Malformed::Protocol));
    }
}

proptest! {
    #[test]
    fn a_packet_survives_encoding(
        kind in 0..4_usize, endpoint: u16, word: u64, nonce: u64,
        list in prop::collection::vec((any::<u16>(), any::<u32>()), 0..=MOST),
        given in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..=MOST),
    ) {
        let kind = [Kind::Request, Kind::Alloc, Kind::AckRequest, Kind::AckAlloc][kind];
        let list: Vec<_> = list.into_iter().map(|(destination, total)| Count { destination, total }).collect();
        let given: Vec<_> = given.into_iter()
            .filter(|_| kind == Kind::Alloc && !list.is_empty())
            .map(|(offset, count, path)| Slot { offset, count: count % list.len() as u8, path })
            .collect();
        let runs: Vec<_> = given.iter().copied().map(Run::from).collect();
        let mut bytes = [0; MAX_SIZE];
        let head = Head { kind, endpoint, word };
        let size = encode(&mut bytes, head, nonce, list.iter().copied(), &runs);
        let frame = Frame::decode(&bytes[..size]).unwrap();
        prop_assert_eq!(frame.head, head);
        prop_assert!(frame.is_under(nonce) && !frame.is_under(!nonce));
        prop_assert_eq!(frame.counts().collect::<Vec<_>>(), list);
        prop_assert_eq!(frame.slots().collect::<Vec<_>>(), given);
    }

    /// Timeslots are put into runs one by one, and the packet has the same timeslots.
    #[test]
    fn timeslots_survive_as_runs(
        given in prop::collection::vec((0..3_u8, 0..2_u8, any::<bool>()), 1..200),
    ) {
        let mut runs: Vec<Run> = Vec::new();
        let mut slots = Vec::new();
        let offsets = (0..).zip(&given).filter(|(_, it)| it.2);
        for (offset, (count, path, _)) in offsets {
            let slot = Slot { offset, count: *count, path: *path };
            slots.push(slot);
            let longer = runs.iter_mut().rev().find_map(|run| Some((run.extended(slot)?, run)));
            match longer {
                Some((longer, run)) => *run = longer,
                None => runs.push(slot.into()),
            }
        }
        prop_assume!(runs.iter().map(|run| run.size()).sum::<usize>() <= TIMESLOTS);
        let bytes = encoded(head(Kind::Alloc), &counts(3), &runs);
        let mut read: Vec<_> = Frame::decode(&bytes).unwrap().slots().collect();
        read.sort_unstable_by_key(|slot| slot.offset);
        prop_assert_eq!(read, slots);
    }

    #[test]
    fn any_bytes_are_a_packet_or_malformed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..700), head in 0..3_u8,
    ) {
        if head > 0 && bytes.len() >= 32 {
            bytes[..4].copy_from_slice(b"FCP\x03");
            bytes[4] %= 7;
            let rest = bytes.len() - 32;
            bytes[5] = (rest / 6) as u8;
            bytes[6] = (rest % 6 / 3) as u8;
            bytes[7] = 0;
            if bytes[4] == 6 {
                bytes[5] = (rest.saturating_sub(8) / 10) as u8;
                bytes[6] = 0;
            } else if bytes[4] == 2 && rest >= 21 {
                bytes[5] = ((rest - 15) / 6) as u8;
                bytes[7] = 3;
            }
            bytes[10..12].fill(0);
            if head > 1 {
                bytes.truncate(32 + rest / 3 * 3);
            }
        }
        crate::tests::check::decode(&bytes);
    }
}
