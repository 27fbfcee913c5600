// SPDX-License-Identifier: GPL-2.0

//! String module parameters, which `module!` lacks.
//!
//! A module declares them in C, of the type `charp`, and defines `ext_module_param_str()`, which
//! finds one by name; where users may write to one, `ext_module_params_lock()` and
//! `ext_module_params_unlock()` as well, with which the kernel is kept from replacing it.

use kernel::{
    error::from_result,
    ffi::{
        c_char,
        c_int, //
    },
    prelude::*, //
};

extern "C" {
    // See `rust/helpers/params.h`.
    fn ext_module_param_str(name: *const c_char) -> *const c_char;
    fn ext_module_params_lock();
    fn ext_module_params_unlock();
}

/// The value of the string parameter `name`, which users cannot write to (mode 0444); `None` where
/// it was not given, or is empty.
///
/// Context: any.
pub fn string(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: The value is not replaced, by the promise above.
    unsafe { value(name) }
}

/// Calls `f` with the value of the string parameter `name`, which users may write to; with `None`
/// where it was not given, or is empty.
///
/// Context: may sleep; a leaf, so `f` takes no lock.
pub fn with_string<R>(name: &CStr, f: impl FnOnce(Option<&CStr>) -> R) -> R {
    // SAFETY: The module's own functions, which may sleep, as may the caller.
    unsafe { ext_module_params_lock() };
    // SAFETY: The lock is held until `f` has returned, and its argument does not outlive that.
    let result = f(unsafe { value(name) });
    // SAFETY: Locked above.
    unsafe { ext_module_params_unlock() };
    result
}

/// Has the module's C part, whose parameters call it before they are set, ask a function of the
/// type `fn(name: &CStr, value: &CStr) -> Result` whether a value is right: by
/// `ext_module_param_check()`, see `rust/helpers/params.h`. Once in a module.
#[macro_export]
macro_rules! check_params {
    ($check:path) => {
        const _: () = {
            /// # Safety
            ///
            /// `name` and `value` must be C strings.
            #[no_mangle]
            unsafe extern "C" fn ext_module_param_check(
                name: *const ::kernel::ffi::c_char,
                value: *const ::kernel::ffi::c_char,
            ) -> ::kernel::ffi::c_int {
                // SAFETY: The caller's promise.
                unsafe { $crate::ext::params::check_with(name, value, $check) }
            }
        };
    };
}

/// For [`check_params!`](crate::check_params).
///
/// # Safety
///
/// `name` and `value` must be C strings.
pub unsafe fn check_with(
    name: *const c_char,
    value: *const c_char,
    check: fn(&CStr, &CStr) -> Result,
) -> c_int {
    // SAFETY: The caller's promise.
    let (name, value) = unsafe { (CStr::from_char_ptr(name), CStr::from_char_ptr(value)) };
    from_result(|| check(name, value).map(|()| 0))
}

/// The value of the string parameter `name`.
///
/// # Safety
///
/// It is not replaced for as long as it is used.
unsafe fn value<'a>(name: &CStr) -> Option<&'a CStr> {
    // SAFETY: `name` is a C string. The function returns NULL or a string.
    let value = unsafe { ext_module_param_str(name.as_char_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: As above; it stays, by the caller's promise.
    let value = unsafe { CStr::from_char_ptr(value) };
    (!value.is_empty()).then_some(value)
}
