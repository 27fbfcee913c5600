// SPDX-License-Identifier: GPL-2.0

//! A region that is exported as a dma-buf. The user chooses the importer.
//!
//! `/dev/ib_peer_mem` and the hook on `ib_umem_get_desc()` call [`Region::export`]. The dma-buf
//! calls [`ExportOps`], without a lock; all methods may sleep.
//!
//! A client maps a range once, for one device. So the memory is pinned at export, in the owning
//! process, and mapped at the first import. The process chooses the importer, so the device is
//! checked before the client gets the device.

use super::{
    register::NewRegion,
    resources::Attached,
    Region, //
};
use crate::{
    backend::{
        Attachment,
        Exported,
        Importer,
        RegError,
        TrustOf, //
    },
    callbacks::Acquired,
    data::lifecycle::Close,
    ext::{
        base::{
            device::{
                max_segment,
                name as device_name, //
            },
            sg::ForeignPart, //
        },
        dma_buf::{
            ExportOps,
            ImporterCaps, //
        }, //
    },
    prelude::*,
    records::listing::Kind, //
};
use kernel::device::Device;

/// The devices that may import an exported region, unless the client maps for any device.
pub(crate) enum Importers {
    /// Devices for which the function returns `Some`.
    Which(TrustOf),
    Only(ARef<Device>),
}

struct ExportedMemory {
    region: Arc<Region>,
    importers: Importers,
    importer: Arc<Importer>,
}

impl Region {
    /// Exports the acquired pages as a dma-buf. `device`: the RDMA device that the dma-buf is for,
    /// if known. Context: process context; may sleep.
    pub(crate) fn export(
        acquired: Acquired,
        range: VaRange,
        write: bool,
        importers: Importers,
        device: Option<Name>,
    ) -> Result<Export, RegError> {
        let kind = match importers {
            Importers::Which(_) => Kind::Export,
            Importers::Only(_) => Kind::Umem,
        };
        let mut new = NewRegion::new(acquired, range, kind, None)?;
        let peer2peer = !new.pin(write)?.have_struct_pages();
        let region = &new.region;
        if let Some(device) = device {
            region.set_importer(device);
        }
        let requirements = ImporterCaps {
            revocable: region.client.flags().requires_invalidation,
            peer2peer,
        };
        let importer = Importer::new()?;
        let memory = ExportedMemory {
            region: region.clone(),
            importers,
            importer: importer.clone(),
        };
        let memory = Arc::new(memory, GFP_KERNEL_ACCOUNT)?;
        let (export, revoker) = Export::new(memory, range.pages() * PAGE_SIZE, requirements)?;
        new.publish(Attached {
            mr: 0,
            attachment: Attachment::Exported(Exported::new(revoker, importer)),
        });
        Ok(export)
    }
}

impl ExportOps for ExportedMemory {
    /// A client expects the device of an adapter, and may access data that other devices do not
    /// have.
    fn admit(&self, dev: &Device) -> Result {
        let client = &self.region.client;
        let admitted = client.flags().maps_for_any_device
            || match &self.importers {
                Importers::Which(trust_of) => trust_of(dev).is_some(),
                Importers::Only(only) => ptr::eq(&raw const **only, dev),
            };
        if admitted {
            return Ok(());
        }
        pr_warn_limited!(
            "client {}: {} is not the device of an RDMA adapter that is served, and cannot import \
             the client's memory\n",
            client.name(),
            device_name(dev).to_str().unwrap_or("an importer"),
        );
        Err(eopnotsupp())
    }

    fn map(&self, dev: &Device) -> Result<ForeignPart> {
        let region = &*self.region;
        if let Importers::Which(trust_of) = self.importers {
            if let Some(trust) = self.importer.set(dev, trust_of) {
                region.set_importer(trust.name());
            }
        }
        let mapped = region
            .life
            .with_live(|resources| resources.pages().map(dev, max_segment(dev)));
        mapped.ok_or(ENODEV)?.inspect_err(|e| {
            pr_warn_limited!(
                "client {}: dma_map of {} bytes for {} failed: {:?}; the import fails\n",
                region.client.name(),
                region.range.len(),
                device_name(dev).to_str().unwrap_or("an importer"),
                e
            )
        })
    }

    fn ended(&self) {
        let region = &*self.region;
        let timer = Timer::start(Point::Deregister);
        if let Close::Live(resources) = region.life.close() {
            region.log_fatal(&resources);
            region.tear_down(region.life.closed(resources));
        }
        region.release();
        region.trace(timer, None, Ok(()));
    }
}
