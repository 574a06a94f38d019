// SPDX-License-Identifier: GPL-2.0-only

//! A module's settings, one set for each network namespace: files below `/proc/sys/net`, for
//! `sysctl`.
//!
//! The kernel creates and frees a namespace's set with the namespace (`register_pernet_subsys`),
//! and finds it by a number that it gives each registration. kapi is compiled into every module, so
//! that number is a static of the module, and a module has one registration.

use core::{
    ffi::CStr,
    marker::PhantomData,
    mem::MaybeUninit,
    ops::RangeInclusive,
    ptr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use kernel::{error::to_result, prelude::*};

use super::{
    bindings::{
        ctl_table, ctl_table_header, net, pernet_operations, proc_douintvec_minmax,
        register_net_sysctl_sz, register_pernet_subsys, unregister_net_sysctl_table,
        unregister_pernet_subsys, weft_net_generic,
    },
    layout,
};

/// The most settings that a module can have.
pub const MOST: usize = 12;

/// One setting: a file that holds a number.
pub struct Setting {
    /// The file's name.
    name: &'static CStr,
    /// Its value in a new namespace.
    default: u32,
    /// The smallest and the largest number that it accepts.
    min: u32,
    max: u32,
}

impl Setting {
    /// The bytes that a full packet occupies on the wire; by default on Ethernet, including
    /// preamble and gap.
    pub const PACKET_BYTES: Self = Self::new(1538, 64..=65_535);

    /// The window, in packets, of a flow that a rate controls.
    pub const CWND: Self = Self::new(65_535, 1..=65_535);

    /// A setting with a default, and the numbers that it accepts. [`settings!`] gives it its name.
    pub const fn new(default: u32, range: RangeInclusive<u32>) -> Self {
        Self {
            name: c"",
            default,
            min: *range.start(),
            max: *range.end(),
        }
    }

    /// The same setting with a name, which ends with a zero.
    pub const fn named(self, name: &'static str) -> Self {
        let name = match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
        Self { name, ..self }
    }
}

/// Declares a module's [`Settings`], and a function for each that reads it for a socket:
///
/// ```ignore
/// settings! {
///     /// When they are read.
///     struct Sysctls in c"net/ipv4/tcp_name" {
///         rtt_us: Setting::new(250, 1..=LONGEST_TIMEOUT_US);
///         packet_bytes: Setting::PACKET_BYTES;
///     }
/// }
///
/// let rtt_us = Sysctls::rtt_us(socket);
/// ```
macro_rules! settings {
    ($(#[$about:meta])* struct $type:ident in $path:literal { $($name:ident: $setting:expr;)* }) => {
        $(#[$about])*
        struct $type;

        impl $crate::kapi::settings::Settings for $type {
            const PATH: &'static CStr = $path;

            const SETTINGS: &'static [Setting] =
                &[$($setting.named(concat!(stringify!($name), "\0")),)*];
        }

        impl $type {
            settings!(@read [] $($name)*);
        }
    };
    (@read [$($before:ident)*]) => {};
    (@read [$($before:ident)*] $name:ident $($rest:ident)*) => {
        fn $name(socket: &Socket<'_>) -> u32 {
            const BEFORE: &[&str] = &[$(stringify!($before)),*];
            socket.setting::<Self>(BEFORE.len())
        }

        settings!(@read [$($before)* $name] $($rest)*);
    };
}

/// The settings of a module.
pub trait Settings: 'static {
    /// The directory of their files, below `/proc/sys`.
    const PATH: &'static CStr;
    /// At most [`MOST`].
    const SETTINGS: &'static [Setting];
}

/// No settings.
impl Settings for () {
    const PATH: &'static CStr = c"";
    const SETTINGS: &'static [Setting] = &[];
}

/// The kernel's data for each namespace; zeroed when it is created.
#[repr(C)]
struct Set {
    header: *mut ctl_table_header,
    table: [ctl_table; MOST],
    /// A file's handler stores a value while others read it.
    values: [AtomicU32; MOST],
}

/// The number by which the kernel finds a namespace's [`Set`]; 0: not registered.
static ID: AtomicU32 = AtomicU32::new(0);

/// Whether settings are registered, or about to be: the number stands for one type.
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// The settings exist in all present and future namespaces; dropping this value removes them.
///
/// # Invariants
///
/// `ops` is registered and does not move; [`ID`] is its number.
pub struct Namespaces<S: Settings> {
    ops: KBox<pernet_operations>,
    _settings: PhantomData<S>,
}

// SAFETY: They can be removed from any thread.
unsafe impl<S: Settings> Send for Namespaces<S> {}
// SAFETY: A shared registration has no operations.
unsafe impl<S: Settings> Sync for Namespaces<S> {}

impl<S: Settings> Namespaces<S> {
    const THEY_FIT: () = assert!(S::SETTINGS.len() <= MOST, "too many settings");

    /// Makes the files. `None`: there are no settings.
    ///
    /// # Safety
    ///
    /// The value is dropped before the module is unloaded.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the module has registered settings, `EINVAL` if Rust and C disagree on a layout
    /// (see the kernel log), `ENOMEM`.
    pub(super) unsafe fn register() -> Result<Option<Self>> {
        let () = Self::THEY_FIT;
        if S::SETTINGS.is_empty() {
            return Ok(None);
        }
        layout::check()?;
        if CLAIMED.swap(true, Ordering::Relaxed) {
            return Err(EBUSY);
        }
        let ops = pernet_operations {
            init: Some(Self::init),
            exit: Some(Self::exit),
            id: ID.as_ptr(),
            size: size_of::<Set>(),
            // SAFETY: All other fields are optional pointers and a list head that the registration
            // fills, for all of which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        };
        let registered = KBox::new(ops, GFP_KERNEL)
            .map_err(Error::from)
            .and_then(|mut ops| {
                // SAFETY: The table is complete and, in its box, does not move until drop.
                to_result(unsafe { register_pernet_subsys(&raw mut *ops) }).map(|()| ops)
            });
        let ops = registered.inspect_err(|_| {
            ID.store(0, Ordering::Relaxed);
            CLAIMED.store(false, Ordering::Relaxed);
        })?;
        // INVARIANT: Registered just now, which set the number.
        Ok(Some(Self {
            ops,
            _settings: PhantomData,
        }))
    }

    /// A namespace is created, or existed when the module was loaded.
    ///
    /// # Safety
    ///
    /// Only the kernel may call this, through the table above: with a namespace whose [`Set`] is
    /// zeroed and not in use.
    unsafe extern "C" fn init(net: *mut net) -> c_int {
        // SAFETY: The kernel creates the set, of the size in the table, before it calls this.
        let set = unsafe { weft_net_generic(net, ID.load(Ordering::Relaxed)) }.cast::<Set>();
        // SAFETY: Valid, and not shared until the files exist. All-zero bytes are a value of each
        // of its fields.
        let Set {
            header,
            table,
            values,
        } = unsafe { &mut *set };
        for ((setting, entry), value) in S::SETTINGS.iter().zip(&mut *table).zip(&*values) {
            value.store(setting.default, Ordering::Relaxed);
            entry.procname = setting.name.as_ptr().cast();
            entry.data = value.as_ptr().cast();
            entry.maxlen = size_of::<u32>() as c_int;
            entry.mode = 0o644;
            entry.proc_handler = Some(proc_douintvec_minmax);
            // The handler only reads these.
            entry.extra1 = (&raw const setting.min).cast_mut().cast();
            entry.extra2 = (&raw const setting.max).cast_mut().cast();
        }
        // SAFETY: The entries describe the namespace's own values, which live as long as the files:
        // until exit() removes them.
        *header = unsafe {
            register_net_sysctl_sz(
                net,
                S::PATH.as_ptr().cast(),
                table.as_mut_ptr(),
                S::SETTINGS.len(),
            )
        };
        if header.is_null() {
            ENOMEM.to_errno()
        } else {
            0
        }
    }

    /// A namespace is destroyed, or the module unloaded.
    ///
    /// # Safety
    ///
    /// Only the kernel may call this, through the table above: once after init() succeeded.
    unsafe extern "C" fn exit(net: *mut net) {
        // SAFETY: The set exists until this returns, and init() created its files.
        unsafe {
            let set = weft_net_generic(net, ID.load(Ordering::Relaxed)).cast::<Set>();
            unregister_net_sysctl_table((*set).header);
        }
    }
}

impl<S: Settings> Drop for Namespaces<S> {
    fn drop(&mut self) {
        // SAFETY: Registered (invariant).
        unsafe { unregister_pernet_subsys(&raw mut *self.ops) };
        ID.store(0, Ordering::Relaxed);
        CLAIMED.store(false, Ordering::Relaxed);
    }
}

/// A setting's value in a namespace, by its place in `S::SETTINGS`. Its default if there is no
/// registration; 0 if there is no such setting.
///
/// # Safety
///
/// `net` is valid, and so is its set for as long as this runs: the settings are not being
/// unregistered, and the namespace is not being destroyed.
pub(super) unsafe fn read<S: Settings>(net: *mut net, place: usize) -> u32 {
    let id = ID.load(Ordering::Relaxed);
    if id == 0 {
        return S::SETTINGS.get(place).map_or(0, |setting| setting.default);
    }
    // SAFETY: As the caller promises. Only this field is borrowed, because the files are in use
    // meanwhile.
    let values = unsafe {
        let set = weft_net_generic(net, id).cast::<Set>();
        &*ptr::addr_of!((*set).values)
    };
    values
        .get(place)
        .map_or(0, |value| value.load(Ordering::Relaxed))
}
