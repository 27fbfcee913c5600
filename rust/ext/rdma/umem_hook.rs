// SPDX-License-Identifier: GPL-2.0

//! A hook on the functions with which ib_core pins user memory for drivers.
//!
//! C headers: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h),
//! [`include/linux/ftrace.h`](srctree/include/linux/ftrace.h).
//!
//! All drivers pin user memory through the exported `ib_umem_get_desc()`: MRs, and also the buffers
//! and doorbell pages of queues. Only `ib_umem_get_cq_buf_or_va()` may have that function inlined.
//! `scripts/umem-paths` proves this for the `ib_core.ko` of a kernel. A [`UmemHook`] redirects the
//! calls of both functions by ftrace, as livepatch does.
//!
//! The replacement first calls the original with the arguments unchanged. If the pages cannot be
//! pinned it asks the [`UmemProvider`] for a dma-buf, and calls the original again with a descriptor
//! of that. The driver gets a pinned umem in both cases. `ib_umem_release()` detaches from the
//! dma-buf, so the end of the umem needs no hook.
//!
//! A third function is redirected with them, `dma_buf_get()`: it returns the dma-buf that the current
//! task imports by a number that no process has; see `dma_buf/number.rs`.
//!
//! The calls of tasks inside [`bypass`](bypass()) go to the original at once, so an MR of host memory
//! passes ftrace once.
//!
//! # Constraints
//!
//! - The hook recognizes the calls of this module by their return address. So a replacement must not end
//!   with a jump to the original: it counts itself out after that call.
//! - One function can have one redirection: a livepatch of it excludes the hook.
//!
//! # Examples
//!
//! ```
//! use crate::ext::{
//!     dma_buf::Part,
//!     rdma::{Access, Code, Device, UmemHook, UmemProvider},
//! };
//!
//! /// Logs the buffers that cannot be pinned, and provides no memory for them.
//! struct Trace;
//!
//! impl UmemProvider for Trace {
//!     fn provide(dev: &Device, va: u64, len: u64, _: Access) -> Result<Option<Part>> {
//!         pr_info!("{}: cannot pin {} bytes at {:#x}\n", dev.name(), len, va);
//!         Ok(None)
//!     }
//!
//!     fn failed(_: &Device, _va: u64, _len: u64, _: &Part, _: Error) {}
//! }
//!
//! let hook = UmemHook::<Trace>::new(Code::new()?)?;
//! // The hook has the only share of the code: no call is in `Trace` after this.
//! drop(hook);
//! # Ok::<(), Error>(())
//! ```

mod bypass;
mod redirection;

pub use self::bypass::bypass;

use self::{
    bypass::bypassed,
    redirection::Redirection, //
};
use super::super::bindings::{
    helpers,
    rdma, //
};
use super::super::{
    dma_buf::{
        number,
        Part, //
    },
    pinned::could_not_pin, //
};
use super::{
    calls::{
        Code,
        CALLS, //
    },
    device::{
        Access,
        Device, //
    }, //
};
use core::{
    ffi::c_int,
    marker::PhantomData, //
};
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Release, //
    }, //
};

/// A source of memory that the CPU cannot pin.
pub trait UmemProvider: 'static {
    /// Returns the memory at `va` in the calling process, or `None` if it is not known. `dev`, which
    /// has a DMA device, could not pin it. The driver's call fails with an error of this function. The
    /// offset is equal to `va` modulo `PAGE_SIZE`.
    ///
    /// Context: process context; may sleep. The caller may hold locks of the driver, so this must not
    /// call the driver.
    fn provide(dev: &Device, va: u64, len: u64, access: Access) -> Result<Option<Part>>;

    /// Handles the failure of a umem on `part`, which [`Self::provide`] has returned.
    ///
    /// Context: as [`Self::provide`].
    fn failed(dev: &Device, va: u64, len: u64, part: &Part, error: Error);
}

/// Whether this module has a hook.
static HOOKED: Atomic<bool> = Atomic::new(false);

/// The functions that stand in for ib_core's.
struct Replacement<P>(PhantomData<P>);

/// A user buffer that could not be pinned.
struct Buffer {
    dev: *mut rdma::ib_device,
    va: u64,
    len: u64,
    access: c_int,
}

// SAFETY: All threads may use a device; the other fields are numbers.
unsafe impl Sync for Buffer {}

