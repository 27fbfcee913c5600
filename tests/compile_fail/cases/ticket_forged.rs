// SPDX-License-Identifier: GPL-2.0
//
// Tickets are created for `get_pages` only.
//
// expect: error: cannot construct `Ticket` with struct literal syntax due to private fields

/// Revokes the region of another client.
pub fn guess(number: u64) {
    Ticket {
        core_context: number,
    }
    .invalidate();
}
