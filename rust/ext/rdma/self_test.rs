// SPDX-License-Identifier: GPL-2.0

//! Self-test of fast registration: whether a device registers and invalidates a page by work request.

use super::{
    fast_mr::FastMr,
    ib_device::Device,
    mr::{
        Access,
        Pd, //
    },
    qp::LoopbackQp, //
};
use crate::shared::{
    ext::base::{
        compat::eopnotsupp,
        device::as_raw,
        sg::{
            Segment,
            Table, //
        }, //
    },
    prelude::raw::*, //
};
use core::iter;
use kernel::{
    dma::DataDirection,
    page::Page, //
};

/// A PD of the kernel. Drop deallocates the PD.
///
/// # Invariants
///
/// The PD is valid and owned by this object.
struct KernelPd(NonNull<rdma::ib_pd>);

impl KernelPd {
    /// Allocates a PD. Context: may sleep.
    fn new(dev: &Device) -> Result<Self> {
        // SAFETY: By the type invariants of `Device` the device is registered. The name is `'static`.
        let pd = unsafe { rdma::__ib_alloc_pd(dev.as_raw(), 0, c"ib_peer_mem".as_char_ptr()) };
        // INVARIANT: The PD was just allocated.
        Ok(Self(NonNull::new(from_err_ptr(pd)?).ok_or(ENOMEM)?))
    }

    fn as_pd(&self) -> &Pd {
        // SAFETY: By the type invariants the PD is valid.
        unsafe { Pd::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for KernelPd {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the PD is owned by this object, and all users of the PD
        // are gone.
        let ret = unsafe { rdma::ib_dealloc_pd_user(self.0.as_ptr(), ptr::null_mut()) };
        if ret != 0 {
            pr_warn!(
                "the PD of a self-test could not be deallocated: error {}\n",
                ret
            );
        }
    }
}

/// A page of kernel memory that is mapped for a device. Drop unmaps and frees the page.
///
/// # Invariants
///
/// `page` is mapped for `dev` at `addr`, on behalf of this object.
struct MappedPage<'a> {
    dev: &'a device::Device,
    _page: Page,
    addr: u64,
}

impl<'a> MappedPage<'a> {
    /// Allocates and maps a page. Context: may sleep.
    fn new(dev: &'a device::Device) -> Result<Self> {
        let page = Page::alloc_page(GFP_KERNEL | __GFP_ZERO)?;
        // SAFETY: The page is allocated, and the device does DMA.
        let addr = unsafe {
            bindings::dma_map_page_attrs(
                as_raw(dev),
                page.as_ptr(),
                0,
                PAGE_SIZE,
                DataDirection::Bidirectional.into(),
                0,
            )
        };
        // SAFETY: The address is the result of a mapping for the device.
        if unsafe { helpers::dma_mapping_error(as_raw(dev), addr) } != 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: The mapping has succeeded.
        Ok(Self {
            dev,
            _page: page,
            addr,
        })
    }
}

impl Drop for MappedPage<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the page is mapped at `addr`. The page is freed after the
        // call.
        unsafe {
            bindings::dma_unmap_page_attrs(
                as_raw(self.dev),
                self.addr,
                PAGE_SIZE,
                DataDirection::Bidirectional.into(),
                0,
            )
        };
    }
}

/// Registers and invalidates a page of kernel memory by work request, twice, on a PD of the kernel.
/// Returns `EOPNOTSUPP` if the device has no DMA device, and the error of the step that failed.
/// Context: may sleep.
pub fn self_test(dev: &Device) -> Result {
    let page = MappedPage::new(dev.dma_device().ok_or_else(eopnotsupp)?)?;
    let pd = KernelPd::new(dev)?;
    let qp = LoopbackQp::new(pd.as_pd())?;
    let segment = Segment {
        addr: page.addr,
        len: PAGE_SIZE as u64,
    };
    let table = Table::of_dma(1, iter::once(segment))?;
    for _ in 0..2 {
        let mut mr = FastMr::alloc(pd.as_pd(), 1)?;
        mr.map(&table, 0, segment.len, segment.addr, PAGE_SIZE as u32)?;
        let key = mr.key();
        qp.register(&key, Access(0))?;
        qp.invalidate(&key)?;
    }
    Ok(())
}
