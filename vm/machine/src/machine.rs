// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of a machine.

/// The names of clocks on command lines and in results.
pub mod clocks {
    /// Counted instructions.
    pub const INSTRUCTIONS: &str = "instructions";
    /// Computation takes no time.
    pub const MODEL: &str = "model";
    /// The host's own.
    pub const REAL: &str = "real";
}

/// The guest's clock, which also determines the kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// QEMU counts instructions: deterministic.
    Instructions {
        /// An instruction takes 2^shift ns.
        shift: u8,
        /// The seed of the guest's randomness.
        seed: u64,
    },
    /// QEMU on the host's clock and processor.
    Kvm,
    /// QEMU on the host's clock, with translated code.
    Tcg,
    /// A kernel that is a program, in which computation takes no time: deterministic.
    Model {
        /// The seed of the guest's randomness.
        seed: u64,
    },
    /// The same kernel on the host's clock, for interactive use: the model clock does not advance
    /// while a user types.
    Wall,
    /// A kernel that is a program, on the host's clock and processors: the debug kernel.
    Debug,
}

impl Clock {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions { .. } => clocks::INSTRUCTIONS,
            Self::Model { .. } => clocks::MODEL,
            Self::Kvm | Self::Tcg | Self::Wall | Self::Debug => clocks::REAL,
        }
    }

    /// Whether the kernel is a program, rather than booted by QEMU.
    pub fn is_program(self) -> bool {
        matches!(self, Self::Model { .. } | Self::Wall | Self::Debug)
    }
}

/// The destination of the guest's second serial line, the command's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// A file. A pipe could fill up, and a serial line that waits changes the guest's timing.
    File,
    /// The user's terminal.
    Interactive,
}

/// A machine's size and kind.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its clock.
    pub clock: Clock,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Room for the guest's `/out` in MiB.
    pub out_mib: u32,
    /// Additional arguments of the kernel.
    pub append: Vec<String>,
    /// The destination of the command's terminal.
    pub terminal: Terminal,
    /// Tap devices in this network namespace, each connected to an interface of the guest.
    pub taps: Vec<String>,
}
