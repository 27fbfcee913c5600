// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! libibverbs: a device, and two queue pairs of this process that are connected to each other.
//!
//! All of `unsafe` of the program is here. The structures are those of `infiniband/verbs.h`, whose layout
//! libibverbs keeps; a test compares the sizes.

use crate::{
    print::hint,
    sys::{self, cause, At},
};
use anyhow::{anyhow, bail, Result};
use rustix::mm::{mmap, mmap_anonymous, munmap, MapFlags, ProtFlags};
use std::{
    ffi::{c_char, c_int, c_uint, c_void, CStr},
    fs::OpenOptions,
    io,
    marker::PhantomData,
    mem::zeroed,
    ptr::{self, NonNull},
    time::{Duration, Instant},
};

#[repr(C)]
struct Context {
    device: *mut c_void,
    /// `struct ibv_context_ops`, of which the header calls two: `poll_cq` and `post_send`.
    ops_before: [*const c_void; 11],
    poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    ops_between: [*const c_void; 13],
    post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
}

#[repr(C)]
struct Cq {
    context: *mut Context,
}

#[repr(C)]
struct Qp {
    context: *mut Context,
    unused: [*mut c_void; 5],
    handle: u32,
    qp_num: u32,
}

#[repr(C)]
struct Mr {
    unused: [*mut c_void; 2],
    addr: *mut c_void,
    length: usize,
    handle: u32,
    lkey: u32,
    rkey: u32,
}

#[repr(C)]
struct QpInitAttr {
    qp_context: *mut c_void,
    send_cq: *mut Cq,
    recv_cq: *mut Cq,
    srq: *mut c_void,
    /// `struct ibv_qp_cap`: requests to send and to receive, SGEs of each, inline data.
    cap: [u32; 5],
    qp_type: c_uint,
    sq_sig_all: c_int,
}

/// `union ibv_gid`, which is aligned as its numbers.
#[repr(C, align(8))]
struct Gid([u8; 16]);

#[repr(C)]
struct AhAttr {
    dgid: Gid,
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    dlid: u16,
    unused: [u8; 3],
    is_global: u8,
    port_num: u8,
}

#[repr(C)]
struct QpAttr {
    qp_state: c_uint,
    cur_qp_state: c_uint,
    path_mtu: c_uint,
    path_mig_state: c_uint,
    qkey_and_psns: [u32; 3],
    dest_qp_num: u32,
    qp_access_flags: c_uint,
    cap: [u32; 5],
    ah_attr: AhAttr,
    alt_ah_attr: AhAttr,
    pkey_indices: [u16; 2],
    unused: [u8; 2],
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port_num: u8,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alternative: [u8; 2],
    rate_limit: u32,
}

#[repr(C)]
struct Sge {
    addr: u64,
    length: u32,
    lkey: u32,
}

#[repr(C)]
struct SendWr {
    wr_id: u64,
    next: *mut SendWr,
    sg_list: *mut Sge,
    num_sge: c_int,
    opcode: c_uint,
    send_flags: c_uint,
    imm_data: u32,
    remote_addr: u64,
    rkey: u32,
    /// Of other requests.
    rest: [u64; 9],
}

#[repr(C)]
struct Wc {
    wr_id: u64,
    status: c_uint,
    rest: [u32; 9],
}

const ACCESS_ALL: c_int = 0xf;
const ACCESS_REMOTE: c_uint = 0xe;
const PORT: u8 = 1;

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_free_device_list(list: *mut *mut c_void);
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut Context;
    fn ibv_close_device(context: *mut Context) -> c_int;
    fn ibv_alloc_pd(context: *mut Context) -> *mut c_void;
    fn ibv_dealloc_pd(pd: *mut c_void) -> c_int;
    fn ibv_reg_mr(pd: *mut c_void, addr: *mut c_void, length: usize, access: c_int) -> *mut Mr;
    fn ibv_reg_dmabuf_mr(pd: *mut c_void, at: u64, n: usize, iova: u64, fd: c_int, a: c_int) -> *mut Mr;
    fn ibv_dereg_mr(mr: *mut Mr) -> c_int;
    fn ibv_create_cq(of: *mut Context, n: c_int, a: *mut c_void, b: *mut c_void, v: c_int) -> *mut Cq;
    fn ibv_destroy_cq(cq: *mut Cq) -> c_int;
    fn ibv_create_qp(pd: *mut c_void, attr: *mut QpInitAttr) -> *mut Qp;
    fn ibv_modify_qp(qp: *mut Qp, attr: *mut QpAttr, mask: c_int) -> c_int;
    fn ibv_destroy_qp(qp: *mut Qp) -> c_int;
    fn ibv_wc_status_str(status: c_uint) -> *const c_char;
}

/// An object of libibverbs, which is destroyed with this one.
///
/// # Invariants
///
/// `at` is of an object that only this one destroys, by `destroy`.
struct Object<T> {
    at: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
}

