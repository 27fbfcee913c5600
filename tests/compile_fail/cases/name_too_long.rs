// SPDX-License-Identifier: GPL-2.0
//
// The core has 64 bytes for a name.
//
// expect: error[E0080]: evaluation of `

/// The client.
pub struct Mine;

peer_client_slot!(Mine);

impl Client for Mine {
    const NAME: &'static CStr =
        c"a name that is much too long for the array it has to fit into, sixty-four bytes";
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

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(())
}
