// SPDX-License-Identifier: GPL-2.0

//! Errors of a function of another module whose callers ignore them, as drivers ignore a failed
//! invalidation. A [`ReturnProbe`] is a kretprobe that is armed only while tasks watch, and for a second
//! more: otherwise it costs the callers of the function nothing.

use crate::shared::prelude::raw::*;
use kernel::types::NotThreadSafe;

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
    /// with the name of a module and a colon; the module may be unloaded before the probe is dropped.
    ///
    /// Fails if there is no such function, or if the kernel cannot probe the function. Context: may sleep.
    pub fn new(symbol: &'static CStr) -> Result<Self> {
        // SAFETY: The name is static.
        let raw = from_err_ptr(unsafe { helpers::ext_return_probe_new(symbol.as_char_ptr()) })?;
        // INVARIANT: Just created.
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }

    /// Watches the calls of the function by the current task until the result is dropped. A task waits while
    /// 128 others watch. Fails if the probe cannot be armed now, for example without memory. Context: may
    /// sleep.
    pub fn watch(&self) -> Result<Watch<'_>> {
        let watch = KBox::new(Opaque::zeroed(), GFP_KERNEL)?;
        // SAFETY: The object stays in its box until drop, which happens in this task. By the type
        // invariants the probe is valid.
        to_result(unsafe { helpers::ext_watch_begin(watch.get(), self.0.as_ptr()) })?;
        // INVARIANT: Just begun.
        Ok(Watch(watch, PhantomData, NotThreadSafe))
    }
}

impl Drop for ReturnProbe {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the probe is valid. No code uses the probe after the call,
        // as a `Watch` borrows the probe.
        unsafe { helpers::ext_return_probe_free(self.0.as_ptr()) };
    }
}

/// The watch of the current task.
///
/// # Invariants
///
/// The C object has begun, in the current task.
pub struct Watch<'a>(
    KBox<Opaque<helpers::ext_watch>>,
    PhantomData<&'a ReturnProbe>,
    NotThreadSafe,
);

impl Watch<'_> {
    /// Fails with the last error that the function has returned to the current task since the
    /// beginning of the watch, and with `EAGAIN` if an error may have been missed. Of two watches of
    /// a task the inner one sees the error.
    pub fn error(&self) -> Result {
        // SAFETY: By the type invariants the watch has begun, in this task.
        to_result(unsafe { helpers::ext_watch_error(self.0.get()) })
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the watch has begun, in this task.
        unsafe { helpers::ext_watch_end(self.0.get()) };
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_return_probe)]
mod tests {
    use super::*;
    use kernel::bindings;

    fn parse(text: &CStr) {
        let mut result = false;
        // SAFETY: The text ends with a NUL.
        let _ = unsafe { bindings::kstrtobool(text.as_char_ptr(), &mut result) };
    }
    fn fail() {
        parse(c"?");
    }
    fn succeed() {
        parse(c"1");
    }

    /// Returns the result of a watch of `f`.
    fn watched(probe: &ReturnProbe, f: impl FnOnce()) -> Result {
        let watch = probe.watch()?;
        f();
        watch.error()
    }

    #[test]
    fn only_an_error_in_the_watch_is_seen() -> Result {
        let probe = ReturnProbe::new(c"kstrtobool")?;
        fail();
        let succeeded = watched(&probe, succeed);
        let failed = watched(&probe, || {
            fail();
            succeed();
        });
        let mut inner = Ok(());
        let outer = watched(&probe, || inner = watched(&probe, fail));
        fail();
        let after = watched(&probe, || ());
        drop(probe);
        assert_eq!(succeeded, Ok(()));
        assert_eq!(failed, Err(EINVAL));
        assert_eq!((outer, inner), (Ok(()), Err(EINVAL)));
        assert_eq!(after, Ok(()));
        Ok(())
    }

    #[test]
    fn there_is_no_such_function() {
        assert!(ReturnProbe::new(c"no_module:no_function").is_err());
    }
}