impl<T> Object<T> {
    /// Takes what `call` has returned, or its errno.
    ///
    /// # Safety
    ///
    /// `at` is null, or of a new object, which `destroy` destroys.
    unsafe fn new(at: *mut T, destroy: unsafe extern "C" fn(*mut T) -> c_int, call: &str) -> Result<Self> {
        let at = NonNull::new(at).ok_or_else(io::Error::last_os_error).at(call)?;
        // INVARIANT: By the safety requirements.
        Ok(Self { at, destroy })
    }

    fn ptr(&self) -> *mut T {
        self.at.as_ptr()
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariant. What uses the object is dropped before it, or borrows it.
        unsafe { (self.destroy)(self.ptr()) };
    }
}

/// Returns the result of a call that returns an errno.
fn check_errno(error: c_int, call: &str) -> Result<()> {
    match error {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(error)).at(call),
    }
}

/// An open RDMA device with a protection domain.
pub(crate) struct Device {
    name: String,
    // In the order in which they end.
    pd: Object<c_void>,
    context: Object<Context>,
}

impl Device {
    /// Opens a device.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let mut count = 0;
        // SAFETY: `count` is valid for writes.
        let list = unsafe { ibv_get_device_list(&mut count) };
        let list = NonNull::new(list).ok_or_else(io::Error::last_os_error);
        let list = list.at("ibv_get_device_list (is ib_uverbs loaded?)")?;
        // SAFETY: The list has `count` devices, which live until it is freed, below.
        let devices = unsafe { std::slice::from_raw_parts(list.as_ptr(), usize::try_from(count)?) };
        let name_of = |device: &*mut c_void| {
            // SAFETY: The device is on the list, so its name is a C string.
            unsafe { CStr::from_ptr(ibv_get_device_name(*device)) }.to_string_lossy().into_owned()
        };
        let context = match devices.iter().find(|device| name_of(device) == name) {
            Some(device) => {
                let call = format!("RDMA device {name}");
                // SAFETY: The device is on the list.
                unsafe { Object::new(ibv_open_device(*device), ibv_close_device, &call) }
            }
            None if devices.is_empty() => Err(anyhow!(
                "no RDMA device {name}\n  this host has no RDMA device; \"rdma link add rxe0 type rxe netdev eth0\" \
                 creates a software device"
            )),
            None => {
                let names: Vec<_> = devices.iter().map(name_of).collect();
                Err(anyhow!("no RDMA device {name}\n  RDMA devices of this host: {}", names.join(" ")))
            }
        };
        // SAFETY: The list is of ibv_get_device_list(), and not used any more. An open device does not need it.
        unsafe { ibv_free_device_list(list.as_ptr()) };
        let context = context?;
        // SAFETY: The device is open.
        let pd = unsafe { Object::new(ibv_alloc_pd(context.ptr()), ibv_dealloc_pd, "ibv_alloc_pd") }?;
        Ok(Self { name: name.into(), pd, context })
    }

    /// Returns whether the driver imports dma-bufs: then it looks at the descriptor, which is none (EBADF).
    pub(crate) fn imports_dma_bufs(&self) -> bool {
        // SAFETY: The protection domain is one.
        let mr = unsafe { ibv_reg_dmabuf_mr(self.pd.ptr(), 0, 0, 0, -1, 0) };
        let error = io::Error::last_os_error().raw_os_error();
        if !mr.is_null() {
            // SAFETY: The MR is new.
            unsafe { ibv_dereg_mr(mr) };
        }
        mr.is_null() && error == Some(9)
    }

    /// Registers memory, with all kinds of access. The caller deregisters it before the mapping ends.
    fn register(&self, memory: &Mapping) -> Result<Object<Mr>> {
        let (addr, length) = (memory.addr.as_ptr(), memory.length);
        // SAFETY: The protection domain is one. The memory is mapped, and only accessed as one that a device
        // writes to.
        let at = unsafe { ibv_reg_mr(self.pd.ptr(), addr, length, ACCESS_ALL) };
        if at.is_null() {
            let error = io::Error::last_os_error();
            let hint = match error.raw_os_error() {
                // EFAULT
                Some(14) => {
                    "\n  is ib_peer_mem loaded, and the whole range mapped writable in this process? The kernel log \
                     may say more"
                }
                // ENOMEM
                Some(12) => "\n  \"ulimit -l\" limits how much host memory can be registered",
                // EREMOTEIO, EOPNOTSUPP
                Some(121 | 95) => {
                    "\n  this adapter cannot reach the memory: the kernel log has the cause; \"iopm nearest\" lists \
                     the memory that it can reach"
                }
                _ => "",
            };
            bail!("ibv_reg_mr of {length} bytes: {}{hint}", cause(&error));
        }
        // SAFETY: The MR is new.
        unsafe { Object::new(at, ibv_dereg_mr, "ibv_reg_mr") }
    }

    /// Returns a file of the port.
    fn port(&self, name: &str) -> String {
        format!("/sys/class/infiniband/{}/ports/{PORT}/{name}", self.name)
    }

    /// Returns the GID for RoCE v2 with its index, if the port has one, else the first.
    fn gid(&self) -> Result<(u8, Gid)> {
        // An index without a GID has no type.
        let is_v2 =
            |i: &u8| sys::line(self.port(&format!("gid_attrs/types/{i}"))).as_deref() == Some("RoCE v2");
        let index = (0..=u8::MAX).find(is_v2).unwrap_or(0);
        let text = sys::line(self.port(&format!("gids/{index}"))).unwrap_or_default();
        let address: std::net::Ipv6Addr = text.parse()?;
        Ok((index, Gid(address.octets())))
    }
}

