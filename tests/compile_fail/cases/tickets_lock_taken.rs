// SPDX-License-Identifier: GPL-2.0
//
// The lock of a list of tickets cannot be held across `invalidate`.
//
// expect: error[E0616]: field `state` of struct `Tickets` is private

/// Holds the lock while a ticket is invalidated, which takes it.
pub fn invalidate(tickets: &Tickets, ticket: &Ticket) {
    let state = tickets.state.lock();
    ticket.invalidate();
    drop(state);
}
