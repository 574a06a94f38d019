// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the option tests of every kind share: requests whose bytes are right or wrong.

use anyhow::{Context as _, Result, bail, ensure};
use nix::errno::Errno;
use weft_mechanisms::common::nla::{Refusal, RefusalKind, Sink as _};
use weft_mechanisms::common::options::Configuration;

use crate::netlink::{Handle, Nest, Refused, Verb};
use crate::port::{INDEX, Port};
use crate::random::Random;

pub(super) const HANDLE: Handle = Handle::new(1, 0);

/// What a configuration (`None`: there is none yet) becomes under a request with this payload, as
/// the payload of a dump.
pub(super) type Oracle = fn(Option<&[u8]>, &[u8]) -> Result<Vec<u8>, Refusal>;

/// The oracle of a kind that is told a `C`.
pub(super) fn expect<C: Configuration>(
    current: Option<&[u8]>,
    payload: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let config = C::requested(current.map(C::parse).transpose()?, payload)?;
    Ok(Nest::of(|nest| config.put(nest)))
}

/// A kind of qdisc and an oracle for its options.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) expect: Oracle,
    /// The types of its attributes and their sizes in bytes.
    pub(super) attributes: &'static [(u16, usize)],
}

impl Kind {
    /// Sends a request for the root qdisc of a port.
    pub(super) fn request(&self, port: &mut Port, verb: Verb, payload: &[u8]) -> Result<()> {
        port.qdisc(verb, self.name, Handle::ROOT, HANDLE, payload.to_vec())
    }

    /// The options of the root qdisc, `None` if it is none of this kind.
    pub(super) fn dumped(&self, port: &mut Port) -> Result<Option<Vec<u8>>> {
        let mut qdiscs = port.qdiscs()?.into_iter();
        Ok(qdiscs
            .find(|qdisc| qdisc.kind == self.name)
            .map(|qdisc| qdisc.options))
    }

    /// Checks that adding with `payload` is accepted and dumps as the oracle says; deletes again.
    pub(super) fn accepts(&self, port: &mut Port, payload: &[u8]) -> Result<Vec<u8>> {
        let expected = (self.expect)(None, payload)
            .map_err(|refusal| anyhow::anyhow!("the oracle refuses: {refusal:?}"))?;
        self.request(port, Verb::Add, payload)?;
        let dumped = self.dumped(port)?.context("the qdisc is not there")?;
        ensure!(
            dumped == expected,
            "dumped {dumped:02x?}, not {expected:02x?}"
        );
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
        Ok(dumped)
    }

    /// Checks that add, and change of a qdisc made with `good`, are refused in these words and
    /// leave everything as it was.
    pub(super) fn refuses(
        &self,
        port: &mut Port,
        good: &[u8],
        bad: &[u8],
        why: &Why,
    ) -> Result<()> {
        let context = || format!("{} with {bad:02x?}", self.name);
        why.check(self.request(port, Verb::Add, bad))
            .with_context(context)?;
        ensure!(
            self.dumped(port)?.is_none(),
            "a refused add left a qdisc: {}",
            context()
        );
        self.request(port, Verb::Add, good)?;
        let before = self.dumped(port)?;
        why.check(self.request(port, Verb::Change, bad))
            .with_context(context)?;
        why.check(self.request(port, Verb::Replace, bad))
            .with_context(context)?;
        let after = self.dumped(port)?;
        ensure!(
            before == after,
            "a refused change left {after:02x?}: {}",
            context()
        );
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    }

    /// Checks the refusals that every kind has in common.
    pub(super) fn refuses_malformed(&self, port: &mut Port, good: &[u8]) -> Result<()> {
        for &(attr, size) in self.attributes {
            for wrong in (0..=9).filter(|&wrong| wrong != size) {
                let bad = attribute(attr, &vec![1; wrong]);
                let why = Why::of(Errno::EINVAL, "Attribute has the wrong size", attr);
                self.refuses(port, good, &bad, &why)?;
            }
        }
        for attr in [0, 50, 100, 0x3fff] {
            let why = Why::of(Errno::EINVAL, "Unknown attribute", attr);
            self.refuses(port, good, &attribute(attr, &[0; 4]), &why)?;
        }
        let whole = |message| Why {
            errno: Errno::EINVAL,
            message,
            attr: None,
        };
        let truncated = {
            let mut bytes = good.to_vec();
            // The header says one byte more than there is.
            let [low, high] = u16::to_ne_bytes(good.len() as u16 + 1);
            bytes[..2].copy_from_slice(&[low, high]);
            bytes
        };
        self.refuses(port, good, &truncated, &whole("Attribute is truncated"))?;
        let short = [3, 0, 1, 0];
        self.refuses(port, good, &short, &whole("Attribute is truncated"))?;
        for junk in 1..4 {
            let bytes = [good, &vec![0; junk]].concat();
            self.refuses(port, good, &bytes, &whole("Junk after the last attribute"))?;
        }
        Ok(())
    }

