// SPDX-License-Identifier: GPL-2.0

//! A hook on the functions with which ib_core pins user memory for drivers.
//!
//! A [`UmemHook`] places the hook, and a [`UmemProvider`] supplies memory that the CPU cannot pin.
//! Used by the peer memory module, once.
//!
//! C headers: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h),
//! [`include/linux/ftrace.h`](srctree/include/linux/ftrace.h).
//!
//! All drivers pin user memory through one exported function: MRs, and also the buffers and doorbell
//! pages of queues. That is `ib_umem_get_desc()` with a few others that the compiler inlines it
//! into, and in earlier kernels `ib_umem_get()`: see `umem_hook/entry/`. `scripts/checks/umem-paths`
//! proves for the module of a kernel that has them that there are no others. A [`UmemHook`]
//! redirects the calls of these functions by ftrace, as livepatch does.
//!
//! The replacement first calls the original with the arguments unchanged. If the pages cannot be
//! pinned, the replacement asks the [`UmemProvider`] for a dma-buf, and imports the dma-buf as a
//! pinned umem. The driver gets a pinned umem in both cases.
//! `ib_umem_release()` detaches from the dma-buf, so the end of the umem needs no hook.
//!
//! One more function is redirected, too: `dma_buf_get()`. The replacement returns the dma-buf that
//! the current task imports by a private descriptor; see `dma_buf/private_fd.rs`.
//!
//! The calls of tasks inside [`bypass`](bypass()) go to the original at once, so an MR of host memory
//! passes ftrace once.
//!
//! # Constraints
//!
//! - The hook recognizes calls by this module by the return address. So a replacement must not end
//!   with a jump to the original: the replacement is counted until after the return of the
//!   original.
//! - A function can have only one redirection, so a livepatch of a hooked function excludes the
//!   hook.

mod bypass;
mod entry;
mod redirection;
mod trial;

pub use self::bypass::bypass;

use self::{
    bypass::is_unplaced,
    redirection::Redirection, //
};
use super::{
    ib_device::Device,
    mr::Access, //
};
use crate::shared::{
    ext::{
        base::compat::AtomicPtr,
        dma_buf::{
            private_fd,
            Part, //
        },
        task::calls::{
            TextRef,
            INFLIGHT, //
        }, //
    },
    prelude::raw::*, //
};

/// A source of memory that the CPU cannot pin.
pub struct UmemProvider {
    /// Returns the memory at `va` in the calling process, or `None` if the memory is not known. The
    /// memory could not be pinned for `dev`, and `dev` has a DMA device. If this function returns
    /// an error, the driver's call fails with the error. The offset of the part must be equal to
    /// `va` modulo `PAGE_SIZE`. Context: process context; may sleep. The caller may hold locks of
    /// the driver, so the function must not call the driver.
    pub provide: fn(dev: &Device, va: u64, len: u64, access: Access) -> Result<Option<Part>>,

    /// Handles the failure of a umem on `part`, a result of `provide`. Context: as `provide`.
    pub failed: fn(dev: &Device, va: u64, len: u64, part: &Part, error: Error),
}

/// The provider of this module's hook, or NULL without a hook.
///
/// Invariant: the provider is static.
static PROVIDER: AtomicPtr<UmemProvider> = AtomicPtr::new(ptr::null_mut());

fn provider() -> Option<&'static UmemProvider> {
    // SAFETY: By the invariant of `PROVIDER` the pointer is NULL or valid.
    unsafe { PROVIDER.load(Acquire).as_ref() }
}

/// A user buffer that could not be pinned.
struct Buffer {
    dev: *mut rdma::ib_device,
    va: u64,
    len: u64,
    access: c_int,
}

// SAFETY: All threads may use a device; the other fields are numbers.
unsafe impl Sync for Buffer {}

/// A new umem, owned by the holder.
struct Umem(*mut rdma::ib_umem);

// SAFETY: A umem belongs to no task.
unsafe impl Send for Umem {}

impl Buffer {
    fn new(dev: *mut rdma::ib_device, va: u64, len: usize, access: c_int) -> Self {
        Self {
            dev,
            va,
            // CAST: `usize` has 64 bits.
            len: len as u64,
            access,
        }
    }

    /// Imports `memory` as a umem. Context: may sleep.
    fn import(&self, memory: &Part) -> Result<Umem> {
        let import = |fd| entry::import(self, memory.offset, fd).map(Umem);
        let umem = memory.buffer.import(import)?;
        // The iova of a pinned buffer is the address. Drivers that do not choose a page size count
        // pages from the iova.
        // SAFETY: The umem is new; only this function has a pointer to the umem.
        unsafe { (*umem.0).iova = self.va };
        Ok(umem)
    }

