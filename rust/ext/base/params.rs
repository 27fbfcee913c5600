// SPDX-License-Identifier: GPL-2.0

//! String module parameters, which `module!` lacks.
//!
//! A module declares the parameters in C with the type `charp` and defines
//! `ext_module_param_str()`, which returns a value by name. If a parameter is writable, the module
//! also defines `ext_module_params_lock()` and `ext_module_params_unlock()`. While the lock is held
//! the kernel does not replace a value. See `rust/helpers/params.h`.

use kernel::{
    error::from_result,
    ffi::{
        c_char,
        c_int, //
    },
    prelude::*, //
};

extern "C" {
    // Defined by the module; see `rust/helpers/params.h`.
    fn ext_module_param_str(name: *const c_char) -> *const c_char;
    fn ext_module_params_lock();
    fn ext_module_params_unlock();
}

/// Returns the value of the string parameter `name`, an empty string for an unset parameter, and
/// `?` for a value that is not UTF-8. The parameter must not be writable (mode 0444).
pub fn string(name: &CStr) -> &'static str {
    // SAFETY: The kernel sets a parameter of mode 0444 before the module starts and never again.
    unsafe { value(name) }.map_or("", |text| text.to_str().unwrap_or("?"))
}

/// Calls `f` with the value of the writable string parameter `name`, or with `None` if the
/// parameter is unset or empty. Context: may sleep. Holds the parameter lock during `f`, so `f`
/// must not take a lock.
pub fn with_string<R>(name: &CStr, f: impl FnOnce(Option<&CStr>) -> R) -> R {
    // SAFETY: The function needs a context that may sleep, as this function does.
    unsafe { ext_module_params_lock() };
    // SAFETY: The lock keeps the value until `f` has returned, and the argument of `f` cannot
    // outlive the call.
    let result = f(unsafe { value(name) });
    // SAFETY: This task took the lock above.
    unsafe { ext_module_params_unlock() };
    result
}

/// Defines the C function `$name`, which calls a `fn(name: &CStr, value: &CStr) -> Result`. Use the
/// macro at most once in a module for each of:
///
/// - `ext_module_param_check`: validates a parameter before the kernel sets it;
/// - `ext_module_param_apply`: applies a parameter that the kernel has set.
#[macro_export]
macro_rules! param_function {
    ($name:ident, $function:path) => {
        const _: () = {
            /// # Safety
            ///
            /// `name` and `value` must be valid C strings for the duration of the call.
            #[no_mangle]
            unsafe extern "C" fn $name(
                name: *const ::kernel::ffi::c_char,
                value: *const ::kernel::ffi::c_char,
            ) -> ::kernel::ffi::c_int {
                // SAFETY: By the safety requirements both are valid C strings.
                unsafe { $crate::ext::base::params::call_with(name, value, $function) }
            }
        };
    };
}

/// Calls `function` for [`param_function!`](crate::param_function). Context: that of `function`.
///
/// # Safety
///
/// `name` and `value` must be valid C strings for the duration of the call.
pub unsafe fn call_with(
    name: *const c_char,
    value: *const c_char,
    function: fn(&CStr, &CStr) -> Result,
) -> c_int {
    // SAFETY: By the safety requirements both are valid C strings.
    let (name, value) = unsafe { (CStr::from_char_ptr(name), CStr::from_char_ptr(value)) };
    from_result(|| function(name, value).map(|()| 0))
}

/// Returns the value of the string parameter `name`, or `None` if the parameter is unset or empty.
///
/// # Safety
///
/// The kernel must not replace the value during `'a`.
unsafe fn value<'a>(name: &CStr) -> Option<&'a CStr> {
    // SAFETY: `name` is a C string, and the function only reads the string.
    let value = unsafe { ext_module_param_str(name.as_char_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY:
    // - A value that is not NULL is a C string.
    // - By the safety requirements the kernel keeps the value during `'a`.
    let value = unsafe { CStr::from_char_ptr(value) };
    (!value.is_empty()).then_some(value)
}
