// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The tag: reading returns the written value, order is preserved, and no input does harm.

use proptest::prelude::*;
use weft_mechanisms::common::tag::*;

/// The Internet checksum of a header with a correct checksum is 0.
pub(crate) fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An IPv4 packet with these options, padded to four bytes, and a correct checksum.
fn ipv4(options: &[u8], payload: usize) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let length = (IPV4_HEADER + options.len() + payload) as u16;
    let mut header = vec![0x45 + (options.len() / 4) as u8, 0];
    header.extend(length.to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header.extend(options);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.resize(usize::from(length), 0xaa);
    header
}

/// An IPv6 packet with these bytes behind its header.
fn ipv6(next_header: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend([0xfd; 32]);
    packet.extend(rest);
    packet
}

const TAG: Tag = Tag {
    rank: 3 << 20,
    upstream_queue: 128,
};

#[test]
fn the_layout_is_the_documented_one() {
    assert_eq!(TAG.to_ipv4(), [0x9e, 8, 0, 0, 0x40, 0x30, 0, 0]);
    assert_eq!(TAG.to_ipv6(17), [17, 0, 0x1e, 4, 0x40, 0x30, 0, 0]);
    assert_eq!(MAX_CODE, 6_815_743);
    assert_eq!(code_of_rank(u32::MAX), MAX_CODE);
    assert_eq!(rank_of_code(MAX_CODE), Some(u32::MAX - 8191));
}

#[test]
fn a_rank_is_exact_up_to_4_mib_and_keeps_its_order_beyond() {
    for rank in (0..1 << 22).step_by(13).chain([(1 << 22) - 1, 1 << 22]) {
        assert_eq!(rank_of_code(code_of_rank(rank)), Some(rank));
    }
    // Every code is reached, by the rank that it encodes.
    let mut before = None;
    for code in ((1 << 22) - 9..=MAX_CODE).step_by(7).chain([MAX_CODE]) {
        let rank = rank_of_code(code).unwrap();
        assert_eq!(code_of_rank(rank), code);
        assert!(before < Some(rank) || code == MAX_CODE);
        before = Some(rank);
    }
}

#[test]
fn a_queue_above_255_takes_two_bits_from_the_rank() {
    for (upstream_queue, rank, word) in [
        (256, 0, [0xa0, 0, 0, 0]),
        (1023, 5, [0xff, 0xe0, 0, 5]),
        (512, 1 << 20, [0xc0, 0x10, 0, 0]),
        (256, u32::MAX, [0xa0, 0x1b, 0xff, 0xff]),
    ] {
        let tag = Tag {
            rank,
            upstream_queue,
        };
        assert_eq!(tag.to_word(), word);
        let read = Tag::from_word(word).unwrap();
        assert_eq!(read.upstream_queue, upstream_queue);
        assert!(read.rank <= rank && rank - read.rank <= rank >> 16);
    }
    let exact = |rank| Tag {
        rank,
        upstream_queue: 300,
    };
    for rank in (0..1 << 20).step_by(13).chain([(1 << 20) - 1, 1 << 20]) {
        assert_eq!(exact(rank).on_the_wire(), exact(rank));
    }
    assert_eq!(MAX_UPSTREAM_QUEUE, 1023);
}

#[test]
fn reserved_bits_are_refused() {
    // Layout 1 is for queues above 255, and its codes end before their 21 bits do.
    for word in [0x8000_0000, 0x9fff_ffff, 0xa01c_0000_u32] {
        assert_eq!(Tag::from_word(word.to_be_bytes()), Err(Malformed::Reserved));
    }
    assert_eq!(
        Tag::from_word((MAX_CODE + 1).to_be_bytes()),
        Err(Malformed::Reserved)
    );
    assert_eq!(
        Tag::from_word([0, 0x7f, 0xff, 0xff]),
        Err(Malformed::Reserved)
    );
    for byte in [2, 3] {
        let mut option = TAG.to_ipv4();
        option[byte] = 1;
        assert_eq!(Tag::from_ipv4(option), Err(Malformed::Reserved));
    }
}

#[test]
fn a_tag_of_another_length_is_refused() {
    for length in (0..=255).filter(|length| *length != 8) {
        let mut option = TAG.to_ipv4();
        option[1] = length;
        assert_eq!(find_in_packet(&ipv4(&option, 20)), Err(Malformed::Length));
    }
    for length in (0..=255).filter(|length| *length != 4) {
        let mut header = TAG.to_ipv6(6);
        header[3] = length;
        assert_eq!(find_in_packet(&ipv6(60, &header)), Err(Malformed::Length));
    }
    for length in 1..=255 {
        let mut header = TAG.to_ipv6(6);
        header[1] = length;
        assert_eq!(find_in_packet(&ipv6(60, &header)), Err(Malformed::Length));
    }
}

