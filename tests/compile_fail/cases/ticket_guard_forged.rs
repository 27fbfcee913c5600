// SPDX-License-Identifier: GPL-2.0
//
// A guard stands for a ticket in the list.
//
// expect: error[E0451]: field `tickets` of struct `TicketGuard` is private
// expect: error[E0451]: field `key` of struct `TicketGuard` is private

/// Creates a guard whose ticket is not in the list.
pub fn forge(tickets: Arc<Tickets>) -> TicketGuard {
    TicketGuard { tickets, key: 1 }
}
