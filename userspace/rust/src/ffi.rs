// SPDX-License-Identifier: GPL-2.0

//! `iopm.h`, and the few of `<infiniband/verbs.h>` that go with it.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `struct iopm_context`.
#[repr(C)]
pub struct Context {
    /// The open file.
    pub cmd_fd: c_int,
}

/// `struct iopm_device_attr_ex`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeviceAttr {
    /// 0: there is no more than this.
    pub comp_mask: u32,
    /// Bytes that can be allocated at most.
    pub max_dm_size: u64,
    /// Bytes that nobody has now.
    pub free_dm_size: u64,
    /// The most of these that are in one piece.
    pub largest_dm_size: u64,
    /// What allocations are rounded up to.
    pub dm_page_size: u64,
}

/// `struct iopm_alloc_dm_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AllocDmAttr {
    /// Bytes.
    pub length: usize,
    /// The binary logarithm of what the address shall be a multiple of.
    pub log_align_req: u32,
    /// Must be 0.
    pub comp_mask: u32,
}

/// `struct iopm_dm`.
#[repr(C)]
pub struct Dm {
    /// What it was allocated from; null where it was imported without.
    pub context: *mut Context,
    /// What is valid of the rest.
    pub comp_mask: u32,
    /// The open file.
    pub handle: u32,
}

/// `struct ibv_pd`, of which nothing is needed.
#[repr(C)]
pub struct IbvPd {
    _opaque: [u8; 0],
}

/// `struct ibv_mr`.
#[repr(C)]
pub struct IbvMr {
    _context: *mut c_void,
    _pd: *mut IbvPd,
    _addr: *mut c_void,
    /// Bytes.
    pub length: usize,
    _handle: u32,
    /// For local use.
    pub lkey: u32,
    /// For use by the other end.
    pub rkey: u32,
}

#[link(name = "iopm", kind = "static")]
extern "C" {
    pub fn iopm_open_device(path: *const c_char) -> *mut Context;
    pub fn iopm_close_device(context: *mut Context) -> c_int;
    pub fn iopm_query_device_ex(
        context: *mut Context,
        input: *const c_void,
        attr: *mut DeviceAttr,
    ) -> c_int;
    pub fn iopm_alloc_dm(context: *mut Context, attr: *mut AllocDmAttr) -> *mut Dm;
    pub fn iopm_free_dm(dm: *mut Dm) -> c_int;
    pub fn iopm_memcpy_to_dm(
        dm: *mut Dm,
        dm_offset: u64,
        host_addr: *const c_void,
        length: usize,
    ) -> c_int;
    pub fn iopm_memcpy_from_dm(
        host_addr: *mut c_void,
        dm: *mut Dm,
        dm_offset: u64,
        length: usize,
    ) -> c_int;
    pub fn iopm_import_dm(context: *mut Context, dm_handle: u32) -> *mut Dm;
    pub fn iopm_unimport_dm(dm: *mut Dm);
    pub fn iopm_reg_dm_mr(
        pd: *mut IbvPd,
        dm: *mut Dm,
        dm_offset: u64,
        length: usize,
        access: c_uint,
    ) -> *mut IbvMr;
}

#[link(name = "ibverbs")]
extern "C" {
    pub fn ibv_dereg_mr(mr: *mut IbvMr) -> c_int;
}
