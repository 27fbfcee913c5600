// SPDX-License-Identifier: GPL-2.0
//
// Guards that are dropped at once.
//
// expect: error: unused `peer_client::Registration` that must be used
// expect: error: unused `TicketGuard` that must be used

client!(Mine);
peer_client_slot!(Mine);

/// Registers the client and unregisters it at once.
pub fn register_nothing() -> Result {
    register()?;
    Ok(())
}

/// Pins a page that `close_and_invalidate` does not revoke.
pub fn pin_unlisted(tickets: &Arc<Tickets>, ticket: Ticket) -> Result<PinnedPages> {
    Tickets::add(tickets, ticket)?;
    pin()
}
