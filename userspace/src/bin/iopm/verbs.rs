// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! libibverbs: a device, and two queue pairs of this process that are connected to each other.
//!
//! All of `unsafe` of the program is here. The structures are those of `infiniband/verbs.h`, whose layout
//! libibverbs keeps; a test compares the sizes. The process ends after a transfer, so the kernel destroys the
//! objects, apart from MRs, and unmaps the memory.

use crate::prelude::*;
use iopm::ibv_mr;
use rustix::mm::{mmap, MapFlags, ProtFlags};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr::{self, NonNull};
use std::{slice, sync::atomic::AtomicU8};

/// Structures with these members, as C lays them out.
macro_rules! structures {
    ($($(#[$of:meta])* $name:ident { $($member:ident: $type:ty),* $(,)? })*) => {$(
        #[repr(C)]
        $(#[$of])*
        struct $name { $($member: $type,)* }
    )*};
}

structures! {
    /// With `struct ibv_context_ops`, of which the header calls two.
    Context {
        device: *mut c_void, ops_before: [*const c_void; 11],
        poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int, ops_between: [*const c_void; 13],
        post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    }
    Cq { context: *mut Context }
    Qp { context: *mut Context, unused: [*mut c_void; 5], handle: u32, qp_num: u32 }
    /// `cap` is `struct ibv_qp_cap`: requests to send and to receive, SGEs of each, inline data.
    #[derive(Default)]
    QpInitAttr {
        qp_context: Option<NonNull<c_void>>, send_cq: Option<NonNull<Cq>>, recv_cq: Option<NonNull<Cq>>,
        srq: Option<NonNull<c_void>>, cap: [u32; 5], qp_type: c_uint, sq_sig_all: c_int,
    }
    /// `dgid` is aligned as its numbers.
    #[derive(Default)]
    #[repr(align(8))]
    AhAttr {
        dgid: [u8; 16], flow_label: u32, sgid_index: u8, hop_limit: u8, traffic_class: u8, dlid: u16,
        unused: [u8; 3], is_global: u8, port_num: u8,
    }
    #[derive(Default)]
    QpAttr {
        qp_state: c_uint, cur_qp_state: c_uint, path_mtu: c_uint, path_mig_state: c_uint,
        qkey_and_psns: [u32; 3], dest_qp_num: u32, qp_access_flags: c_uint, cap: [u32; 5], ah_attr: AhAttr,
        alt_ah_attr: AhAttr, pkey_indices: [u16; 2], unused: [u8; 2], max_rd_atomic: u8,
        max_dest_rd_atomic: u8, min_rnr_timer: u8, port_num: u8, timeout: u8, retry_cnt: u8, rnr_retry: u8,
        alternative: [u8; 2], rate_limit: u32,
    }
    Sge { addr: u64, length: u32, lkey: u32 }
    /// `rest` is of other requests.
    #[derive(Default)]
    SendWr {
        wr_id: u64, next: Option<NonNull<SendWr>>, sg_list: Option<NonNull<Sge>>, num_sge: c_int,
        opcode: c_uint, send_flags: c_uint, imm_data: u32, remote_addr: u64, rkey: u32, rest: [u64; 9],
    }
    Wc { wr_id: u64, status: c_uint, rest: [u32; 9] }
}

const ACCESS_ALL: c_int = 0xf;
const PORT: u8 = 1;

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut Context;
    fn ibv_alloc_pd(context: *mut Context) -> *mut c_void;
    fn ibv_reg_mr(pd: *mut c_void, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    fn ibv_reg_dmabuf_mr(pd: *mut c_void, at: u64, n: usize, iova: u64, fd: c_int, a: c_int) -> *mut ibv_mr;
    fn ibv_create_cq(of: *mut Context, n: c_int, a: *mut c_void, b: *mut c_void, v: c_int) -> *mut Cq;
    fn ibv_create_qp(pd: *mut c_void, attr: *mut QpInitAttr) -> *mut Qp;
    fn ibv_modify_qp(qp: *mut Qp, attr: *mut QpAttr, mask: c_int) -> c_int;
    fn ibv_wc_status_str(status: c_uint) -> *const c_char;
}

/// Returns a new object, or the errno of the call that has made none.
fn new<T>(at: *mut T, call: impl Display) -> Result<NonNull<T>> {
    NonNull::new(at).ok_or_else(io::Error::last_os_error).at(call)
}

/// Returns the result of a call that returns an errno.
fn check_errno(error: c_int, call: impl Display) -> Result<()> {
    ensure!(error == 0, "{call}: {}", cause(&io::Error::from_raw_os_error(error)));
    Ok(())
}

/// An open RDMA device with a protection domain.
///
/// # Invariants
///
/// The pointers are those of libibverbs, and stay valid.
pub(crate) struct Device {
    name: String,
    context: NonNull<Context>,
    pd: NonNull<c_void>,
}

impl Device {
    pub(crate) fn open(name: &str) -> Result<Self> {
        let mut count = 0;
        // SAFETY: `count` is valid for writes.
        let list = unsafe { ibv_get_device_list(&mut count) };
        let list = new(list, "ibv_get_device_list (is ib_uverbs loaded?)")?;
        // SAFETY: The list has `count` devices.
        let devices = unsafe { slice::from_raw_parts(list.as_ptr(), usize::try_from(count)?) };
        let name_of = |device: &*mut c_void| {
            // SAFETY: The device is on the list, so its name is a C string.
            unsafe { CStr::from_ptr(ibv_get_device_name(*device)) }.to_string_lossy().into_owned()
        };
        let Some(device) = devices.iter().find(|device| name_of(device) == name) else {
            let names = devices.iter().map(name_of).collect::<Vec<_>>().join(" ");
            ensure!(names.is_empty(), "no RDMA device {name}\n  RDMA devices of this host: {names}");
            let software = "\"rdma link add rxe0 type rxe netdev eth0\" creates a software device";
            bail!("no RDMA device {name}\n  this host has no RDMA device; {software}");
        };
        // SAFETY: The device is on the list.
        let context = new(unsafe { ibv_open_device(*device) }, format_args!("RDMA device {name}"))?;
        // SAFETY: The device is open.
        let pd = new(unsafe { ibv_alloc_pd(context.as_ptr()) }, "ibv_alloc_pd")?;
        // INVARIANT: Both are new, and nothing destroys them.
        Ok(Self { name: name.into(), context, pd })
    }

    /// Returns whether the driver imports dma-bufs: then it looks at the descriptor, which is none.
    pub(crate) fn imports_dma_bufs(&self) -> bool {
        // SAFETY: The protection domain is one.
        let mr = unsafe { ibv_reg_dmabuf_mr(self.pd.as_ptr(), 0, 0, 0, -1, 0) };
        mr.is_null() && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
    }

    fn register(&self, memory: &'static [AtomicU8]) -> Result<Registered> {
        let (addr, length) = (memory.as_ptr().cast_mut().cast(), memory.len());
        // SAFETY: The protection domain is one. The memory stays, and is only accessed as one that a device writes
        // to.
        if let Some(mr) = NonNull::new(unsafe { ibv_reg_mr(self.pd.as_ptr(), addr, length, ACCESS_ALL) }) {
            // INVARIANT: The MR is new.
            return Ok(Registered(mr));
        }
        let error = io::Error::last_os_error();
        let hint = match error.raw_os_error() {
            Some(libc::EFAULT) => {
                "\n  is ib_peer_mem loaded, and the whole range mapped writable in this process? The kernel log may \
                 say more"
            }
            Some(libc::ENOMEM) => "\n  \"ulimit -l\" limits how much host memory can be registered",
            Some(libc::EREMOTEIO | libc::EOPNOTSUPP) => {
                "\n  this adapter cannot reach the memory: the kernel log has the cause; \"iopm nearest\" lists the \
                 memory that it can reach"
            }
            _ => "",
        };
        bail!("ibv_reg_mr of {length} bytes: {}{hint}", cause(&error))
    }

    fn port(&self, name: &str) -> String {
        format!("/sys/class/infiniband/{}/ports/{PORT}/{name}", self.name)
    }

    /// Returns the GID for RoCE v2 with its index, if the port has one, else the first.
    fn gid(&self) -> Result<(u8, [u8; 16])> {
        // An index without a GID has no type.
        let is_v2 =
            |i: &u8| sys::line(self.port(&format!("gid_attrs/types/{i}"))).as_deref() == Some("RoCE v2");
        let index = (0..=u8::MAX).find(is_v2).unwrap_or(0);
        let text = sys::line(self.port(&format!("gids/{index}"))).unwrap_or_default();
        let address: std::net::Ipv6Addr = text.parse()?;
        Ok((index, address.octets()))
    }
}

/// An MR until drop. At the exit of a process its mappings end before its files are closed: an MR that is left
/// then on a mapping without struct pages would be revoked.
///
/// # Invariants
///
/// The pointer is that of libibverbs, and stays valid until drop.
struct Registered(NonNull<ibv_mr>);

impl Registered {
    fn mr(&self) -> &ibv_mr {
        // SAFETY: By the invariant; libibverbs does not change the MR.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: By the invariant; nothing uses the MR afterwards.
        unsafe { ibv_dereg_mr(self.0.as_ptr()) };
    }
}

/// Maps the beginning of a file, which a device or another process may write to.
pub(crate) fn map(path: &str, length: usize) -> Result<&'static [AtomicU8]> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| anyhow!("{path}: {}{}", cause(&error), hint(&error)))?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: The kernel chooses an address that is free.
    let at = unsafe { mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, &file, 0) };
    let at = at.map_err(io::Error::from).at(format_args!("mmap of {length} bytes of {path}"))?;
    // SAFETY: The bytes stay mapped. Others may write atomics.
    Ok(unsafe { slice::from_raw_parts(at.cast(), length) })
}

