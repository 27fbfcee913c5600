// SPDX-License-Identifier: GPL-2.0

//! Errors of a function of another module whose callers ignore them.
//!
//! C header: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h).
//!
//! A [`ReturnProbe`] is a kretprobe that is armed only while calls are watched, and for a second
//! more. Otherwise the probe costs the callers of the function nothing. Used for drivers that
//! ignore a failed invalidation.

use crate::shared::bindings::helpers;
use core::{
    ffi::c_void,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*, //
};

/// A probe on the returns of a function.
///
/// # Invariants
///
/// The pointer is from `ext_return_probe_new()`, and not freed.
pub struct ReturnProbe(NonNull<helpers::ext_return_probe>);

// SAFETY: The functions for a probe may be called by any task.
unsafe impl Send for ReturnProbe {}
// SAFETY: The functions for a probe do their own locking.
unsafe impl Sync for ReturnProbe {}

impl ReturnProbe {
    /// Creates a probe on the function `symbol`, which must return an `int`. `symbol` may begin
    /// with the name of a module and a colon.
    ///
    /// Fails if there is no such function, or if the kernel cannot probe the function. The module
    /// may be unloaded before the probe is dropped.
    ///
    /// Context: may sleep.
    pub fn new(symbol: &'static CStr) -> Result<Self> {
        // SAFETY: The name is static.
        let raw = from_err_ptr(unsafe { helpers::ext_return_probe_new(symbol.as_char_ptr()) })?;
        // INVARIANT: Just created.
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }

    /// Arms the probe until the result is dropped.
    ///
    /// Context: may sleep.
    pub fn arm(&self) -> Result<Armed<'_>> {
        // SAFETY: By the type invariants the probe is valid.
        to_result(unsafe { helpers::ext_return_probe_arm(self.0.as_ptr()) })?;
        // INVARIANT: Just armed.
        Ok(Armed(self))
    }
}

impl Drop for ReturnProbe {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the probe is valid. No code uses the probe after the call,
        // as an `Armed` borrows the probe.
        unsafe { helpers::ext_return_probe_free(self.0.as_ptr()) };
    }
}

/// An armed probe.
///
/// # Invariants
///
/// The probe was armed on behalf of this object.
pub struct Armed<'a>(&'a ReturnProbe);

impl Armed<'_> {
    /// Calls `f`. Fails with the last error that the probed function has returned to the current
    /// task during the call of `f`, and with `EAGAIN` if an error may have been missed.
    ///
    /// Context: that of `f`, and may sleep.
    pub fn watch(&self, f: &dyn Fn()) -> Result {
        let f: *const &dyn Fn() = &f;
        // SAFETY: By the type invariants the probe is valid and armed. `call` gets a pointer to a
        // `&dyn Fn()`, as `call` requires.
        to_result(unsafe {
            helpers::ext_return_probe_watch((self.0).0.as_ptr(), Some(call), f.cast_mut().cast())
        })
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the probe is valid, and armed on behalf of this object.
        unsafe { helpers::ext_return_probe_put((self.0).0.as_ptr()) };
    }
}

/// Calls a function.
///
/// # Safety
///
/// `f` must point to a `&dyn Fn()` that is valid during the call.
unsafe extern "C" fn call(f: *mut c_void) {
    // SAFETY: By the safety requirements `f` points to a valid `&dyn Fn()`.
    let f = unsafe { &*f.cast_const().cast::<&dyn Fn()>() };
    f();
}

#[cfg(ext_tests)]
#[kunit_tests(ext_return_probe)]
mod tests {
    use super::*;
    use kernel::bindings;

    /// Fails with `EINVAL`.
    fn fail() {
        let mut result = false;
        // SAFETY: The function accepts NULL, and returns an error.
        let _ = unsafe { bindings::kstrtobool(ptr::null(), &mut result) };
    }

    /// Succeeds.
    fn succeed() {
        let mut result = false;
        // SAFETY: The text ends with a NUL.
        let _ = unsafe { bindings::kstrtobool(c"1".as_char_ptr(), &mut result) };
    }

    #[test]
    fn only_an_error_in_the_call_is_seen() -> Result {
        let probe = ReturnProbe::new(c"kstrtobool")?;
        let armed = probe.arm()?;
        fail();
        let succeeded = armed.watch(&succeed);
        let failed = armed.watch(&|| {
            fail();
            succeed();
        });
        // Of two nested watches the inner watch sees the error.
        let nested = armed.watch(&|| {
            let _ = armed.watch(&fail);
        });
        fail();
        let after = armed.watch(&|| ());
        drop(armed);
        // The probe is armed again.
        let again = probe.arm()?.watch(&fail);
        drop(probe);
        assert_eq!(succeeded, Ok(()));
        assert_eq!(failed, Err(EINVAL));
        assert_eq!(nested, Ok(()));
        assert_eq!(after, Ok(()));
        assert_eq!(again, Err(EINVAL));
        Ok(())
    }

    #[test]
    fn there_is_no_such_function() {
        assert!(ReturnProbe::new(c"no_module:no_function").is_err());
    }
}
