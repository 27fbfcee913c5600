// SPDX-License-Identifier: GPL-2.0

//! A region that is exported as a dma-buf, for an importer that the user chooses.
//!
//! The memory is pinned at export, in the process that owns it, and mapped for the first device
//! that imports it: a client maps a range once, for one device. The process chooses the importer, so
//! its device is checked before the client sees it.

use super::{
    resources::Attached,
    Region, //
};
use crate::{
    backend::{
        Attachment,
        Exported,
        Importer,
        Refusal,
        Trust, //
    },
    callbacks::{
        Acquired,
        Intent, //
    },
    ext::{
        compat::eopnotsupp,
        dma_buf::{
            Export,
            Memory,
            Requirements, //
        },
        sg::Segment,
        small_vec::SmallVec, //
    },
    lifecycle::Close,
    pr_warn_limited,
    range::VaRange, //
};
use core::ptr;
use kernel::{
    device::Device,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

/// The devices that a client maps an exported region for, unless it maps for any.
pub(crate) enum Importers {
    /// Those for which the function returns what is known of their invalidations. It may sleep.
    Which(fn(&Device) -> Option<Option<Arc<Trust>>>),
    /// This one.
    Only(ARef<Device>),
}

/// The memory behind the dma-buf of an exported region.
struct ExportedMemory {
    region: Arc<Region>,
    importers: Importers,
    /// The device that has mapped it.
    importer: Arc<Importer>,
}

impl Region {
    /// Exports the pages of a range that its client has acquired. Context: may sleep.
    pub(crate) fn export(
        acquired: Acquired,
        range: VaRange,
        intent: Intent,
        importers: Importers,
    ) -> Result<Export, Refusal> {
        Self::build(acquired, range, intent, None, |region, pages| {
            let requirements = Requirements {
                revocable: region.client.traits().requires_invalidation,
                peer2peer: !pages.have_struct_pages(),
            };
            let importer = Importer::new()?;
            let memory = ExportedMemory {
                region: region.clone(),
                importers,
                importer: importer.clone(),
            };
            let memory = Arc::new(memory, GFP_KERNEL_ACCOUNT)?;
            let (export, revoker) = Export::new(memory, range.pages() * PAGE_SIZE, requirements)?;
            let attached = Attached {
                mr: 0,
                attachment: Attachment::Exported(Exported::new(revoker, importer)),
            };
            Ok((export, attached))
        })
    }
}

impl Memory for ExportedMemory {
    /// Clients take the device for that of an adapter, and may access what only such a device has.
    fn admit(&self, dev: &Device) -> Result {
        let client = &self.region.client;
        let admitted = client.traits().maps_for_any_device
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
            dev.name().to_str().unwrap_or("an importer"),
        );
        Err(eopnotsupp())
    }

    fn map(&self, dev: &Device, max: u64) -> Result<SmallVec<Segment>> {
        let region = &*self.region;
        if let Importers::Which(trust_of) = self.importers {
            self.importer.set(trust_of(dev).flatten());
        }
        let mapped = region
            .life
            .with_live(|resources| resources.pages().map(dev, max));
        mapped.ok_or(ENODEV)?.inspect_err(|e| {
            pr_warn_limited!(
                "client {}: dma_map of {} bytes for {} failed: {:?}; the import fails\n",
                region.client.name(),
                region.range.len(),
                dev.name().to_str().unwrap_or("an importer"),
                e
            )
        })
    }

    fn ended(&self) {
        let region = &*self.region;
        if let Close::Live(resources) = region.life.close() {
            region.log_fatal(&resources);
            region.tear_down(region.life.closed(resources));
        }
        region.release();
    }
}
