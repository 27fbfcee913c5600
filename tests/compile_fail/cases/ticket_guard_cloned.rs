// SPDX-License-Identifier: GPL-2.0
//
// A ticket has one guard: with two, the list would count one region twice.
//
// expect: error[E0599]: no method named `clone` found for struct `TicketGuard` in the current scope

/// Copies a guard.
pub fn copy(guard: TicketGuard) -> (TicketGuard, TicketGuard) {
    (guard.clone(), guard)
}
