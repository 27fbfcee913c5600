// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The declarations of `iopm.h`, and the types of `<infiniband/verbs.h>` that it uses.

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
    /// 0: no further members are valid.
    pub comp_mask: u32,
    /// Size of the BAR's memory, in bytes.
    pub max_dm_size: u64,
    /// Free bytes.
    pub free_dm_size: u64,
    /// Largest free range, in bytes.
    pub largest_dm_size: u64,
    /// Allocations are rounded up to this.
    pub dm_page_size: u64,
}

/// `struct iopm_alloc_dm_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AllocDmAttr {
    /// Length in bytes.
    pub length: usize,
    /// Log base 2 of the address alignment.
    pub log_align_req: u32,
    /// Must be 0.
    pub comp_mask: u32,
}

/// `struct iopm_dm`.
#[repr(C)]
pub struct Dm {
    /// The context of the allocation; may be null for an import.
    pub context: *mut Context,
    /// Mask of the valid members below.
    pub comp_mask: u32,
    /// The open file.
    pub handle: u32,
}

/// `struct ibv_pd`, opaque.
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
    /// Length in bytes.
    pub length: usize,
    _handle: u32,
    /// For local use.
    pub lkey: u32,
    /// For remote use.
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
