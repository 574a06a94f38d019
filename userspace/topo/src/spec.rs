// SPDX-License-Identifier: MIT OR Apache-2.0

//! Specifications: `KIND`, or `KIND:NAME=VALUE,…`.

use std::fmt;
use std::str::FromStr;

use weft_words::file::{MIB, SizeLimit};
use weft_words::near::meant;

use crate::error::Error;
use crate::file;
use crate::topology::Topology;

macro_rules! topologies {
    ($($(#[$doc:meta])* $module:ident::$Type:ident,)*) => {
        /// The kinds of topology that have a name.
        pub const KINDS: &[&str] = &[$(crate::$module::KIND),*];

        /// A specification: checked, and with every default filled in.
        ///
        /// ```
        /// let spec: weft_topo::Spec = "fat-tree:k=4,host-rate=1gbit".parse()?;
        /// assert_eq!(spec.topology().hosts().count(), 16);
        /// # Ok::<(), weft_topo::Error>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Spec {
            $( $(#[$doc])* $Type(crate::$module::$Type), )*
            /// Custom nodes and links of a file.
            File(file::File),
        }

        impl Spec {
            /// The fabric. The same specification always gives the same fabric.
            pub fn topology(&self) -> Topology {
                match self {
                    $( Self::$Type(spec) => spec.topology(), )*
                    Self::File(spec) => spec.topology(),
                }
            }

            /// A kind and the options after its colon.
            fn parse(kind: &str, options: Option<&str>) -> Result<Self, Error> {
                match kind {
                    $( crate::$module::KIND => {
                        crate::$module::$Type::parse(options).map(Self::$Type)
                    } )*
                    _ => Err(Error::new(format!(
                        "There is no topology \"{kind}\"{}; known are {}, or a TOML file",
                        meant(kind, KINDS),
                        KINDS.join(", ")
                    ))),
                }
            }
        }

        impl fmt::Display for Spec {
            /// Text that parses to the same specification, with [`str::parse`], or with
            /// [`Spec::from_toml`] for a file. Options with their default value are omitted.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$Type(spec) => spec.fmt(f), )*
                    Self::File(spec) => spec.fmt(f),
                }
            }
        }
    };
}

// A topology is a module with `KIND`, and a type with `parse`, `topology` and `Display`.
topologies! {
    /// `fat-tree:k=4`.
    fat_tree::FatTree,
    /// `leaf-spine:leaves=9,spines=4,hosts=16`.
    leaf_spine::LeafSpine,
    /// `rack:hosts=10`.
    rack::Rack,
    /// `dumbbell:left=4,right=4`.
    dumbbell::Dumbbell,
    /// `bfc-testbed`.
    bfc_testbed::BfcTestbed,
}

/// The largest file of a topology: fifty thousand links have room.
const FILE: SizeLimit = SizeLimit {
    kind: "a topology",
    bytes: 4 * MIB,
};

impl Spec {
    /// The topology that a command line names: one of [`KINDS`] with its options, or a file.
    ///
    /// # Errors
    ///
    /// Names the mistake, and the file.
    pub fn named(name: &str) -> Result<Self, Error> {
        if !Self::is_file(name) {
            return name.parse();
        }
        let content = FILE.read_text(name);
        let content = content.map_err(|error| Error::new(format!("topology {name}: {error}")))?;
        Self::from_toml(&content).map_err(|error| Error::new(format!("{name}: {error}")))
    }

    /// Whether a name is that of a file.
    pub fn is_file(name: &str) -> bool {
        let kind = name.split(':').next().unwrap_or(name);
        !KINDS.contains(&kind) && (name.contains('/') || name.ends_with(".toml"))
    }

    /// The topology in a TOML file with this content; see [`crate::file`].
    ///
    /// # Errors
    ///
    /// Names the mistake and its line, node or link.
    pub fn from_toml(content: &str) -> Result<Self, Error> {
        file::File::parse(content).map(Self::File)
    }
}

impl FromStr for Spec {
    type Err = Error;

    /// One of [`KINDS`] and its options. A layer's rate is its own option (`core-rate`), else
    /// `fabric-rate`, else `rate`, else the default; likewise delays. The modules of the kinds list
    /// their options and defaults.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (kind, options) = match text.split_once(':') {
            Some((kind, options)) => (kind, Some(options)),
            None => (text, None),
        };
        Self::parse(kind, options)
    }
}
