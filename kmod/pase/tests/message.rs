// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Messages: byte by byte as documented, and nothing else decodes as one.

use proptest::prelude::*;
use weft_mechanisms::pase::message::{Malformed, Message, Says, Sequence, MAX_HOLD, SIZE};
use weft_mechanisms::pase::{Flow, Verdict, MAX_RATE};

fn message(says: Says) -> Message {
    Message {
        sequence: 0x0102_0304_0506_0708,
        link: 0x090a_0b0c,
        says,
    }
}

const TO: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const ASK: Says = Says::Ask {
    flow: Flow {
        id: 7,
        urgency: 8,
        demand: 9,
    },
    to: TO,
};
const ANSWER: Says = Says::Answer {
    flow: 7,
    verdict: Verdict { queue: 3, rate: 9 },
    hold: 80,
};
const END: Says = Says::End(7);
const REPORT: Says = Says::Report {
    child: 7,
    demand: 9,
};
const SHARE: Says = Says::Share {
    child: 7,
    rate: 9,
    hold: 80,
};
const ALL: [Says; 5] = [ASK, ANSWER, END, REPORT, SHARE];

#[test]
fn the_layout_never_changes() {
    assert_eq!(SIZE, 64);
    let rows = [
        (ASK, 1, 0, 0, 8, 9),
        (ANSWER, 2, 3, 80, 0, 9),
        (END, 3, 0, 0, 0, 0),
        (REPORT, 4, 0, 0, 0, 9),
        (SHARE, 5, 0, 80, 0, 9),
    ];
    for (says, kind, queue, hold, urgency, rate) in rows {
        let mut expected = vec![b'P', b'A', b'S', 1, kind, queue, 0, 0];
        expected.extend([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, hold]);
        for last in [7, urgency, rate] {
            expected.extend([0, 0, 0, 0, 0, 0, 0, last]);
        }
        expected.extend(if says == ASK { TO } else { [0; 16] });
        assert_eq!(message(says).encode(), expected[..], "{says:?}");
    }
}

#[test]
fn another_length_is_refused() {
    for says in ALL {
        let mut bytes = message(says).encode().to_vec();
        for size in 0..SIZE {
            assert_eq!(Message::decode(&bytes[..size]), Err(Malformed::Length));
        }
        bytes.push(0);
        assert_eq!(Message::decode(&bytes), Err(Malformed::Length));
    }
}

#[test]
fn another_protocol_or_version_is_refused() {
    for byte in 0..4 {
        let mut bytes = message(ASK).encode();
        bytes[byte] ^= 1;
        assert_eq!(Message::decode(&bytes), Err(Malformed::Protocol));
    }
}

#[test]
fn fields_with_undefined_values_are_refused() {
    let refused = |says: Says, at: usize, with: &[u8]| {
        let mut bytes = message(says).encode();
        bytes[at..at + with.len()].copy_from_slice(with);
        assert_eq!(
            Message::decode(&bytes),
            Err(Malformed::Field),
            "{says:?}, {at}: {with:?}"
        );
    };
    for says in ALL {
        for kind in (0..=255).filter(|kind| !(1..=5).contains(kind)) {
            refused(says, 4, &[kind]);
        }
        refused(says, 6, &[1]);
        refused(says, 7, &[1]);
        refused(says, 40, &(MAX_RATE + 1).to_be_bytes());
        let (answers, shares) = (says == ANSWER, says == SHARE);
        // A queue in a message that has none, and no queue in one that needs it.
        refused(says, 5, &[u8::from(!answers)]);
        if answers || shares {
            for hold in [0, MAX_HOLD + 1, u32::MAX] {
                refused(says, 20, &hold.to_be_bytes());
            }
        } else {
            refused(says, 20, &[0, 0, 0, 1]);
        }
        if says != ASK {
            refused(says, 32, &[1]);
            refused(says, 48, &[1]);
            refused(says, 63, &[1]);
        }
    }
    refused(END, 47, &[1]);
}

#[test]
fn late_and_duplicate_messages_are_recognized() {
    let mut last = Sequence::default();
    let news = [5, 5, 4, 6, 0, u64::MAX, u64::MAX].map(|it| last.is_news(it));
    assert_eq!(news, [true, false, false, true, false, true, false]);
}

fn says() -> impl Strategy<Value = Says> {
    let (rate, hold) = (|| 0..=MAX_RATE, || 1..=MAX_HOLD);
    prop_oneof![
        (any::<[u64; 2]>(), rate(), any::<[u8; 16]>()).prop_map(|([id, urgency], demand, to)| {
            let flow = Flow {
                id,
                urgency,
                demand,
            };
            Says::Ask { flow, to }
        }),
        (any::<u64>(), 1..=u8::MAX, rate(), hold()).prop_map(|(flow, queue, rate, hold)| {
            let verdict = Verdict { queue, rate };
            Says::Answer {
                flow,
                verdict,
                hold,
            }
        }),
        any::<u64>().prop_map(Says::End),
        (any::<u64>(), rate()).prop_map(|(child, demand)| Says::Report { child, demand }),
        (any::<u64>(), rate(), hold()).prop_map(|(child, rate, hold)| Says::Share {
            child,
            rate,
            hold
        }),
    ]
}

proptest! {
    #[test]
    fn a_message_survives_encoding(sequence: u64, link: u32, says in says()) {
        let message = Message { sequence, link, says };
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn any_bytes_are_a_message_or_malformed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80), head in 0..4_u8, kind in 0..7_u8,
        queue in 0..3_u8,
    ) {
        if head > 0 {
            bytes.resize(SIZE, 0);
            bytes[..8].copy_from_slice(&[b'P', b'A', b'S', 1, kind, queue, 0, 0]);
            bytes[40..42].fill(0);
            bytes[48..].fill(0);
            if head > 1 {
                bytes[20] = 0;
                bytes[32..40].fill(0);
            }
            if head > 2 {
                bytes[20..24].fill(0);
            }
        }
        crate::tests::check::decode(&bytes);
    }
}
