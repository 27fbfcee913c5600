// SPDX-License-Identifier: GPL-2.0
//
// All callbacks are mandatory.
//
// expect: error[E0046]: not all trait items implemented, missing: `get_pages`

/// The client.
pub struct Mine;

peer_client_slot!(Mine);

impl Client for Mine {
    const NAME: &'static CStr = c"mine";
    const VERSION: &'static CStr = c"1.0";

    type Data = ();
    type Region = ();
    type Memory = PinnedPages;

    fn acquire(_: &(), _: VaRange) -> Result<Option<()>> {
        Ok(Some(()))
    }
}
