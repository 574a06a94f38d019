// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a machine is made of.

/// What drives the guest's clock, and so which kind of machine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// QEMU counts instructions: deterministic.
    Virtual {
        /// An instruction takes 2^shift ns.
        shift: u8,
        /// The seed of the guest's randomness.
        seed: u64,
    },
    /// QEMU on the host's clock and processor.
    Kvm,
    /// QEMU on the host's clock, with translated code.
    Tcg,
    /// A kernel that is a program, in which computing takes no time: deterministic.
    Model {
        /// The seed of the guest's randomness.
        seed: u64,
    },
    /// The same kernel on the host's clock, for a person at a terminal: no time passes in the model
    /// clock while somebody types.
    Wall,
    /// A kernel that is a program, on the host's clock and processors: the debug kernel.
    Debug,
}

impl Clock {
    /// As the command line and results have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Virtual { .. } => "virtual",
            Self::Model { .. } => "model",
            Self::Kvm | Self::Tcg | Self::Wall | Self::Debug => "real",
        }
    }

    /// Whether the kernel is a program, not something that QEMU boots.
    pub fn is_program(self) -> bool {
        matches!(self, Self::Model { .. } | Self::Wall | Self::Debug)
    }
}

/// Where the guest's second serial line, the command's terminal, leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// To a file. A pipe could run full, and a serial line that waits changes the guest's timing.
    File,
    /// To the user.
    Interactive,
}

/// A machine's size and kind.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What drives its clock.
    pub clock: Clock,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Room for the guest's `/out` in MiB.
    pub out_mib: u32,
    /// More of the kernel's command line.
    pub append: Vec<String>,
    /// Where the command's terminal leads.
    pub terminal: Terminal,
    /// Tap devices of this network namespace, each of which is an interface of the guest.
    pub taps: Vec<String>,
}
