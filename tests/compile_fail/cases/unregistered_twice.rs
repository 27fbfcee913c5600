// SPDX-License-Identifier: GPL-2.0
//
// There is one registration to keep, and it cannot be copied.
//
// expect: error[E0382]: use of moved value: `registration`

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

/// Unregisters twice.
pub fn unregister(registration: Registration<Mine>) {
    drop(registration);
    drop(registration);
}
