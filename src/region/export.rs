// SPDX-License-Identifier: GPL-2.0

//! A region that is a dma-buf, for whoever the user gives it to.
//!
//! The memory is pinned when the dma-buf is made, as that has to be done in the process whose it
//! is, and mapped for the first device that imports it: a client maps a range once, for one
//! device.

use super::Region;
use crate::{
    attach::{
        Attachment,
        Refusal, //
    },
    callbacks::Acquired,
    ext::{
        dma_buf::{
            Export,
            Memory,
            Requirements, //
        },
        sg::Segment, //
    },
    lifecycle::Close,
    pr_warn_limited,
    range::Range, //
};
use kernel::{
    device::Device,
    page::PAGE_SIZE,
    prelude::*, //
};

impl Region {
    /// Makes a dma-buf of whole pages that their client has acquired. May sleep.
    pub(crate) fn export(acquired: Acquired, range: Range) -> Result<Export, Refusal> {
        // An importer may write, there is no way to tell it not to.
        Self::begin(acquired, range, true, |region, pages| {
            let rules = Requirements {
                revocable: region.client.requires_invalidation(),
                peer2peer: !pages.have_struct_pages(),
            };
            let (offer, offered) = Export::new(region.clone(), range.pages() * PAGE_SIZE, rules)?;
            Ok((offer, Attachment::Exported(offered)))
        })
    }
}

impl Memory for Region {
    fn map(&self, dev: &Device, max: u64) -> Result<KVec<Segment>> {
        match self.life.close() {
            Close::Live(mut held) => {
                let segments = held.pages.map(dev, max);
                self.life.reopen(held);
                segments.inspect_err(|e| {
                    pr_warn_limited!(
                        "client {}: {} bytes at {:#x} cannot be mapped for {}: {:?}\n",
                        self.client.name(),
                        self.range.len(),
                        self.range.addr(),
                        dev.name().to_str().unwrap_or("an importer"),
                        e
                    )
                })
            }
            Close::Revoked | Close::Closed => Err(ENODEV),
        }
    }

    fn ended(&self) {
        if let Close::Live(held) = self.life.close() {
            self.undo(self.life.closed(held));
        }
        self.finish();
    }
}