/// Two queue pairs that are connected to each other, and a memory region for each. Requests are posted on the
/// first one, whose region is in host memory; the second one answers them.
///
/// # Invariants
///
/// The pointers are those of libibverbs, and stay valid.
pub(crate) struct Pair {
    qps: [NonNull<Qp>; 2],
    cq: NonNull<Cq>,
    mrs: [Registered; 2],
}

impl Pair {
    /// Registers the memory, and makes and connects the queue pairs.
    pub(crate) fn new(device: &Device, near: &'static [AtomicU8], far: &'static [AtomicU8]) -> Result<Self> {
        let mrs = [device.register(near)?, device.register(far)?];
        let null = ptr::null_mut();
        // SAFETY: The device is open.
        let cq = new(unsafe { ibv_create_cq(device.context.as_ptr(), 64, null, null, 0) }, "ibv_create_cq")?;
        let make = || {
            let mut attr = QpInitAttr {
                send_cq: Some(cq),
                recv_cq: Some(cq),
                cap: [16, 1, 1, 1, 0],
                // IBV_QPT_RC
                qp_type: 2,
                ..Default::default()
            };
            // SAFETY: The protection domain and the completion queue are of this device.
            new(unsafe { ibv_create_qp(device.pd.as_ptr(), &mut attr) }, "ibv_create_qp")
        };
        let [near, far] = [make()?, make()?];
        connect(device, near, far)?;
        connect(device, far, near)?;
        // INVARIANT: They are new, and nothing destroys them.
        Ok(Self { qps: [near, far], cq, mrs })
    }

