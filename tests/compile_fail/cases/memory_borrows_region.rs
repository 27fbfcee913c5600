// SPDX-License-Identifier: GPL-2.0
//
// Nor can what `get_pages` returns.
//
// expect: error: lifetime may not live long enough

/// Pages, and the region they are of.
pub struct Borrowed(Lent, &'static u64);

impl Memory for Borrowed {
    fn table(&self) -> &Table {
        self.0.table()
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        self.0.map(dev)
    }

    fn unmap(&mut self) {
        self.0.unmap();
    }
}

/// The client.
pub struct Mine;

peer_client_slot!(Mine);

impl Client for Mine {
    const NAME: &'static CStr = c"mine";
    const VERSION: &'static CStr = c"1.0";

    type Data = ();
    type Region = u64;
    type Memory = Borrowed;

    fn acquire(_: &Self::Data, _: Range) -> Result<Option<Self::Region>> {
        Ok(Some(1))
    }

    fn get_pages(
        _: &Self::Data,
        region: &Self::Region,
        _: Range,
        _: bool,
        _: Ticket,
    ) -> Result<Self::Memory> {
        let lent = lend()?;
        Ok(Borrowed(lent, region))
    }
}

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(())
}
