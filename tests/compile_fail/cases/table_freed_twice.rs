// SPDX-License-Identifier: GPL-2.0
//
// A table is freed by its one owner.
//
// expect: error[E0382]: use of moved value: `table`

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
        let table = lend()?;
        drop(table);
        drop(table);
        lend()
    }
}

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(())
}
