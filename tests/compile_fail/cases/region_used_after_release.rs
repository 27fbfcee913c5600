// SPDX-License-Identifier: GPL-2.0
//
// The region lives until `release`, so the memory must not borrow from it.
//
// expect: error: lifetime may not live long enough

/// What is to outlive the region.
pub struct Later(&'static u64);

/// Keeps it.
pub fn keep(later: Later) -> u64 {
    *later.0
}

/// The client.
pub struct Mine;

peer_client_slot!(Mine);

impl Client for Mine {
    const NAME: &'static CStr = c"mine";
    const VERSION: &'static CStr = c"1.0";

    type Data = ();
    type Region = u64;
    type Memory = Lent;

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
        keep(Later(region));
        lend()
    }
}

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(())
}
