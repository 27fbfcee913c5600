// SPDX-License-Identifier: GPL-2.0

//! The redirection of functions by ftrace. [`Redirection`] lasts until drop.

use crate::shared::prelude::raw::*;

/// Number of attempts at a redirection, and the time between two attempts. (BPF has no limit.)
const ATTEMPTS: u32 = 100;
const PAUSE: Delta = Delta::from_millis(10);

/// A redirection of some functions of the kernel to functions of this module. Drop ends the
/// redirection, with a Tasks RCU grace period of ftrace. Context: drop may sleep.
///
/// # Invariants
///
/// The C object is registered with ftrace.
pub(super) struct Redirection(NonNull<helpers::ext_redirection>);

// SAFETY: The object belongs to no task.
unsafe impl Send for Redirection {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl Sync for Redirection {}

impl Redirection {
    /// Redirects the functions in `list`, except for tasks inside [`bypass()`](super::bypass()). Context:
    /// may sleep.
    ///
    /// # Safety
    ///
    /// Each function `to` must have the signature and the requirements of the function `from`.
    pub(super) unsafe fn new(list: &[helpers::ext_redirect]) -> Result<Self> {
        // CAST: A list in the code.
        let n = list.len() as u32;
        let raw = again(|| {
            // SAFETY: The list has `n` entries. By the safety requirements each function `to` can
            // replace the function `from`.
            from_err_ptr(unsafe { helpers::ext_ftrace_redirect(list.as_ptr(), n) })
        })?;
        // INVARIANT: Just registered.
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?))
    }
}

impl Drop for Redirection {
    fn drop(&mut self) {
        let restore = || {
            // SAFETY: By the type invariants the object is registered, and stays registered until
            // the call succeeds. No code uses the object afterwards.
            to_result(unsafe { helpers::ext_ftrace_restore(self.0.as_ptr()) })
        };
        until_done(restore, Delta::from_secs(1), |e| {
            pr_err!(
                "ftrace has failed ({:?}) and may still call this module, which stays until the next \
                 boot\n",
                e
            )
        });
    }
}

/// Calls `f` again while it fails with `EAGAIN`, up to [`ATTEMPTS`] times: a BPF trampoline on one
/// of the functions is changing, and must first agree to the redirection.
fn again<T>(mut f: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match f() {
            Err(e) if e == EAGAIN => fsleep(PAUSE),
            result => return result,
        }
    }
    f()
}

/// Calls `f` until it succeeds, with pauses. Calls `log` with the first error.
fn until_done(mut f: impl FnMut() -> Result, pause: Delta, log: impl FnOnce(Error)) {
    let mut log = Some(log);
    while let Err(e) = f() {
        if let Some(log) = log.take() {
            log(e);
        }
        fsleep(pause);
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_umem_hook_redirection)]
mod tests {
    use super::*;

    /// Calls [`again`] with a function that returns `EAGAIN` for `busy` calls, and then `last`.
    /// Returns the result and the number of calls.
    fn tried(busy: u32, last: Result) -> (Result, u32) {
        let mut calls = 0;
        let result = again(|| {
            calls += 1;
            if calls > busy {
                last
            } else {
                Err(EAGAIN)
            }
        });
        (result, calls)
    }

    #[test]
    fn a_busy_trampoline_is_tried_again() {
        assert!(tried(0, Ok(())) == (Ok(()), 1));
        assert!(tried(3, Ok(())) == (Ok(()), 4));
        // Other errors are not tried again.
        assert!(tried(1, Err(EBUSY)) == (Err(EBUSY), 2));
        assert!(tried(u32::MAX, Ok(())) == (Err(EAGAIN), ATTEMPTS));
    }

    #[test]
    fn the_code_stays_until_ftrace_has_left_it() {
        let (mut calls, mut logged) = (0, KVec::new());
        let restore = || {
            calls += 1;
            match calls {
                1 => Err(ENODEV),
                2 => Err(EBUSY),
                _ => Ok(()),
            }
        };
        until_done(restore, Delta::from_millis(1), |e| {
            logged.push(e, GFP_KERNEL).unwrap_or_default()
        });
        assert_eq!(calls, 3);
        assert!(*logged == [ENODEV]);
    }
}
