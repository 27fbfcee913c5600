// SPDX-License-Identifier: GPL-2.0

//! The hook on `ib_umem_get_desc()`: finds the dma-buf of memory that a driver could not pin.
//!
//! [`place`] places the hook. The hook calls [`PROVIDER`] in the task whose driver could not pin
//! memory. Context: process context; may sleep. The caller may hold locks of the driver.

use crate::{
    backend::Backend,
    dispatch,
    ext::{
        rdma::{
            UmemHook,
            UmemProvider, //
        },
        task::TextRef, //
    },
    prelude::*, //
};

/// The clients, and the dma-bufs that are mapped, as a source of memory.
static PROVIDER: UmemProvider = UmemProvider { provide, failed };

fn provide(dev: &Device, va: u64, len: u64, access: Access) -> Result<Option<Part>> {
    let Some(range) = VaRange::new(va, len) else {
        return Ok(None);
    };
    if !Backend::allows_umems(dev) {
        return Ok(None);
    }
    dispatch::part_for_umem(dev, range, access.is_writable())
}

fn failed(dev: &Device, va: u64, len: u64, part: &Part, error: Error) {
    if let Some(range) = VaRange::new(va, len) {
        dispatch::umem_failed(dev, range, part, error);
    }
}

/// Places the hook, until the result is dropped, which may sleep. Without the hook the module works,
/// except for the umem backend. Context: may sleep.
pub(crate) fn place(text: TextRef) -> Option<UmemHook> {
    let hook = UmemHook::new(text, &PROVIDER);
    match &hook {
        Ok(_) => pr_info!("umem backend: the hook on ib_core is placed\n"),
        Err(e) if *e == ENXIO => pr_warn!(
            "umem backend: not there: this ib_core pins memory past the hook; drivers without \
             dma-buf import, and queues and doorbells, get no peer memory\n"
        ),
        Err(e) => pr_warn!(
            "umem backend: the hook on ib_core could not be placed: {:?}; drivers without \
             dma-buf import, and queues and doorbells, get no peer memory\n",
            e
        ),
    }
    hook.ok()
}
