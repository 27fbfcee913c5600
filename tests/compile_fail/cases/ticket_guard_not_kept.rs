// SPDX-License-Identifier: GPL-2.0
//
// A ticket is in the list as long as its guard is kept.
//
// expect: error: unused `TicketGuard` that must be used

/// Pins a page that `close_and_invalidate` does not revoke.
pub fn pin_unlisted(tickets: &Arc<Tickets>, ticket: Ticket) -> Result<PinnedPages> {
    Tickets::add(tickets, ticket)?;
    pin()
}