    /// Reads `length` bytes from the beginning of the far memory to `at` of the near one, or writes them.
    pub(crate) fn transfer(&self, read: bool, at: usize, length: u32) -> Result<()> {
        let [near, far] = self.mrs.each_ref().map(Registered::mr);
        let mut sge = Sge { addr: near.addr as u64 + at as u64, length, lkey: near.lkey };
        let mut wr = SendWr {
            sg_list: Some(NonNull::from(&mut sge)),
            num_sge: 1,
            // IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE
            opcode: if read { 4 } else { 0 },
            // IBV_SEND_SIGNALED
            send_flags: 2,
            remote_addr: far.addr as u64,
            rkey: far.rkey,
            ..Default::default()
        };
        let name = if read { "READ" } else { "WRITE" };
        let (qp, cq, mut bad) = (self.qps[0].as_ptr(), self.cq.as_ptr(), ptr::null_mut());
        // SAFETY: By the invariant, and the device has the function. The request lives until the call returns; an
        // adapter that the MRs do not allow the access refuses it.
        let error = unsafe { ((*(*qp).context).post_send)(qp, &mut wr, &mut bad) };
        check_errno(error, "ibv_post_send")?;
        let mut wc = Wc { wr_id: 0, status: 0, rest: [0; 9] };
        let (begin, mut count) = (Instant::now(), 0);
        // Every request completes, a failed one with an error status. Emulated machines are slow.
        while count == 0 && begin.elapsed() < Duration::from_secs(20) {
            // SAFETY: By the invariant; `wc` has the size of one completion.
            count = unsafe { ((*(*cq).context).poll_cq)(cq, 1, &mut wc) };
        }
        ensure!(count != 0, "RDMA {name} of {length} bytes: no completion in time");
        ensure!(count == 1, "ibv_poll_cq: {count}");
        // SAFETY: The function returns a constant C string for each number.
        let text = unsafe { CStr::from_ptr(ibv_wc_status_str(wc.status)) };
        ensure!(wc.status == 0, "RDMA {name} of {length} bytes: {}", text.to_string_lossy());
        Ok(())
    }
}

