// SPDX-License-Identifier: GPL-2.0-only

//! A kind of qdisc as a module.

use core::marker::{PhantomData, PhantomPinned};

use kernel::{error::to_result, prelude::*, InPlaceModule};

use super::{
    adapter::Adapter,
    bindings::{self, register_qdisc, unregister_qdisc, weft_within_module},
    layout,
    namespace::{self, private::Sharing as _},
    qdisc::Qdisc,
};

/// A registered kind of qdisc, and the state that its qdiscs share; dropping it unregisters the
/// kind. The kernel keeps the module loaded as long as a qdisc of the kind exists.
///
/// It is a module: `module! { type: Registration<…>, … }`. If the value were forgotten, the kernel
/// would call into an unloaded module. So it is pinned, in memory that lives as long as the module.
///
/// # Invariants
///
/// `ops` is registered and does not move.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Qdisc> {
    ops: KBox<bindings::Qdisc_ops>,
    /// Dropped after this value's `drop`, because qdiscs refer to namespaces.
    _shared: Option<namespace::Registration>,
    _kind: PhantomData<T>,
    #[pin]
    _pinned: PhantomPinned,
}

// SAFETY: The kind can be unregistered from any thread.
unsafe impl<T: Qdisc> Send for Registration<T> {}
// SAFETY: A shared registration has no operations.
unsafe impl<T: Qdisc> Sync for Registration<T> {}

impl<T: Qdisc> Registration<T> {
    /// Registers the kind.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the kind is taken, `EBUSY` if the module has another kind of qdisc that shares
    /// state, `EINVAL` if Rust and C disagree on a layout (see the kernel log) or the registration
    /// is not in the module's static memory, `ENOMEM`, or the error of the state of a namespace.
    pub fn new(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            _shared: {
                // SAFETY: `module` is the running module.
                if !unsafe { weft_within_module(this.as_ptr().cast(), module.as_ptr().cast()) } {
                    Err(EINVAL)?;
                }
                layout::check()?;
                // SAFETY: It becomes part of a pinned value in the module's static memory, which is
                // dropped when the module is unloaded.
                unsafe { T::Shared::register()? }
            },
            // INVARIANT: Registered here.
            ops: {
                let mut ops = KBox::new(Adapter::<T>::ops(module), GFP_KERNEL)?;
                // SAFETY: The table is complete and, in its box, does not move until drop.
                to_result(unsafe { register_qdisc(&raw mut *ops) })?;
                ops
            },
            _kind: PhantomData,
            _pinned: PhantomPinned,
        }? Error)
    }
}

impl<T: Qdisc> InPlaceModule for Registration<T> {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        Self::new(module)
    }
}

#[pinned_drop]
impl<T: Qdisc> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered (invariant). The table is not moved.
        unsafe { unregister_qdisc(&raw mut *self.get_unchecked_mut().ops) }
    }
}
