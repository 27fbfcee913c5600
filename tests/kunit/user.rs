// SPDX-License-Identifier: GPL-2.0

//! Who registers memory: a kernel user of the verbs, as the in-kernel protocols are.

use crate::{
    bindings::rdma,
    device::{
        MrState,
        Registered, //
    },
    helpers,
    peer,
    sync,
    World, //
};
use core::ptr;
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Access flags.
pub(crate) const LOCAL_WRITE: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
pub(crate) const REMOTE_READ: u32 = rdma::ib_access_flags_IB_ACCESS_REMOTE_READ;
pub(crate) const REMOTE_WRITE: u32 = rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
pub(crate) const REMOTE_ATOMIC: u32 = rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
pub(crate) const MW_BIND: u32 = rdma::ib_access_flags_IB_ACCESS_MW_BIND;
pub(crate) const ON_DEMAND: u32 = rdma::ib_access_flags_IB_ACCESS_ON_DEMAND;
pub(crate) const HUGETLB: u32 = rdma::ib_access_flags_IB_ACCESS_HUGETLB;
pub(crate) const RELAXED: u32 = rdma::ib_access_flags_IB_ACCESS_RELAXED_ORDERING;
/// What most users ask for.
pub(crate) const USUAL: u32 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE;

/// What a re-registration changes.
pub(crate) const TRANS: u32 = rdma::ib_mr_rereg_flags_IB_MR_REREG_TRANS;
pub(crate) const ACCESS: u32 = rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS;
pub(crate) const PD: u32 = rdma::ib_mr_rereg_flags_IB_MR_REREG_PD;

/// A protection domain of a fake device.
///
/// # Invariants
///
/// `raw` is valid and owned by this object.
pub(crate) struct Pd {
    raw: *mut rdma::ib_pd,
    dev: Arc<Registered>,
}

