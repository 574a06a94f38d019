// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Messages on the wire.

use super::flow;
use proptest::prelude::*;
use weft_mechanisms::expresspass::message::{Flow, Kind, Message, SIZE};

#[test]
fn the_bytes_of_a_credit_never_change() {
    let credit = Message {
        flow: flow(7),
        kind: Kind::Credit { number: 0x1234 },
    };
    let bytes = [
        2, 0x58, 0x12, 0x34, 10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x47, 0, 80, 0, 0,
    ];
    assert_eq!(credit.encode(), bytes);
    assert_eq!(Message::decode(&bytes), Some(credit));
}

/// 84 bytes of a link: a minimum frame with preamble and gap.
#[test]
fn a_message_fits_into_the_shortest_frame() {
    // Ethernet's header, IPv4's and UDP's; a frame has at least 60 bytes before its checksum.
    assert_eq!(14 + 20 + 8 + SIZE, 60);
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        any::<u16>().prop_map(|waiting| Kind::Request { waiting }),
        any::<u16>().prop_map(|number| Kind::Credit { number }),
        Just(Kind::Stop),
    ]
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(
        (source, destination) in any::<(u32, u32)>(),
        (source_port, destination_port) in any::<(u16, u16)>(),
        kind in kind(),
    ) {
        let flow = Flow { source, destination, source_port, destination_port };
        let message = Message { flow, kind };
        prop_assert_eq!(Message::decode(&message.encode()), Some(message));
    }

    #[test]
    fn other_bytes_are_refused_or_written_again(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        if let Some(message) = Message::decode(&bytes) {
            prop_assert_eq!(&message.encode()[..], &bytes[..]);
        }
    }

    #[test]
    fn a_message_with_a_wrong_byte_is_refused(
        kind in kind(),
        (place, change) in prop_oneof![
            (Just(1), 1..=255_u8),
            (Just(0), 4..=255_u8),
        ],
    ) {
        let mut bytes = Message { flow: flow(0), kind }.encode();
        bytes[place] ^= change;
        prop_assert_eq!(Message::decode(&bytes), None);
        prop_assert_eq!(Message::decode(&bytes[1..]), None);
    }
}
