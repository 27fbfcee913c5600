// SPDX-License-Identifier: GPL-2.0
//
// A correct client, and a correct use of a list of tickets.
//
// expect: compiles

client!(Mine);
peer_client_slot!(Mine);

/// Pins a page while the ticket is in the list.
pub fn pin_listed(tickets: &Arc<Tickets>, ticket: Ticket) -> Result<(PinnedPages, TicketGuard)> {
    let guard = Tickets::add(tickets, ticket)?;
    Ok((pin()?, guard))
}

/// Revokes all regions, and accepts new ones.
pub fn invalidate(tickets: &Tickets) {
    tickets.close_and_invalidate();
    tickets.wait_empty();
    tickets.reopen();
}