/// A new umem, which belongs to the holder.
struct Umem(*mut rdma::ib_umem);

// SAFETY: A umem belongs to no task.
unsafe impl Send for Umem {}

impl Buffer {
    /// Imports `memory` as a umem.
    ///
    /// Context: may sleep.
    fn import(&self, memory: &Part) -> Result<Umem> {
        let desc = rdma::ib_uverbs_buffer_desc {
            type_: rdma::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF,
            addr: memory.offset,
            length: self.len,
            ..pin_init::zeroed()
        };
        let import = |fd| {
            let desc = rdma::ib_uverbs_buffer_desc { fd, ..desc };
            // SAFETY: The device is that of the driver's call, which waits for this one.
            let umem = unsafe { rdma::ib_umem_get_desc(self.dev, &desc, self.access) };
            from_err_ptr(umem).map(Umem)
        };
        let umem = memory.buffer.import(import)?;
        // As that of a pinned buffer: drivers that do not choose a page size count pages from it.
        // SAFETY: The umem is new; only this function knows it.
        unsafe { (*umem.0).iova = self.va };
        Ok(umem)
    }

    /// Asks `P` for the memory, and imports it. Returns `None` if `P` is not to be asked or does not
    /// know the memory.
    ///
    /// Context: process context; may sleep.
    ///
    /// # Safety
    ///
    /// `self.dev` must be a registered device.
    unsafe fn serve<P: UmemProvider>(&self) -> Result<Option<Umem>> {
        let access = Access(self.access as u32);
        let valid = self.len > 0 && self.va.checked_add(self.len).is_some();
        if !valid || access.is_on_demand() {
            return Ok(None);
        }
        // SAFETY: By this function's safety contract `self.dev` is a registered device.
        let dev = unsafe { Device::from_raw(self.dev) };
        if dev.is_virt_dma() || dev.dma_device().is_none() {
            return Ok(None);
        }
        let Some(memory) = P::provide(dev, self.va, self.len, access)? else {
            return Ok(None);
        };
        let imported = self.import(&memory);
        imported
            .map(Some)
            .inspect_err(|e| P::failed(dev, self.va, self.len, &memory, *e))
    }

    /// Returns the umem of the memory that `P` has for the buffer, or `original`, which is the
    /// error of the attempt to pin it.
    ///
    /// # Safety
    ///
    /// `self.dev` must be a registered device.
    unsafe fn serve_or<P: UmemProvider>(&self, original: *mut rdma::ib_umem) -> *mut rdma::ib_umem {
        // SAFETY: By this function's safety contract `self.dev` is a registered device.
        match unsafe { self.serve::<P>() } {
            Ok(Some(umem)) => umem.0,
            Ok(None) => original,
            Err(e) => e.to_ptr(),
        }
    }
}

impl<P: UmemProvider> Replacement<P> {
    /// Replaces `ib_umem_get_desc()`.
    ///
    /// # Safety
    ///
    /// As that function: `dev` is a registered device and `desc` is valid.
    unsafe extern "C" fn get_desc(
        dev: *mut rdma::ib_device,
        desc: *const rdma::ib_uverbs_buffer_desc,
        access: c_int,
    ) -> *mut rdma::ib_umem {
        CALLS.within(|| {
            // SAFETY: The arguments are those of the driver's call, which are valid for the original.
            let umem = unsafe { rdma::ib_umem_get_desc(dev, desc, access) };
            let Err(error) = from_err_ptr(umem) else {
                return umem;
            };
            // SAFETY: By this function's safety contract `desc` is valid.
            let desc = unsafe { &*desc };
            let known = desc.flags & !rdma::IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK == 0;
            let is_va = desc.type_ == rdma::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA;
            if !is_va || !known || !could_not_pin(error) {
                return umem;
            }
            let (va, len) = (desc.addr, desc.length);
            let buffer = Buffer {
                dev,
                va,
                len,
                access,
            };
            // SAFETY: By this function's safety contract `dev` is a registered device.
            unsafe { buffer.serve_or::<P>(umem) }
        })
    }

