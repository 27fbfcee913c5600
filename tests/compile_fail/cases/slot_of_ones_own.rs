// SPDX-License-Identifier: GPL-2.0
//
// Nor can it change its mind about it.
//
// expect: error[E0200]: the trait `Slotted` requires an `unsafe impl` declaration

/// The client.
pub struct Mine;

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

impl crate::peer_client::Slotted for Mine {
    fn slot() -> &'static crate::peer_client::Slot<Self> {
        static ONE: crate::peer_client::Slot<Mine> = crate::peer_client::Slot::new();
        static OTHER: crate::peer_client::Slot<Mine> = crate::peer_client::Slot::new();
        if current!().pid() % 2 == 0 {
            &ONE
        } else {
            &OTHER
        }
    }
}

/// Registers it.
pub fn register() -> Result<Registration<Mine>> {
    Registration::new(())
}
