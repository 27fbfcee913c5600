// SPDX-License-Identifier: GPL-2.0

//! The trial of the hook: whether the pinning of user memory passes a replacement.
//!
//! ftrace redirects only calls of a function. If the compiler has inlined the function into another
//! one, the other one pins memory past the hook, and no error shows that. So the owner of the hook
//! calls the functions of ib_core once, as drivers do: [`passes`]. A replacement that finds itself in
//! a trial ([`seen`]) returns an error that the originals do not have.

use crate::shared::{
    ext::task::id::TaskId,
    prelude::raw::*, //
};

/// What the replacements return in a trial. The originals return `EINVAL` for the arguments of a
/// trial.
const SEEN: Error = EBADCOOKIE;

/// The arguments of a trial: a range that wraps around. The original rejects the range before it
/// looks at the device and at the process.
pub(super) struct Arguments {
    device: KBox<rdma::ib_device>,
    pub(super) va: u64,
    pub(super) len: usize,
}

impl Arguments {
    /// Context: may sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            device: KBox::init(pin_init::init_zeroed(), GFP_KERNEL)?,
            // CAST: `usize` has at most 64 bits.
            va: (usize::MAX - (PAGE_SIZE - 1)) as u64,
            len: 2 * PAGE_SIZE,
        })
    }

    /// Returns a device, all zero and not registered.
    pub(super) fn device(&mut self) -> *mut rdma::ib_device {
        &raw mut *self.device
    }
}

/// Returns whether `call`, which calls a function that pins user memory with [`Arguments`], passes a
/// replacement. Only one task may try at a time. Context: that of `call`.
pub(super) fn passes(call: impl FnOnce() -> *mut rdma::ib_umem) -> bool {
    // SAFETY: The function stores a number.
    unsafe { helpers::ext_trial_begin(TaskId::current().0) };
    let result = from_err_ptr(call());
    // SAFETY: The function stores a number; 0 is no task.
    unsafe { helpers::ext_trial_begin(0) };
    result == Err(SEEN)
}

/// Returns what a replacement must return at once if the current task runs a trial. The arguments of
/// the replacement are not valid then.
pub(super) fn seen() -> Option<*mut rdma::ib_umem> {
    // SAFETY: The function compares numbers.
    unsafe { helpers::ext_trial_is(TaskId::current().0) }.then(|| SEEN.to_ptr())
}

#[cfg(ext_tests)]
#[kunit_tests(ext_umem_hook_trial)]
mod tests {
    use super::{
        super::entry,
        *, //
    };

    /// Stands for a function of ib_core that does not pass a hook.
    fn original() -> *mut rdma::ib_umem {
        EINVAL.to_ptr()
    }

    #[test]
    fn only_a_replacement_passes() {
        assert!(seen().is_none());
        assert!(!passes(original));
        assert!(passes(|| seen().unwrap_or(EINVAL.to_ptr())));
        assert!(seen().is_none());
    }

    /// The original rejects the arguments, and does not touch the device.
    #[test]
    fn the_arguments_pin_nothing() -> Result {
        let mut args = Arguments::new()?;
        let (va, len) = (args.va, args.len);
        assert!(va.checked_add(len as u64).is_none());
        let dev = args.device();
        // SAFETY: The function rejects the range before it uses the device.
        let umem = unsafe { entry::pin(dev, va, len) };
        assert!(from_err_ptr(umem) == Err(EINVAL));
        Ok(())
    }
}
