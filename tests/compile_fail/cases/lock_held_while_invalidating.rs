// SPDX-License-Identifier: GPL-2.0
//
// A ticket must be moved out of a lock before it is used: `invalidate` waits for tasks
// that take the lock.
//
// expect: error[E0505]: cannot move out of `tickets` because it is borrowed

/// Releases the lock, but still refers to the data that it protects.
pub fn invalidate(tickets: &Mutex<KVec<Ticket>>) {
    let tickets = tickets.lock();
    if let Some(ticket) = tickets.first() {
        drop(tickets);
        ticket.invalidate();
    }
}
