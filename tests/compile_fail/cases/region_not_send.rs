// SPDX-License-Identifier: GPL-2.0
//
// A region is released in whatever task: nothing in it may belong to one.
//
// expect: error[E0277]: `*mut u8` cannot be sent between threads safely
// expect: error[E0277]: `*mut u8` cannot be shared between threads safely

/// A range that was claimed.
pub struct Region(pub *mut u8);

/// The client.
pub struct Mine;

peer_client_slot!(Mine);

impl Client for Mine {
    const NAME: &'static CStr = c"mine";
    const VERSION: &'static CStr = c"1.0";

    type Data = ();
    type Region = Region;
    type Memory = Lent;

    fn acquire(_: &Self::Data, _: Range) -> Result<Option<Self::Region>> {
        Ok(Some(Region(core::ptr::null_mut())))
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
