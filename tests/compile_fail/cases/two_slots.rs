// SPDX-License-Identifier: GPL-2.0
//
// A client has one slot: two registrations could not be told apart in callbacks.
//
// expect: error[E0119]: conflicting implementations of trait `Slotted` for type `Mine`

/// The client.
pub struct Mine;

peer_client_slot!(Mine);

impl Client for Mine {
    const NAME: &'static CStr = c"mine";
    const VERSION: &'static CStr = c"1.0";

    type Data = ();
    type Region = ();
    type Memory = Lent;

    fn acquire(_: &Self::Data, _: Range) -> Result<Option<Self::Region>> {
        Ok(Some(()))
    }

    fn get_pages(
        _: &Self::Data,
        _: &Self::Region,
        _: Range,
        _: bool,
        _: Ticket,
    ) -> Result<Self::Memory> {
        lend()
    }
}

peer_client_slot!(Mine);

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(())
}