#[test]
fn a_truncated_tag_is_refused() {
    for length in [1, 2, 4] {
        let option = &TAG.to_ipv4()[..length];
        assert_eq!(
            find_in_packet(&ipv4(option, 20)),
            Err(Malformed::Length),
            "{length}"
        );
    }
    for length in 0..48 {
        assert_eq!(
            find_in_packet(&ipv6(60, &TAG.to_ipv6(6))[..length.max(7)]),
            Err(Malformed::Length)
        );
    }
}

#[test]
fn a_second_tag_and_one_that_is_not_first_are_refused() {
    let tag = TAG.to_ipv4();
    let twice = [tag, tag].concat();
    assert_eq!(find_in_packet(&ipv4(&twice, 9)), Err(Malformed::Duplicate));
    let late = [&[1, 1, 1, 1][..], &tag].concat();
    assert_eq!(find_in_packet(&ipv4(&late, 9)), Err(Malformed::Duplicate));
    let twice = [TAG.to_ipv6(60), TAG.to_ipv6(6)].concat();
    assert_eq!(find_in_packet(&ipv6(60, &twice)), Err(Malformed::Duplicate));
}

#[test]
fn other_options_are_not_tags_and_may_follow_one() {
    // Router alert, record route with a 0x9e inside, end of list before a 0x9e.
    let alert = [0x94, 4, 0, 0];
    let route = [7, 11, 4, 0x9e, 0x9e, 0x9e, 0x9e, 0x9e, 0x9e, 0x9e, 0x9e];
    assert_eq!(find_in_packet(&ipv4(&alert, 9)), Ok(None));
    assert_eq!(find_in_packet(&ipv4(&route, 9)), Ok(None));
    assert_eq!(find_in_packet(&ipv4(&[1, 0, 0x9e, 0x9e], 9)), Ok(None));
    assert_eq!(find_in_packet(&ipv4(&[], 9)), Ok(None));
    for other in [&alert[..], &route] {
        let both = [&TAG.to_ipv4()[..], other].concat();
        assert_eq!(find_in_packet(&ipv4(&both, 9)), Ok(Some(TAG)));
    }
    assert_eq!(find_in_packet(&ipv6(6, &[0; 20])), Ok(None));
    assert_eq!(
        find_in_packet(&ipv6(60, &[6, 0, 1, 4, 0, 0, 0, 0])),
        Ok(None)
    );
}

#[test]
fn a_header_without_room_gets_no_tag() {
    let mut full = ipv4(&[1; 36], 0);
    assert!(tagged_ipv4_header(full[..20].try_into().unwrap(), TAG).is_none());
    full = ipv4(&[1; 32], 0);
    assert!(tagged_ipv4_header(full[..20].try_into().unwrap(), TAG).is_some());
    let mut long: [u8; 20] = ipv4(&[], 0)[..20].try_into().unwrap();
    long[2..4].copy_from_slice(&65_528_u16.to_be_bytes());
    assert!(tagged_ipv4_header(long, TAG).is_none());
    long[2..4].copy_from_slice(&65_527_u16.to_be_bytes());
    assert!(tagged_ipv4_header(long, TAG).is_some());
    // No option to remove.
    assert!(untagged_ipv4_header(long, TAG.to_ipv4()).is_none());
}

