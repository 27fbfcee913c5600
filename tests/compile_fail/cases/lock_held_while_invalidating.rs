// SPDX-License-Identifier: GPL-2.0
//
// What a lock protects is not used once it has been given up: the ticket has to be
// taken out first, as must be, since `invalidate` waits for who takes that lock.
//
// expect: error[E0505]: cannot move out of `tickets` because it is borrowed

/// Takes memory back without holding the lock, and yet looks at what it protects.
pub fn take_away(tickets: &Mutex<KVec<Ticket>>) {
    let tickets = tickets.lock();
    if let Some(ticket) = tickets.first() {
        drop(tickets);
        ticket.invalidate();
    }
}