    /// Sends `count` random requests, right and wrong, adds and changes, and compares each outcome
    /// with the oracle. Returns how many were accepted.
    pub(super) fn fuzz(&self, port: &mut Port, good: &[u8], count: u32) -> Result<u32> {
        let mut random = Random::new(0x5eed);
        let mut accepted = 0;
        for number in 0..count {
            let payload = self.random_payload(&mut random);
            let exists = random.one_in(2);
            if exists {
                self.request(port, Verb::Add, good)?;
            }
            let before = self.dumped(port)?;
            let verb = match (exists, random.one_in(3)) {
                (_, true) => Verb::Replace,
                (true, _) => Verb::Change,
                (false, _) => Verb::Add,
            };
            let result = self.request(port, verb, &payload);
            let after = self.dumped(port)?;
            let context = || format!("request {number}, {verb:?} {payload:02x?}");
            let expected = (self.expect)(before.as_deref(), &payload);
            // The kernel's own check of the nest comes before the module's.
            let too_short = (1..4).contains(&payload.len());
            match expected {
                Ok(expected) if !too_short => {
                    result.with_context(context)?;
                    ensure!(
                        after.as_ref() == Some(&expected),
                        "{}: {after:02x?}",
                        context()
                    );
                    accepted += 1;
                }
                Ok(_) => ensure!(result.is_err() && after == before, "{}", context()),
                Err(refusal) => {
                    if too_short {
                        ensure!(result.is_err(), "{} was accepted", context());
                    } else {
                        Why::from(&refusal).check(result).with_context(context)?;
                    }
                    ensure!(after == before, "{} left {after:02x?}", context());
                }
            }
            if after.is_some() {
                port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
            }
        }
        Ok(accepted)
    }

    /// A payload that is often nearly right.
    fn random_payload(&self, random: &mut Random) -> Vec<u8> {
        if random.one_in(4) {
            let len = random.below(64);
            return (0..len).map(|_| random.next() as u8).collect();
        }
        let mut nest = Nest::default();
        for _ in 0..random.below(4) {
            let (mut attr, mut size) = random.choose(self.attributes);
            if random.one_in(12) {
                attr = random.below(20) as u16;
            }
            if random.one_in(12) {
                size = random.below(12) as usize;
            }
            if random.one_in(12) {
                // NLA_F_NESTED or NLA_F_NET_BYTEORDER, which mean nothing here.
                attr |= random.choose(&[0x4000, 0x8000]);
            }
            // Small values are the likely ones, and those near powers of two.
            let value = random.next() >> random.below(64);
            let mut bytes = value.to_le_bytes().to_vec();
            bytes.resize(size, 0);
            nest.put(attr, &bytes).expect("a vector has room");
        }
        let mut bytes = nest.0;
        if random.one_in(6) && !bytes.is_empty() {
            let at = random.below(bytes.len() as u32) as usize;
            bytes[at] = random.next() as u8;
        }
        if random.one_in(8) {
            bytes.truncate(random.below(bytes.len() as u32 + 1) as usize);
        }
        bytes
    }
}

/// One attribute.
pub(super) fn attribute(attr: u16, value: &[u8]) -> Vec<u8> {
    Nest::of(|nest| nest.put(attr, value))
}

/// How a request is to be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    pub(super) errno: Errno,
    pub(super) message: &'static str,
    /// The attribute at fault.
    pub(super) attr: Option<u16>,
}

impl Why {
    pub(super) const fn of(errno: Errno, message: &'static str, attr: u16) -> Self {
        Self {
            errno,
            message,
            attr: Some(attr),
        }
    }

    /// Checks that a request was refused just so.
    pub(super) fn check(&self, result: Result<()>) -> Result<()> {
        let Err(error) = result else {
            bail!("accepted, not refused with {self:?}")
        };
        let refused = error.downcast::<Refused>().context("not a refusal")?;
        let expected = Refused {
            errno: self.errno,
            message: Some(self.message.to_owned()),
            attr: self.attr,
        };
        ensure!(
            refused == expected,
            "refused with {refused:?}, not {expected:?}"
        );
        Ok(())
    }
}

impl From<&Refusal> for Why {
    fn from(refusal: &Refusal) -> Self {
        let errno = match refusal.kind {
            RefusalKind::Invalid => Errno::EINVAL,
            RefusalKind::Range => Errno::ERANGE,
        };
        let message = refusal.message.to_str().expect("sentences are ASCII");
        Self {
            errno,
            message,
            attr: refusal.attr,
        }
    }
}
