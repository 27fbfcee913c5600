// SPDX-License-Identifier: GPL-2.0

//! A region that is exported as a dma-buf, for an importer that the user chooses.
//!
//! The memory is pinned at export, in the process that owns it, and mapped for the first device
//! that imports it: a client maps a range once, for one device.

use super::{
    resources::Attached,
    Region, //
};
use crate::{
    backend::{
        Attachment,
        Refusal, //
    },
    callbacks::{
        Acquired,
        Intent, //
    },
    ext::{
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
use kernel::{
    device::Device,
    page::PAGE_SIZE,
    prelude::*, //
};

impl Region {
    /// Exports the pages of a range that its client has acquired. Context: may sleep.
    pub(crate) fn export(
        acquired: Acquired,
        range: VaRange,
        intent: Intent,
    ) -> Result<Export, Refusal> {
        Self::build(acquired, range, intent, None, |region, pages| {
            let requirements = Requirements {
                revocable: region.client.traits().requires_invalidation,
                peer2peer: !pages.have_struct_pages(),
            };
            let (export, revoker) =
                Export::new(region.clone(), range.pages() * PAGE_SIZE, requirements)?;
            let attached = Attached {
                mr: 0,
                attachment: Attachment::Exported(revoker),
            };
            Ok((export, attached))
        })
    }
}

impl Memory for Region {
    fn map(&self, dev: &Device, max: u64) -> Result<SmallVec<Segment>> {
        let mapped = self
            .life
            .with_live(|resources| resources.pages().map(dev, max));
        mapped.ok_or(ENODEV)?.inspect_err(|e| {
            pr_warn_limited!(
                "client {}: dma_map of {} bytes for {} failed: {:?}; the import fails\n",
                self.client.name(),
                self.range.len(),
                dev.name().to_str().unwrap_or("an importer"),
                e
            )
        })
    }

    fn ended(&self) {
        if let Close::Live(resources) = self.life.close() {
            self.tear_down(self.life.closed(resources));
        }
        self.release();
    }
}
