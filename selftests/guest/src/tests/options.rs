// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the option tests of every kind share: requests whose bytes are right or wrong.

use anyhow::{Context as _, Result, bail, ensure};
use nix::errno::Errno;
use weft_mechanisms::common::mechanism;
use weft_mechanisms::common::nla::{Refusal, RefusalKind, Sink as _};
use weft_mechanisms::common::options::{Configuration, Unit};

use crate::netlink::{Handle, Nest, Refused, Verb};
use crate::port::{INDEX, Port};

pub(super) const HANDLE: Handle = Handle::new(1, 0);

/// What a configuration (`None`: there is none yet) becomes under a request with this payload, as
/// the payload of a dump.
type Oracle = fn(Option<&[u8]>, &[u8]) -> Result<Vec<u8>, Refusal>;

/// The oracle of a kind whose options are a `C`.
fn expect<C: Configuration>(current: Option<&[u8]>, payload: &[u8]) -> Result<Vec<u8>, Refusal> {
    let config = C::requested(current.map(C::parse).transpose()?, payload)?;
    Ok(Nest::of(|nest| config.put(nest)))
}

/// A kind of qdisc and an oracle for its options.
pub(super) struct Kind {
    pub(super) qdisc: mechanism::Qdisc,
    pub(super) expect: Oracle,
}

impl Kind {
    /// A kind whose options are a `C`.
    pub(super) const fn of<C: Configuration>(qdisc: mechanism::Qdisc) -> Self {
        Self {
            qdisc,
            expect: expect::<C>,
        }
    }

    /// The types of its attributes and their sizes in bytes, except for devices, whose number
    /// varies.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (u16, usize)> {
        let rows = self.qdisc.options.iter();
        let fixed = rows.filter(|row| !matches!(row.unit, Unit::Devices(..)));
        fixed.map(|row| (row.attr, row.width))
    }

    /// Sends a request for the root qdisc of a port.
    pub(super) fn request(&self, port: &mut Port, verb: Verb, payload: &[u8]) -> Result<()> {
        port.qdisc(
            verb,
            self.qdisc.kind,
            Handle::ROOT,
            HANDLE,
            payload.to_vec(),
        )
    }

    /// The options of the root qdisc, `None` if it is none of this kind.
    pub(super) fn dumped(&self, port: &mut Port) -> Result<Option<Vec<u8>>> {
        let root = port.netlink.get_qdisc(INDEX, Handle::ROOT)?;
        let root = root.filter(|qdisc| qdisc.kind == self.qdisc.kind);
        Ok(root.map(|qdisc| qdisc.options))
    }

    /// Checks that adding with `payload` is accepted and dumps as the oracle says.
    pub(super) fn adds(&self, port: &mut Port, payload: &[u8]) -> Result<Vec<u8>> {
        let expected = (self.expect)(None, payload)
            .map_err(|refusal| anyhow::anyhow!("the oracle refuses: {refusal:?}"))?;
        self.request(port, Verb::Add, payload)?;
        let dumped = self.dumped(port)?.context("the qdisc is not there")?;
        ensure!(
            dumped == expected,
            "dumped {dumped:02x?}, not {expected:02x?}"
        );
        Ok(dumped)
    }

    /// The same, and deletes it again.
    pub(super) fn accepts(&self, port: &mut Port, payload: &[u8]) -> Result<Vec<u8>> {
        let dumped = self.adds(port, payload)?;
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
        let context = || format!("{} with {bad:02x?}", self.qdisc.kind);
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
        for (attr, size) in self.attributes() {
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
