// SPDX-License-Identifier: GPL-2.0
//
// Callbacks of different regions run at once: what they share needs a lock.
//
// expect: error[E0277]: `Cell<u32>` cannot be shared between threads safely

/// The client.
pub struct Mine;

peer_client_slot!(Mine);

impl Client for Mine {
    const NAME: &'static CStr = c"mine";
    const VERSION: &'static CStr = c"1.0";

    type Data = core::cell::Cell<u32>;
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

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(core::cell::Cell::new(1))
}
