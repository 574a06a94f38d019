// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein: "SipHash: a fast short-input PRF", 2012).
//!
//! The checksum of control packets: without the key nobody can change or make a packet.

/// The hash of `bytes` under the key with these two halves.
pub fn hash(key: [u64; 2], bytes: &[u8]) -> u64 {
    let [k0, k1] = key;
    let mut state = State([
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        state.absorb(little_endian(word));
    }
    let length = (bytes.len() as u64) << 56;
    state.absorb(length | little_endian(words.remainder()));
    let State([_, _, v2, _]) = &mut state;
    *v2 ^= 0xff;
    for _ in 0..4 {
        state.round();
    }
    let State([v0, v1, v2, v3]) = state;
    v0 ^ v1 ^ v2 ^ v3
}

/// Up to 8 bytes as a number.
fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = 0;
    for byte in bytes.iter().rev() {
        word = word << 8 | u64::from(*byte);
    }
    word
}

struct State([u64; 4]);

impl State {
    fn absorb(&mut self, word: u64) {
        let Self([_, _, _, v3]) = self;
        *v3 ^= word;
        self.round();
        self.round();
        let Self([v0, ..]) = self;
        *v0 ^= word;
    }

    fn round(&mut self) {
        let Self([v0, v1, v2, v3]) = self;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }
}
