// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Pause frames: byte by byte as documented, and nothing else decodes as one.

use proptest::prelude::*;
use weft_mechanisms::bfc::frame::{
    Frame, Malformed, Message, ETHERTYPE, GROUP, MAX_HOLD, MAX_QUEUE, MAX_SIZE, WORDS,
};

const PAUSE: Frame = Frame {
    sequence: 0x0102_0304_0506_0708,
    hold: 80,
    message: Message::Pause(0x3ff),
};

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut bytes = [0; MAX_SIZE];
    let size = frame.encode(&mut bytes);
    bytes[..size].to_vec()
}

fn bitmap(words: &[(usize, u64)]) -> Frame {
    let mut all = [0; WORDS];
    words.iter().for_each(|(word, bits)| all[*word] = *bits);
    Frame {
        message: Message::Bitmap(all),
        ..PAUSE
    }
}

#[test]
fn the_layout_never_changes() {
    assert_eq!(ETHERTYPE, 0x88b5);
    assert_eq!(GROUP, [0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    let pause = [
        b'B', b'F', b'C', 1, 1, 0, 3, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 80,
    ];
    assert_eq!(encoded(&PAUSE), pause);
    let resume = Frame {
        message: Message::Resume(0x3ff),
        ..PAUSE
    };
    let mut expected = pause;
    expected[4] = 2;
    assert_eq!(encoded(&resume), expected);
    let mut expected = pause.to_vec();
    expected[4..8].copy_from_slice(&[3, 2, 0, 0]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0]);
    // Queues 1 and 127.
    assert_eq!(encoded(&bitmap(&[(0, 2), (1, 1 << 63)])), expected);
    assert_eq!(MAX_SIZE, 148);
}

#[test]
fn a_bitmap_is_as_long_as_its_last_queue_needs() {
    assert_eq!(encoded(&bitmap(&[])).len(), 20);
    assert_eq!(encoded(&bitmap(&[(0, 2)])).len(), 28);
    assert_eq!(encoded(&bitmap(&[(0, 2), (15, 1)])).len(), MAX_SIZE);
}

#[test]
fn a_short_frame_may_be_padded_to_the_ethernet_minimum_with_zeroes_only() {
    for frame in [PAUSE, bitmap(&[]), bitmap(&[(2, 1)])] {
        let bytes = encoded(&frame);
        for size in bytes.len() + 1..60 {
            let mut padded = bytes.clone();
            padded.resize(size, 0);
            let expected = if size == 46 {
                Ok(frame)
            } else {
                Err(Malformed::Length)
            };
            assert_eq!(Frame::decode(&padded), expected, "{size}");
            *padded.last_mut().unwrap() = 1;
            assert_eq!(Frame::decode(&padded), Err(Malformed::Length));
        }
    }
    let mut long = encoded(&bitmap(&[(15, 1)]));
    long.push(0);
    assert_eq!(Frame::decode(&long), Err(Malformed::Length));
}

#[test]
fn a_truncated_frame_is_refused() {
    for frame in [PAUSE, bitmap(&[(5, 7)])] {
        let bytes = encoded(&frame);
        for size in 0..bytes.len() {
            assert_eq!(
                Frame::decode(&bytes[..size]),
                Err(Malformed::Length),
                "{size}"
            );
        }
    }
}

#[test]
fn another_protocol_or_version_is_refused() {
    for byte in 0..4 {
        let mut bytes = encoded(&PAUSE);
        bytes[byte] ^= 1;
        assert_eq!(Frame::decode(&bytes), Err(Malformed::Protocol));
    }
}

#[test]
fn fields_with_undefined_values_are_refused() {
    let refused = |at: usize, with: &[u8], of: &Frame| {
        let mut bytes = encoded(of);
        bytes[at..at + with.len()].copy_from_slice(with);
        assert_eq!(
            Frame::decode(&bytes),
            Err(Malformed::Field),
            "{at}: {with:?}"
        );
    };
    for kind in (0..=255).filter(|kind| !(1..=3).contains(kind)) {
        refused(4, &[kind], &PAUSE);
    }
    for queue in [0, MAX_QUEUE + 1, u16::MAX] {
        refused(6, &queue.to_be_bytes(), &PAUSE);
    }
    for hold in [0, MAX_HOLD + 1, u32::MAX] {
        refused(16, &hold.to_be_bytes(), &PAUSE);
        refused(16, &hold.to_be_bytes(), &bitmap(&[]));
    }
    refused(6, &[0, 1], &bitmap(&[]));
    // Queue 0 is the control queue.
    refused(27, &[1], &bitmap(&[(0, 2)]));
    // A pause followed by words, and more words than there are queues.
    let mut bytes = encoded(&bitmap(&[(0, 2)]));
    bytes[4] = 1;
    bytes[7] = 5;
    assert_eq!(Frame::decode(&bytes), Err(Malformed::Field));
    let mut bytes = encoded(&bitmap(&[(15, 1)]));
    bytes[5] = 17;
    bytes.extend([0; 8]);
    assert_eq!(Frame::decode(&bytes), Err(Malformed::Field));
}

proptest! {
    #[test]
    fn a_frame_survives_encoding(
        sequence: u64, hold in 1..=MAX_HOLD, queue in 1..=MAX_QUEUE, kind in 0..3_u8, words: [u64; WORDS],
        clear: u16,
    ) {
        let mut words = words;
        for (word, bits) in words.iter_mut().enumerate() {
            *bits &= if clear >> word & 1 == 0 { u64::MAX - u64::from(word == 0) } else { 0 };
        }
        let message = match kind {
            0 => Message::Pause(queue),
            1 => Message::Resume(queue),
            _ => Message::Bitmap(words),
        };
        let frame = Frame { sequence, hold, message };
        prop_assert_eq!(Frame::decode(&encoded(&frame)), Ok(frame));
    }

    #[test]
    fn any_bytes_are_a_frame_or_malformed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..160), head in 0..3_u8,
    ) {
        if head > 0 && bytes.len() >= 8 {
            bytes[..4].copy_from_slice(b"BFC\x01");
            bytes[4] %= 4;
            bytes[5] = (bytes.len().saturating_sub(20) / 8) as u8;
            if head > 1 {
                bytes[6..8].fill(0);
            }
        }
        crate::tests::check::decode(&bytes);
    }
}
