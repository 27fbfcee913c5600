// SPDX-License-Identifier: GPL-2.0

//! String module parameters, which `module!` lacks.
//!
//! A module declares them in C, with `module_param(name, charp, 0444)`, and defines
//! `ext_module_param_str()`, which finds one by name.

use crate::bindings_mm;
use kernel::prelude::*;

/// The value of the string parameter `name`; `None` where it was not given, or is empty.
///
/// Context: any.
pub fn string(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: `name` is a C string. The function returns NULL or a string that, by this module's
    // contract, is not written to after the module was loaded: the parameter has no write mode.
    let value = unsafe { bindings_mm::ext_module_param_str(name.as_char_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: As above; the string lives as long as the module.
    let value = unsafe { CStr::from_char_ptr(value) };
    (!value.is_empty()).then_some(value)
}
