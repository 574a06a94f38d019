// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! SipHash-2-4: the vectors of its authors' reference implementation.

use weft_mechanisms::fastpass::siphash::hash;

const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

#[test]
fn it_matches_the_reference_vectors() {
    let bytes: Vec<u8> = (0..64).collect();
    let expected = [
        (0, 0x726f_db47_dd0e_0e31),
        (1, 0x74f8_39c5_93dc_67fd),
        (7, 0xab02_00f5_8b01_d137),
        (8, 0x93f5_f579_9a93_2462),
        (15, 0xa129_ca61_49be_45e5),
        (63, 0x958a_324c_eb06_4572),
    ];
    for (length, expected) in expected {
        assert_eq!(hash(KEY, &bytes[..length]), expected, "{length}");
    }
}