// SAFETY: ib_core and the drivers lock for themselves.
unsafe impl Send for Pd {}
// SAFETY: As above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates one.
    pub(crate) fn new(dev: &Arc<Registered>) -> Result<Arc<Self>> {
        // SAFETY: The device is registered, and `dev` keeps it allocated.
        let raw = from_err_ptr(unsafe {
            rdma::__ib_alloc_pd(dev.as_raw(), 0, c"peer_mem_kunit".as_char_ptr())
        })?;
        // INVARIANT: Just made.
        let pd = Self {
            raw,
            dev: dev.clone(),
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// Its device.
    pub(crate) fn dev(&self) -> &Arc<Registered> {
        &self.dev
    }

    /// How many objects use it.
    pub(crate) fn users(&self) -> i32 {
        // SAFETY: By the type invariants; the counter is only ever written whole.
        unsafe { (&raw const (*self.raw).usecnt.counter).read_volatile() }
    }

    /// Registers `length` bytes at `start`.
    pub(crate) fn reg(self: &Arc<Self>, start: u64, length: u64, access: u32) -> Result<Mr> {
        self.reg_at(start, length, start, access)
    }

    /// As [`Self::reg`], for the device to know as `iova`.
    pub(crate) fn reg_at(
        self: &Arc<Self>,
        start: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<Mr> {
        // SAFETY: By the type invariants.
        let raw = from_err_ptr(unsafe {
            rdma::ib_reg_user_mr(self.raw, start, length, iova, access as i32)
        })?;
        Ok(Mr {
            raw: Atomic::new(raw.expose_provenance()),
            pd: self.clone(),
        })
    }

    /// As [`Self::reg`], as uverbs does it for a user.
    pub(crate) fn reg_by_verb(
        self: &Arc<Self>,
        start: u64,
        length: u64,
        access: u32,
        verb: &Verb,
    ) -> Result<Mr> {
        let mut bundle: rdma::uverbs_attr_bundle = pin_init::zeroed();
        // SAFETY: All bytes of both views of the union are initialised.
        let hdr = unsafe { &mut bundle.__bindgen_anon_1.hdr };
        hdr.ufile = ptr::without_provenance_mut(verb.ufile);
        hdr.context = ptr::without_provenance_mut(verb.context);
        // Attributes of another verb, which the driver's function must not take for its own.
        hdr.attr_present[0] = !0;
        // SAFETY: By the type invariants.
        let op = unsafe { (*(*self.raw).device).ops.reg_user_mr }.ok_or(EINVAL)?;
        // A user's data is the first thing in its bundle.
        let udata: *mut rdma::ib_udata = (&raw mut bundle).cast();
        // SAFETY: As uverbs calls it; nobody looks behind the addresses.
        let new = from_err_ptr(unsafe {
            op(
                self.raw,
                start,
                length,
                start,
                access as i32,
                ptr::without_provenance_mut(verb.dmah),
                udata,
            )
        })?;
        Ok(self.adopt(new))
    }

    /// Registers `length` bytes from `offset` on of a dma-buf, as uverbs does it for a user.
    pub(crate) fn import(
        self: &Arc<Self>,
        dma_buf: &DmaBuf,
        offset: u64,
        length: u64,
    ) -> Result<Mr> {
        let mut bundle: rdma::uverbs_attr_bundle = pin_init::zeroed();
        // SAFETY: By the type invariants.
        let op = unsafe { (*(*self.raw).device).ops.reg_user_mr_dmabuf }.ok_or(EINVAL)?;
        // SAFETY: As uverbs calls it.
        let new = from_err_ptr(unsafe {
            op(
                self.raw,
                offset,
                length,
                offset,
                dma_buf.0,
                USUAL as i32,
                ptr::null_mut(),
                &mut bundle,
            )
        })?;
        Ok(self.adopt(new))
    }

    /// Does with a new MR what uverbs does.
    fn adopt(self: &Arc<Self>, new: *mut rdma::ib_mr) -> Mr {
        // SAFETY: The callers have just got the MR from the driver.
        let raw = unsafe { &mut *new };
        raw.device = self.dev.as_raw();
        raw.pd = self.raw;
        raw.type_ = rdma::ib_mr_type_IB_MR_TYPE_USER;
        // SAFETY: The PD is valid. ib_dereg_mr_user() gives the count back.
        unsafe { helpers::kt_count_up(&raw mut (*self.raw).usecnt) };
        Mr {
            raw: Atomic::new(new.expose_provenance()),
            pd: self.clone(),
        }
    }
}

/// `/dev/ib_peer_mem`, open.
///
/// # Invariants
///
/// The file is open, and owned by this object.
pub(crate) struct Control(*mut bindings::file);

// SAFETY: A file may be used from any thread.
unsafe impl Send for Control {}
// SAFETY: As above.
unsafe impl Sync for Control {}

impl Control {
    /// Opens it, which needs a process.
    pub(crate) fn open() -> Result<Self> {
        // SAFETY: A call that any process can make.
        // INVARIANT: Just opened.
        from_err_ptr(unsafe { helpers::kt_control_open() }).map(Self)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { helpers::kt_control_close(self.0) };
    }
}

/// A page of the memory of the task that a test runs in; it goes with the test.
pub(crate) struct Page(usize);

impl Page {
    /// Maps one; not while allocations are made to fail.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: What it makes is the test's own.
        match unsafe { helpers::kt_user_page() } {
            0 => Err(ENOMEM),
            at => Ok(Self(at)),
        }
    }
}

/// A file descriptor of a dma-buf of peer memory. Dropping it closes it.
pub(crate) struct DmaBuf(i32);

impl DmaBuf {
    /// Has `length` bytes at `addr` exported; only from the task that a test runs in.
    pub(crate) fn export(addr: u64, length: u64) -> Result<Self> {
        Self::export_by(&Page::new()?, addr, length)
    }

    /// As above, with the arguments in `page`.
    pub(crate) fn export_by(page: &Page, addr: u64, length: u64) -> Result<Self> {
        let world = World::get()?;
        // SAFETY: The file is open.
        let fd = unsafe { helpers::kt_export(world.control().0, page.0, addr, length) };
        to_result(fd)?;
        Ok(Self(fd))
    }

    /// Its number.
    pub(crate) fn fd(&self) -> i32 {
        self.0
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: The descriptor is ours.
        unsafe { helpers::kt_close(self.0) };
    }
}

/// What a user's call has beside its arguments. The addresses are only passed on.
pub(crate) struct Verb {
    /// Whose call it is.
    pub(crate) ufile: usize,
    pub(crate) context: usize,
    /// A DMA handle.
    pub(crate) dmah: usize,
}

/// A user context, in which a PD is made to lie. No user, and no ib_uverbs, is behind it.
///
/// # Invariants
///
/// `pd` lies in it for as long as it exists.
pub(crate) struct Context {
    ucontext: KBox<rdma::ib_ucontext>,
    _uobject: KBox<rdma::ib_uobject>,
    pd: Arc<Pd>,
}

impl Context {
    /// Lays `pd` in a context.
    pub(crate) fn around(pd: &Arc<Pd>) -> Result<Self> {
        let mut ucontext: KBox<rdma::ib_ucontext> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        ucontext.device = pd.dev.as_raw();
        let mut uobject: KBox<rdma::ib_uobject> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        uobject.context = &mut *ucontext;
        // SAFETY: The PD is valid, and no MR is being registered on it.
        unsafe { (*pd.raw).uobject = &mut *uobject };
        // INVARIANT: Just done; undone when this is dropped.
        Ok(Self {
            ucontext,
            _uobject: uobject,
            pd: pd.clone(),
        })
    }

    /// The context, for the C ABI.
    fn as_raw(&self) -> *mut peer::ib_ucontext {
        ptr::from_ref(&*self.ucontext).cast_mut().cast()
    }

    /// Sets a hint.
    pub(crate) fn hint(&self, name: Option<&CStr>, data: usize) -> Result {
        let name = name.map_or(ptr::null(), |n| n.as_char_ptr());
        // SAFETY: The context is valid, the name is a C string or NULL.
        to_result(unsafe {
            peer::ib_peer_mem_set_hint(self.as_raw(), name, ptr::without_provenance_mut(data))
        })
    }

    /// Clears the hint.
    pub(crate) fn clear(&self) {
        // SAFETY: The context is valid.
        unsafe { peer::ib_peer_mem_clear_hint(self.as_raw()) };
    }

    /// Ends the context as ib_core does, and makes another at the same place.
    pub(crate) fn again(&self) {
        let raw: *mut rdma::ib_ucontext = self.as_raw().cast();
        // SAFETY: The context's device is registered.
        if let Some(dealloc) = unsafe { (*(*raw).device).ops.dealloc_ucontext } {
            // SAFETY: As ib_core calls it.
            unsafe { dealloc(raw) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.again();
        // SAFETY: The PD is valid; by the type invariants it lies in this context.
        unsafe { (*self.pd.raw).uobject = ptr::null_mut() };
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        if sync::is_stuck() {
            return;
        }
        // SAFETY: By the type invariants.
        let ret = unsafe { rdma::ib_dealloc_pd_user(self.raw, ptr::null_mut()) };
        if ret != 0 {
            pr_err!("a PD does not go: {}\n", ret);
        }
    }
}

/// A memory region. Dropping it deregisters it.
///
/// # Invariants
///
/// `raw` is the address of a valid MR that is owned by this object, or 0.
pub(crate) struct Mr {
    raw: Atomic<usize>,
    pd: Arc<Pd>,
}

impl Mr {
    fn as_raw(&self) -> *mut rdma::ib_mr {
        ptr::with_exposed_provenance_mut(self.raw.load(Relaxed))
    }

    /// Its key.
    pub(crate) fn key(&self) -> u32 {
        // SAFETY: By the type invariants; those who deregister it do not ask.
        unsafe { (*self.as_raw()).lkey }
    }

    /// What the device has of it.
    pub(crate) fn state(&self) -> Result<MrState> {
        self.pd.dev.fake().mr(self.key()).ok_or(ENOENT)
    }

    /// Would the adapter let somebody touch its memory?
    pub(crate) fn is_valid(&self) -> bool {
        self.state().is_ok_and(|s| s.valid)
    }

    /// Has it not been deregistered?
    pub(crate) fn is_alive(&self) -> bool {
        !self.as_raw().is_null()
    }

    /// Where the device knows it: iova and length.
    pub(crate) fn place(&self) -> (u64, u64) {
        // SAFETY: By the type invariants.
        unsafe { ((*self.as_raw()).iova, (*self.as_raw()).length) }
    }

    /// Deregisters it. Where that fails it is still there.
    pub(crate) fn dereg(&self) -> Result {
        let raw = self.as_raw();
        if raw.is_null() {
            return Ok(());
        }
        // SAFETY: By the type invariants.
        to_result(unsafe { rdma::ib_dereg_mr_user(raw, ptr::null_mut()) })?;
        // INVARIANT: There is none any more.
        self.raw.store(0, Relaxed);
        Ok(())
    }

    /// Re-registers, as uverbs does: where the driver makes a new MR, that takes the place of
    /// the old one.
    pub(crate) fn rereg(
        &self,
        flags: u32,
        pd: &Arc<Pd>,
        args: (u64, u64),
        access: u32,
    ) -> Result<Option<Mr>> {
        let old = self.as_raw();
        // SAFETY: By the type invariants.
        let op = unsafe { (*(*old).device).ops.rereg_user_mr }.ok_or(EINVAL)?;
        // SAFETY: As uverbs calls it; without udata.
        let new = unsafe {
            op(
                old,
                flags as i32,
                args.0,
                args.1,
                args.0,
                access as i32,
                pd.raw,
                ptr::null_mut(),
            )
        };
        let new = from_err_ptr(new)?;
        if new.is_null() {
            return Ok(None);
        }
        let new = pd.adopt(new);
        self.dereg()?;
        Ok(Some(new))
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if sync::is_stuck() {
            return;
        }
        for _ in 0..3 {
            if self.dereg().is_ok() {
                return;
            }
        }
        pr_err!("an MR does not go\n");
    }
}