/// A mapping that a device or another process may write to.
///
/// # Invariants
///
/// `length` bytes are mapped at `addr`, and only this object unmaps them.
pub(crate) struct Mapping {
    addr: NonNull<c_void>,
    length: usize,
}

impl Mapping {
    fn new(mapped: rustix::io::Result<*mut c_void>, length: usize, what: &str) -> Result<Self> {
        let addr = mapped.map_err(io::Error::from).at(format_args!("mmap of {length} bytes of {what}"))?;
        // INVARIANT: The mapping is new.
        Ok(Self { addr: NonNull::new(addr).ok_or_else(|| anyhow!("mmap"))?, length })
    }

    /// Maps the beginning of a file.
    pub(crate) fn of_file(path: &str, length: usize) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| anyhow!("{path}: {}{}", cause(&error), hint(&error)))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: The kernel chooses an address that is free.
        let mapped = unsafe { mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, &file, 0) };
        Self::new(mapped, length, path)
    }

    /// Maps host memory.
    pub(crate) fn anonymous(length: usize) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: The kernel chooses an address that is free.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE) };
        Self::new(mapped, length, "host memory")
    }

    /// Reads a byte; 0 past the end.
    pub(crate) fn get(&self, at: usize) -> u8 {
        if at >= self.length {
            return 0;
        }
        // SAFETY: By the invariant the byte is mapped. The access is volatile: others may write.
        unsafe { self.addr.as_ptr().cast::<u8>().add(at).read_volatile() }
    }

    /// Writes a byte; nothing past the end.
    pub(crate) fn set(&self, at: usize, byte: u8) {
        if at < self.length {
            // SAFETY: As in get(); the mapping is writable.
            unsafe { self.addr.as_ptr().cast::<u8>().add(at).write_volatile(byte) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the invariant the mapping is this object's; a pair with MRs on it borrows it.
        let _ = unsafe { munmap(self.addr.as_ptr(), self.length) };
    }
}

/// Two queue pairs that are connected to each other, and a memory region for each. Requests are posted on the
/// first one, whose region is in host memory; the second one answers them.
pub(crate) struct Pair<'a> {
    device: &'a Device,
    // In the order in which they end.
    qps: [Object<Qp>; 2],
    cq: Object<Cq>,
    mrs: [Object<Mr>; 2],
    memory: PhantomData<&'a Mapping>,
}

impl<'a> Pair<'a> {
    /// Registers the memory, and makes and connects the queue pairs.
    pub(crate) fn new(device: &'a Device, near: &'a Mapping, far: &'a Mapping) -> Result<Self> {
        let mrs = [device.register(near)?, device.register(far)?];
        let null = ptr::null_mut();
        // SAFETY: The device is open.
        let cq = unsafe { ibv_create_cq(device.context.ptr(), 64, null, null, 0) };
        // SAFETY: The completion queue is new.
        let cq = unsafe { Object::new(cq, ibv_destroy_cq, "ibv_create_cq") }?;
        let make = || {
            let mut attr = QpInitAttr {
                qp_context: null,
                send_cq: cq.ptr(),
                recv_cq: cq.ptr(),
                srq: null,
                cap: [16, 1, 1, 1, 0],
                // IBV_QPT_RC
                qp_type: 2,
                sq_sig_all: 0,
            };
            // SAFETY: The protection domain and the completion queue are of this device.
            unsafe { Object::new(ibv_create_qp(device.pd.ptr(), &mut attr), ibv_destroy_qp, "ibv_create_qp") }
        };
        let pair = Self { device, qps: [make()?, make()?], cq, mrs, memory: PhantomData };
        let [near, far] = &pair.qps;
        pair.connect(near, far)?;
        pair.connect(far, near)?;
        Ok(pair)
    }