    /// Asks the provider for the memory, and imports the memory. Returns `None` if the buffer is
    /// unsuitable, or if the provider does not know the memory. Context: process context; may
    /// sleep.
    ///
    /// # Safety
    ///
    /// `self.dev` must be a registered device.
    unsafe fn serve(&self) -> Result<Option<Umem>> {
        let access = Access(self.access as u32);
        let valid = self.len > 0 && self.va.checked_add(self.len).is_some();
        if !valid || access.is_on_demand() {
            return Ok(None);
        }
        // SAFETY: By the safety requirements `self.dev` is a registered device.
        let dev = unsafe { Device::from_raw(self.dev) };
        if dev.is_virt_dma() || dev.dma_device().is_none() {
            return Ok(None);
        }
        let Some(provider) = provider() else {
            return Ok(None);
        };
        let Some(memory) = (provider.provide)(dev, self.va, self.len, access)? else {
            return Ok(None);
        };
        let imported = self.import(&memory);
        imported
            .map(Some)
            .inspect_err(|e| (provider.failed)(dev, self.va, self.len, &memory, *e))
    }

    /// Returns the umem of the memory that the provider has for the buffer, or `original`, the error of the
    /// attempt to pin the buffer. A task inside [`bypass()`] gets `original`.
    ///
    /// # Safety
    ///
    /// `self.dev` must be a registered device.
    unsafe fn serve_or(&self, original: *mut rdma::ib_umem) -> *mut rdma::ib_umem {
        if is_unplaced() {
            return original;
        }
        // SAFETY: By the safety requirements `self.dev` is a registered device.
        match unsafe { self.serve() } {
            Ok(Some(umem)) => umem.0,
            Ok(None) => original,
            Err(e) => e.to_ptr(),
        }
    }
}

/// Runs `replacement` as a call in flight. In a trial, whose arguments are not valid, returns at
/// once what a replacement returns then.
fn enter(replacement: impl FnOnce() -> *mut rdma::ib_umem) -> *mut rdma::ib_umem {
    INFLIGHT.within(|| trial::seen().unwrap_or_else(replacement))
}

/// Hooks on ib_core. Drop removes the hooks, with a Tasks RCU grace period of ftrace. When all
/// references to `text` are dropped, no call is inside the hooks or inside the provider.
///
/// If ftrace has failed, and may still call the hooks, drop does not return. Context: drop may
/// sleep.
pub struct UmemHook {
    // Dropped in this order.
    _redirections: (Redirection, Option<Redirection>),
    _hooked: Hooked,
    _text: TextRef,
}

/// The only hook of this module. Drop permits another hook.
///
/// # Invariants
///
/// [`PROVIDER`] is not NULL on behalf of this object.
struct Hooked;

impl Hooked {
    /// Claims the place of the hook. Returns `EBUSY` if this module has a hook.
    fn new(provider: &'static UmemProvider) -> Result<Self> {
        let provider = ptr::from_ref(provider).cast_mut();
        match PROVIDER.cmpxchg(ptr::null_mut(), provider, Full) {
            // INVARIANT: Just set.
            Ok(_) => Ok(Self),
            Err(_) => Err(EBUSY),
        }
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        PROVIDER.store(ptr::null_mut(), Release);
    }
}

/// The state of the hook: 0 if it is placed, else the errno.
static STATE: Atomic<i32> = Atomic::new(-1);

impl UmemHook {
    /// Returns whether the hook is placed, or the error of [`Self::new`].
    pub fn state() -> Result {
        to_result(STATE.load(Relaxed))
    }

    /// Places the hooks, which ask `provider`.
    ///
    /// Returns `EOPNOTSUPP` if the kernel cannot redirect functions, and `EBUSY` if a livepatch
    /// redirects one of the functions, if this module has hooks already, or if ftrace is disabled.
    /// Returns `ENXIO` if memory is pinned past the hooks. Context: may sleep.
    pub fn new(text: TextRef, provider: &'static UmemProvider) -> Result<Self> {
        let hook = Self::place(text, provider);
        STATE.store(hook.as_ref().err().map_or(0, |e| e.to_errno()), Relaxed);
        hook
    }

    fn place(text: TextRef, provider: &'static UmemProvider) -> Result<Self> {
        let hooked = Hooked::new(provider)?;
        let dma_buf_get = helpers::ext_redirect {
            from: bindings::dma_buf_get as *const () as usize,
            to: private_fd::dma_buf_get as *const () as usize,
        };
        let list = entry::redirections(dma_buf_get);
        // SAFETY: The replacements in `entry` have the signatures and the requirements of the replaced
        // functions, and so has that of `dma_buf_get()`.
        let redirection = unsafe { Redirection::new(&list) }?;
        private_fd::set_hooked(true);
        let inlined = entry::redirect_inlined().inspect_err(|_| private_fd::set_hooked(false))?;
        Ok(Self {
            _redirections: (redirection, inlined),
            _hooked: hooked,
            _text: text,
        })
    }
}

impl Drop for UmemHook {
    fn drop(&mut self) {
        STATE.store(ENODEV.to_errno(), Relaxed);
        // The redirection is dropped next. ftrace waits for a Tasks RCU grace period: a task that
        // was about to enter a replacement is then inside the replacement, and counted.
        private_fd::set_hooked(false);
    }
}
