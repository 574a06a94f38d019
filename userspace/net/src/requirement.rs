// SPDX-License-Identifier: MIT OR Apache-2.0

//! Required parts of the kernel.

use std::fmt;

/// A part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part<'a> {
    /// Pairs of virtual Ethernet devices.
    Veth,
    /// A queueing discipline, by its kind.
    Qdisc(&'a str),
    /// A classifier, by its kind, for filters of a `clsact` qdisc.
    Classifier(&'a str),
    /// A congestion control of TCP, by its name.
    CongestionControl(&'a str),
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Veth => f.write_str("veth"),
            Self::Qdisc(kind) => write!(f, "the qdisc {kind}"),
            Self::Classifier(kind) => write!(f, "the classifier {kind}"),
            Self::CongestionControl(name) => write!(f, "the congestion control {name}"),
        }
    }
}

impl Part<'_> {
    /// Whether one of weft's own modules provides it.
    pub fn is_own(&self) -> bool {
        match self {
            Self::Qdisc(name) => weft_mechanisms::qdisc(name).is_some(),
            Self::CongestionControl(name) => weft_mechanisms::congestion_control(name).is_some(),
            Self::Veth | Self::Classifier(_) => false,
        }
    }

    /// Whether it can be a module: the others are part of each kernel that can have them.
    pub fn is_module(&self) -> bool {
        let never = [
            Self::Qdisc("bfifo"),
            Self::Qdisc("pfifo"),
            Self::CongestionControl("reno"),
        ];
        !never.contains(self)
    }

    /// The module that provides it.
    pub fn module(&self) -> String {
        match self {
            Self::Veth => "veth".to_owned(),
            Self::Qdisc("clsact") => "sch_ingress".to_owned(),
            Self::Qdisc(kind) => format!("sch_{kind}"),
            Self::Classifier(kind) => format!("cls_{kind}"),
            Self::CongestionControl(name) => format!("tcp_{name}"),
        }
    }

    /// The remedy if the kernel lacks it. The kernel has been asked, and would have loaded an
    /// available module.
    pub(crate) fn cure(&self) -> String {
        let module = self.module();
        match self.is_own() {
            true => format!(
                "weft's own machine has it (--clock model); for another kernel, --module FILE names its {module}.ko"
            ),
            false => {
                format!("--module FILE names its {module}.ko, if you have one for this kernel")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_module_has_an_entry() {
        let kmod = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod");
        let mut found = 0;
        for folder in kmod.read_dir().unwrap() {
            let folder = folder.unwrap().path();
            let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            // Two are no mechanisms: the test module of kapi, and sockets that send by themselves.
            if name == "selftest" || name == "pump" {
                continue;
            }
            for (file, part) in [
                (format!("sch_{name}.rs"), Part::Qdisc(name)),
                (format!("tcp_{name}.rs"), Part::CongestionControl(name)),
            ] {
                assert_eq!(folder.join(file).exists(), part.is_own(), "{part}");
                found += usize::from(part.is_own());
            }
        }
        assert!(found > 0);
    }
}
