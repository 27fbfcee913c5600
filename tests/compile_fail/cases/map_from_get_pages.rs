// SPDX-License-Identifier: GPL-2.0
//
// No adapter is known in `get_pages`: what would it be mapped for?
//
// expect: error[E0061]: this method takes 1 argument but 0 arguments were supplied

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
        let mut lent = lend()?;
        lent.map()?;
        Ok(lent)
    }
}

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(())
}
