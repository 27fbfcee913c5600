// SPDX-License-Identifier: GPL-2.0
//
// A ticket comes from `get_pages` and from nowhere else.
//
// expect: error: cannot construct `Ticket` with struct literal syntax due to private fields

/// Takes back what somebody else may have been given.
pub fn guess(number: u64) {
    Ticket {
        core_context: number,
    }
    .invalidate();
}
