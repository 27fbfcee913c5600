// SPDX-License-Identifier: GPL-2.0

//! String module parameters, which `module!` lacks. A module declares all its parameters in C, with the
//! type `charp`.

use crate::shared::prelude::raw::*;

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
    // SAFETY: This module stays loaded during the call. The context of this function allows sleeping.
    unsafe { bindings::kernel_param_lock(&raw mut bindings::__this_module) };
    // SAFETY: The lock keeps the value until `f` has returned, and the argument of `f` cannot
    // outlive the call.
    let result = f(unsafe { value(name) });
    // SAFETY: This task took the lock above.
    unsafe { bindings::kernel_param_unlock(&raw mut bindings::__this_module) };
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
    // SAFETY: The kernel sets both before it sets a parameter, and keeps the parameters as long as the module.
    let (first, n) = unsafe { (bindings::__this_module.kp, bindings::__this_module.num_kp) };
    // CAST: `usize` has at least 32 bits.
    let value = (0..n as usize).find_map(|i| {
        // SAFETY: The array has `n` parameters, whose names are C strings.
        let (param, is_wanted) = unsafe {
            let param = &*first.add(i);
            (param, CStr::from_char_ptr(param.name) == name)
        };
        // SAFETY: The type of all parameters is `charp`: the argument is the place of a pointer.
        is_wanted.then(|| unsafe { *param.__bindgen_anon_1.arg.cast::<*const c_char>() })
    })?;
    if value.is_null() {
        return None;
    }
    // SAFETY:
    // - A value that is not NULL is a C string.
    // - By the safety requirements the kernel keeps the value during `'a`.
    let value = unsafe { CStr::from_char_ptr(value) };
    (!value.is_empty()).then_some(value)
}