proptest! {
    #[test]
    fn any_tag_is_read_back(rank: u32, upstream_queue in 0..=MAX_UPSTREAM_QUEUE) {
        let tag = Tag { rank, upstream_queue };
        let read = tag.on_the_wire();
        let bits = if upstream_queue < 256 { 18 } else { 16 };
        prop_assert!(read.rank <= rank && u64::from(rank - read.rank) << bits <= u64::from(rank));
        prop_assert_eq!(read.upstream_queue, upstream_queue);
        prop_assert_eq!(Tag::from_ipv4(tag.to_ipv4()), Ok(Some(read)));
        prop_assert_eq!(Tag::from_ipv6(tag.to_ipv6(6)), Ok(Some(read)));
        prop_assert_eq!(read.on_the_wire(), read);
    }

    #[test]
    fn the_order_of_ranks_is_kept(one: u32, other: u32, upstream_queue in 0..=MAX_UPSTREAM_QUEUE) {
        prop_assert!((one <= other) <= (code_of_rank(one) <= code_of_rank(other)));
        let read = |rank| Tag { rank, upstream_queue }.on_the_wire().rank;
        prop_assert!((one <= other) <= (read(one) <= read(other)));
    }

    #[test]
    fn a_tag_is_rewritten_in_place(
        rank: u32, before in 0..=MAX_UPSTREAM_QUEUE, after in 0..=MAX_UPSTREAM_QUEUE,
        options in 0..8_usize, v6: bool, payload in 0..100_usize,
    ) {
        let tag = Tag { rank, upstream_queue: before };
        let mut packet = if v6 {
            ipv6(60, &[&tag.to_ipv6(6)[..], &vec![7; payload]].concat())
        } else {
            ipv4(&[&tag.to_ipv4()[..], &vec![1; options * 4]].concat(), payload)
        };
        let original = packet.clone();
        let (at, found) = read(&packet[..READ.min(packet.len())]).unwrap();
        prop_assert_eq!(found, tag.on_the_wire());
        let changed = Tag { upstream_queue: after, ..found };
        rewrite(&mut packet, at, changed);
        prop_assert_eq!(find_in_packet(&packet), Ok(Some(changed.on_the_wire())));
        if !v6 {
            prop_assert_eq!(checksum(&packet[..28 + options * 4]), 0);
        }
        // Nothing else has changed.
        packet[at..at + 4].copy_from_slice(&original[at..at + 4]);
        if !v6 {
            packet[10..12].copy_from_slice(&original[10..12]);
        }
        prop_assert_eq!(packet, original);
    }

    #[test]
    fn reading_at_the_tags_place_equals_a_search_of_the_packet(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80), version in 0..3_u8, at in 0..3_u8,
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = [0x47, 0x60, 0x40][usize::from(version)] | (*first & 7);
        }
        for (offset, with) in [(20, TAG.to_ipv4()), (40, TAG.to_ipv6(6))] {
            if at > 0 && bytes.len() >= offset + 8 {
                bytes[offset..offset + 8].copy_from_slice(&with);
                bytes[6] = 60;
            }
        }
        // A malformed part elsewhere is not seen; a truncated packet has no tag.
        let known = read(&bytes[..READ.min(bytes.len())]);
        if let Ok(found) = find_in_packet(&bytes) {
            prop_assert_eq!(known.map(|(_, tag)| tag), found);
        }
        if let Some((at, tag)) = known {
            rewrite(&mut bytes, at, tag);
            rewrite(&mut bytes, 78, tag);
            prop_assert_eq!(read(&bytes), Some((at, tag)));
        }
    }

    #[test]
    fn tagging_keeps_the_checksum_right_and_untagging_restores_the_header(
        rank: u32, upstream_queue in 0..=MAX_UPSTREAM_QUEUE, options in 0..9_usize, payload in 0..2000_usize,
        tos: u8, identification: u16,
    ) {
        let tag = Tag { rank, upstream_queue };
        let mut packet = ipv4(&vec![1; options * 4], payload);
        packet[1] = tos;
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        packet[10..12].fill(0);
        let header = 20 + options * 4;
        let sum = checksum(&packet[..header]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let before: [u8; 20] = packet[..20].try_into().unwrap();

        let after = tagged_ipv4_header(before, tag).unwrap();
        let tagged = [&after[..], &tag.to_ipv4(), &packet[20..]].concat();
        prop_assert_eq!(checksum(&tagged[..header + 8]), 0);
        prop_assert_eq!(find_in_packet(&tagged), Ok(Some(tag.on_the_wire())));
        prop_assert_eq!(usize::from(u16::from_be_bytes([after[2], after[3]])), tagged.len());

        let again = untagged_ipv4_header(after, tag.to_ipv4()).unwrap();
        prop_assert_eq!(checksum(&[&again[..], &packet[20..header]].concat()), 0);
        prop_assert_eq!(&again[..10], &before[..10]);
    }

    #[test]
    fn a_wrong_checksum_stays_wrong(rank: u32, flip in 1..=u16::MAX) {
        let mut packet = ipv4(&[], 0);
        let wrong = u16::from_be_bytes([packet[10], packet[11]]) ^ flip;
        packet[10..12].copy_from_slice(&wrong.to_be_bytes());
        prop_assume!(checksum(&packet) != 0);
        let tag = Tag { rank, upstream_queue: 0 };
        let after = tagged_ipv4_header(packet[..20].try_into().unwrap(), tag).unwrap();
        prop_assert_ne!(checksum(&[&after[..], &tag.to_ipv4()].concat()), 0);
    }

    #[test]
    fn any_bytes_are_a_tag_no_tag_or_malformed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80), version in 0..3_u8,
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x60, 0][usize::from(version)] | (*first & 15);
        }
        if let Ok(Some(tag)) = find_in_packet(&bytes) {
            prop_assert_eq!(tag.on_the_wire(), tag);
        }
    }

    #[test]
    fn any_options_are_walked_to_their_end(
        options: [u8; 32], first: u8, length in 0..=10_usize,
    ) {
        let mut all = [first; 40];
        all[8..].copy_from_slice(&options);
        all[..8].copy_from_slice(&TAG.to_ipv4());
        let _ = find_in_ipv4_options(&all, length * 4);
        all[0] = first;
        if let Ok(Some(_)) = find_in_ipv4_options(&all, length * 4) {
            prop_assert!(first == IPV4_OPTION && length >= 2);
        }
    }
}