fn connect(device: &Device, qp: NonNull<Qp>, peer: NonNull<Qp>) -> Result<()> {
    // The bits of `enum ibv_qp_attr_mask`.
    const STATES: [(&str, &[u32]); 3] = [
        // STATE, PKEY_INDEX, PORT, ACCESS_FLAGS
        ("INIT", &[0, 4, 5, 3]),
        // STATE, AV, PATH_MTU, DEST_QPN, RQ_PSN, MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER
        ("RTR", &[0, 7, 8, 20, 12, 17, 15]),
        // STATE, TIMEOUT, RETRY_CNT, RNR_RETRY, SQ_PSN, MAX_QP_RD_ATOMIC
        ("RTS", &[0, 9, 10, 11, 16, 13]),
    ];
    let (sgid_index, dgid) = device.gid()?;
    // CAST: A local identifier has 16 bits; Ethernet has none.
    let dlid = sys::number(device.port("lid")).unwrap_or(0) as u16;
    let mut attr = QpAttr {
        // All but IBV_ACCESS_LOCAL_WRITE
        qp_access_flags: 0xe,
        port_num: PORT,
        // 1024 bytes
        path_mtu: 3,
        // SAFETY: The other queue pair is one.
        dest_qp_num: unsafe { peer.as_ref() }.qp_num,
        ah_attr: AhAttr {
            dgid,
            sgid_index,
            hop_limit: 64,
            dlid,
            is_global: 1,
            port_num: PORT,
            ..Default::default()
        },
        max_dest_rd_atomic: 1,
        min_rnr_timer: 12,
        // 1 s, and 6 retries: soft RoCE retries for ever with a count of 7.
        timeout: 18,
        retry_cnt: 6,
        rnr_retry: 7,
        max_rd_atomic: 1,
        ..Default::default()
    };
    for (name, bits) in STATES {
        // IBV_QPS_INIT is 1.
        attr.qp_state += 1;
        let mask = bits.iter().fold(0, |mask, bit| mask | (1 << bit));
        // SAFETY: The queue pair is one.
        let error = unsafe { ibv_modify_qp(qp.as_ptr(), &mut attr, mask) };
        check_errno(error, format_args!("ibv_modify_qp to {name}"))?;
    }
    Ok(())
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
        assert_eq!([offset_of!(ibv_mr, rkey), offset_of!(QpAttr, timeout)], [40, 130]);
    }
}
