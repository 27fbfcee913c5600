// SPDX-License-Identifier: GPL-2.0

//! The operations of a device with one InfiniBand port that all test devices share.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each operation is that of its field in `struct ib_device_ops`"
)]

use crate::bindings::rdma;
use core::mem::size_of;
use kernel::ffi::c_int;

/// The defaults for a device's own operations.
pub(crate) const OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    query_port: Some(query_port),
    get_port_immutable: Some(get_port_immutable),
    query_gid: Some(query_gid),
    query_pkey: Some(query_pkey),
    dealloc_ucontext: Some(no_ucontext),
    alloc_pd: Some(no_pd),
    dealloc_pd: Some(no_pd),
    size_ib_pd: size_of::<rdma::ib_pd>(),
    ..pin_init::zeroed()
};

unsafe extern "C" fn query_port(
    _dev: *mut rdma::ib_device,
    _port: u32,
    attr: *mut rdma::ib_port_attr,
) -> c_int {
    // SAFETY: ib_core passes attributes to fill in.
    let attr = unsafe { &mut *attr };
    attr.state = rdma::ib_port_state_IB_PORT_ACTIVE;
    attr.max_mtu = rdma::ib_mtu_IB_MTU_4096;
    attr.active_mtu = rdma::ib_mtu_IB_MTU_4096;
    attr.gid_tbl_len = 1;
    attr.pkey_tbl_len = 1;
    attr.lid = 1;
    attr.sm_lid = 1;
    attr.active_width = 1;
    attr.active_speed = 1;
    0
}

unsafe extern "C" fn get_port_immutable(
    _dev: *mut rdma::ib_device,
    _port: u32,
    immutable: *mut rdma::ib_port_immutable,
) -> c_int {
    // SAFETY: ib_core passes a structure to fill in.
    let immutable = unsafe { &mut *immutable };
    immutable.pkey_tbl_len = 1;
    immutable.gid_tbl_len = 1;
    // Without IB management, so that ib_core makes no agents.
    immutable.core_cap_flags = rdma::RDMA_CORE_CAP_PROT_IB;
    0
}

unsafe extern "C" fn query_gid(
    _dev: *mut rdma::ib_device,
    _port: u32,
    _index: c_int,
    gid: *mut rdma::ib_gid,
) -> c_int {
    // SAFETY: ib_core passes a GID to fill in.
    unsafe { (*gid).raw = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] };
    0
}

unsafe extern "C" fn query_pkey(
    _dev: *mut rdma::ib_device,
    _port: u32,
    _index: u16,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: ib_core passes a key to fill in.
    unsafe { pkey.write(0xffff) };
    0
}

/// The device keeps nothing in a context.
pub(crate) unsafe extern "C" fn no_ucontext(_context: *mut rdma::ib_ucontext) {}

/// The device keeps nothing in a PD.
unsafe extern "C" fn no_pd(_pd: *mut rdma::ib_pd, _udata: *mut rdma::ib_udata) -> c_int {
    0
}
