// SPDX-License-Identifier: GPL-2.0
//
// A range is not empty and does not overflow.
//
// expect: error[E0451]: field `addr` of struct `VaRange` is private
// expect: error[E0451]: field `len` of struct `VaRange` is private

/// Creates an empty range.
pub fn empty() -> VaRange {
    VaRange { addr: 0, len: 0 }
}