    /// Moves a queue pair through INIT and RTR to RTS.
    fn connect(&self, qp: &Object<Qp>, peer: &Object<Qp>) -> Result<()> {
        let (sgid_index, dgid) = self.device.gid()?;
        // CAST: A local identifier has 16 bits; Ethernet has none.
        let dlid = sys::number(self.device.port("lid")).unwrap_or(0) as u16;
        // SAFETY: The structure has numbers only, for which zeros are values.
        let mut attr: QpAttr = unsafe { zeroed() };
        let modify = |attr: &mut QpAttr, state, bits: &[u32], name: &str| {
            attr.qp_state = state;
            // IBV_QP_STATE and these.
            let mask = bits.iter().fold(1, |mask, bit| mask | (1 << bit));
            // SAFETY: The queue pair is one.
            let error = unsafe { ibv_modify_qp(qp.ptr(), attr, mask) };
            check_errno(error, &format!("ibv_modify_qp to {name}"))
        };
        attr.port_num = PORT;
        attr.qp_access_flags = ACCESS_REMOTE;
        // PKEY_INDEX, PORT, ACCESS_FLAGS
        modify(&mut attr, 1, &[4, 5, 3], "INIT")?;
        // 1024 bytes
        attr.path_mtu = 3;
        // SAFETY: The other queue pair is one.
        attr.dest_qp_num = unsafe { peer.at.as_ref() }.qp_num;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        attr.ah_attr.dgid = dgid;
        attr.ah_attr.sgid_index = sgid_index;
        attr.ah_attr.hop_limit = 64;
        attr.ah_attr.dlid = dlid;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = PORT;
        // AV, PATH_MTU, DEST_QPN, RQ_PSN, MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER
        modify(&mut attr, 2, &[7, 8, 20, 12, 17, 15], "RTR")?;
        // 1 s, and 6 retries: soft RoCE retries for ever with a count of 7.
        attr.timeout = 18;
        attr.retry_cnt = 6;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        // TIMEOUT, RETRY_CNT, RNR_RETRY, SQ_PSN, MAX_QP_RD_ATOMIC
        modify(&mut attr, 3, &[9, 10, 11, 16, 13], "RTS")
    }

    /// Reads `length` bytes from the beginning of the far memory to `at` of the near one, or writes them.
    pub(crate) fn transfer(&self, read: bool, at: usize, length: u32) -> Result<()> {
        // SAFETY: The MRs are some, and libibverbs does not change them.
        let [near, far] = self.mrs.each_ref().map(|mr| unsafe { mr.at.as_ref() });
        let mut sge = Sge { addr: near.addr as u64 + at as u64, length, lkey: near.lkey };
        let mut wr = SendWr {
            wr_id: 0,
            next: ptr::null_mut(),
            sg_list: &mut sge,
            num_sge: 1,
            // IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE
            opcode: if read { 4 } else { 0 },
            // IBV_SEND_SIGNALED
            send_flags: 2,
            imm_data: 0,
            remote_addr: far.addr as u64,
            rkey: far.rkey,
            rest: [0; 9],
        };
        let name = if read { "READ" } else { "WRITE" };
        let (qp, cq, mut bad) = (self.qps[0].ptr(), self.cq.ptr(), ptr::null_mut());
        // SAFETY: The queue pair is one, and its device has the function. The request lives
        // until the call returns; an adapter that the MRs do not allow the access refuses it.
        let error = unsafe { ((*(*qp).context).post_send)(qp, &mut wr, &mut bad) };
        check_errno(error, "ibv_post_send")?;
        let mut wc = Wc { wr_id: 0, status: 0, rest: [0; 9] };
        let begin = Instant::now();
        // Every request completes, a failed one with an error status. Emulated machines are slow.
        while begin.elapsed() < Duration::from_secs(20) {
            // SAFETY: The completion queue is one; `wc` has the size of one completion.
            match unsafe { ((*(*cq).context).poll_cq)(cq, 1, &mut wc) } {
                0 => continue,
                1 if wc.status == 0 => return Ok(()),
                1 => {
                    // SAFETY: The function returns a constant C string for each number.
                    let text = unsafe { CStr::from_ptr(ibv_wc_status_str(wc.status)) };
                    bail!("RDMA {name} of {length} bytes: {}", text.to_string_lossy());
                }
                error => bail!("ibv_poll_cq: {error}"),
            }
        }
        bail!("RDMA {name} of {length} bytes: no completion in time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!([offset_of!(Context, poll_cq), offset_of!(Context, post_send)], [96, 208]);
        assert_eq!([size_of::<QpInitAttr>(), size_of::<AhAttr>(), size_of::<QpAttr>()], [64, 32, 144]);
        assert_eq!([size_of::<SendWr>(), size_of::<Wc>(), offset_of!(Qp, qp_num)], [128, 48, 52]);
        assert_eq!([offset_of!(Mr, rkey), offset_of!(QpAttr, timeout)], [40, 130]);
    }
}
