// SPDX-License-Identifier: GPL-2.0

//! What every test of a region starts and ends with.

use crate::{
    client::Client,
    counters,
    device::{
        FakeDevice,
        Kind,
        Registered, //
    },
    user::Pd,
    World, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Bytes in a page.
pub(crate) const PAGE: u64 = 4096;

/// A device and a PD on it.
pub(crate) struct Bench {
    pub(crate) pd: Arc<Pd>,
}

impl Bench {
    /// On the device that takes virtual addresses.
    pub(crate) fn software() -> Result<Self> {
        let world = World::get()?;
        Self::on(world.software()?)
    }

    /// On the device that has a DMA device.
    pub(crate) fn hardware() -> Result<Self> {
        let world = World::get()?;
        Self::on(world.hardware()?)
    }

    /// On the device that imports dma-bufs in that way.
    pub(crate) fn importer(kind: Kind) -> Result<Self> {
        let world = World::get()?;
        Self::on(world.importer(kind)?)
    }

    /// On a device.
    pub(crate) fn on(dev: Arc<Registered>) -> Result<Self> {
        dev.fake().reset();
        Ok(Self { pd: Pd::new(&dev)? })
    }

    /// The device.
    pub(crate) fn dev(&self) -> &Arc<FakeDevice> {
        self.pd.dev().fake()
    }

    /// All MRs are gone: nothing is left in the device, the counters are balanced, the clients
    /// have been called as they must be. Takes them back.
    pub(crate) fn finish(self, clients: &[&Arc<Client>]) -> Result {
        let mut result = Ok(());
        let mut check = |what: &str, ok: bool| {
            if !ok {
                pr_err!("at the end of a test: {}\n", what);
                result = Err(EINVAL);
            }
        };
        let objects = self.dev().objects();
        check("something is left in the device", objects == (0, 0, 0));
        check("the PD is still used", self.pd.users() == 0);
        for client in clients {
            if let Ok(in_use) = counters::in_use(client.name()) {
                check("the counters are not balanced", in_use == (0, 0, 0));
            }
            check("a client is not content", client.finish().is_ok());
        }
        result
    }
}