    /// Replaces `ib_umem_get_cq_buf_or_va()`: the buffer that the attributes of the request name,
    /// or if they name none, the one at `va`.
    ///
    /// # Safety
    ///
    /// As that function: `dev` is a registered device, `attrs` is NULL or valid.
    unsafe extern "C" fn get_cq_buf_or_va(
        dev: *mut rdma::ib_device,
        attrs: *const rdma::uverbs_attr_bundle,
        va: u64,
        len: usize,
        access: c_int,
    ) -> *mut rdma::ib_umem {
        CALLS.within(|| {
            // SAFETY: The arguments are those of the driver's call, which are valid for the original.
            let call = || unsafe { rdma::ib_umem_get_cq_buf_or_va(dev, attrs, va, len, access) };
            // If it calls `ib_umem_get_desc()`, the hook of that must not serve the buffer as well.
            let umem = bypass(call);
            let Err(error) = from_err_ptr(umem) else {
                return umem;
            };
            if !could_not_pin(error) {
                return umem;
            }
            // The same but for the case of `va`; the hook of `ib_umem_get_desc()` serves it.
            // SAFETY: The device and the attributes are those of the driver's call.
            let of_attrs = unsafe { rdma::ib_umem_get_cq_buf(dev, attrs, len, access) };
            if !of_attrs.is_null() {
                return of_attrs;
            }
            let len = len as u64;
            let buffer = Buffer {
                dev,
                va,
                len,
                access,
            };
            // SAFETY: By this function's safety contract `dev` is a registered device.
            unsafe { buffer.serve_or::<P>(umem) }
        })
    }
}

/// Replaces `dma_buf_get()`, for the number that stands for a dma-buf in the current task.
///
/// # Safety
///
/// None; any number may be passed.
unsafe extern "C" fn dma_buf_get(fd: c_int) -> *mut bindings::dma_buf {
    // SAFETY: The original takes any number.
    CALLS.within(|| number::get(fd).unwrap_or_else(|| unsafe { bindings::dma_buf_get(fd) }))
}

/// Hooks with provider `P` on ib_core. Dropping this removes them, with a Tasks RCU grace period of
/// ftrace, which may sleep. No call is inside them or inside `P` when all shares of `code` are
/// dropped.
///
/// If ftrace has failed, and may still call the hooks, dropping this does not return.
pub struct UmemHook<P: UmemProvider> {
    // Dropped in this order.
    _redirection: Redirection,
    _hooked: Hooked,
    _code: Code,
    _provider: PhantomData<fn() -> P>,
}

/// The only hook of this module. Dropping it makes room for another.
///
/// # Invariants
///
/// [`HOOKED`] is true on behalf of this object.
struct Hooked;

impl Hooked {
    /// Takes the place of the hook, if there is none.
    fn new() -> Result<Self> {
        match HOOKED.cmpxchg(false, true, Full) {
            // INVARIANT: Just set.
            Ok(_) => Ok(Self),
            Err(_) => Err(EBUSY),
        }
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        HOOKED.store(false, Release);
    }
}

impl<P: UmemProvider> UmemHook<P> {
    /// Places the hooks.
    ///
    /// Returns `EOPNOTSUPP` if the kernel cannot redirect functions, and `EBUSY` if a livepatch
    /// redirects one of them, if this module has hooks already, or if ftrace is disabled.
    ///
    /// Context: may sleep.
    pub fn new(code: Code) -> Result<Self> {
        let hooked = Hooked::new()?;
        let list = [
            helpers::ext_redirect {
                from: rdma::ib_umem_get_desc as *const () as usize,
                to: Replacement::<P>::get_desc as *const () as usize,
            },
            helpers::ext_redirect {
                from: rdma::ib_umem_get_cq_buf_or_va as *const () as usize,
                to: Replacement::<P>::get_cq_buf_or_va as *const () as usize,
            },
            helpers::ext_redirect {
                from: bindings::dma_buf_get as *const () as usize,
                to: dma_buf_get as *const () as usize,
            },
        ];
        // SAFETY: Each replacement has the signature and the requirements of its function.
        let redirection = unsafe { Redirection::new(&list, bypassed()) }?;
        number::set_hooked(true);
        Ok(Self {
            _redirection: redirection,
            _hooked: hooked,
            _code: code,
            _provider: PhantomData,
        })
    }
}

impl<P: UmemProvider> Drop for UmemHook<P> {
    fn drop(&mut self) {
        // The redirection goes next. ftrace waits for a Tasks RCU grace period: a task that was on its way
        // to a replacement is inside it then, and counted.
        number::set_hooked(false);
    }
}
