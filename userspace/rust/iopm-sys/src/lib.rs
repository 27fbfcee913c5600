// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The declarations of `iopm.h`, version 1.0, and the types of `<infiniband/verbs.h>` that it uses.
//! The manual pages `iopm_alloc_dm(3)` and `iopm_get_device_list(3)` describe them.

#![no_std]
#![allow(non_camel_case_types, missing_docs)]

use core::ffi::{c_char, c_int, c_uint, c_void};

#[repr(C)]
pub struct iopm_device {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct iopm_context {
    pub cmd_fd: c_int,
}

#[repr(C)]
pub struct iopm_query_device_ex_input {
    pub comp_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct iopm_device_attr_ex {
    pub comp_mask: u32,
    pub max_dm_size: u64,
    pub free_dm_size: u64,
    pub largest_dm_size: u64,
    pub dm_page_size: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct iopm_alloc_dm_attr {
    pub length: usize,
    pub log_align_req: u32,
    pub comp_mask: u32,
    pub flags: u32,
}

pub const IOPM_ALLOC_DM_MASK_FLAGS: u32 = 1 << 0;

pub const IOPM_ALLOC_DM_ZERO: u32 = 1 << 0;

pub const IOPM_DM_MASK_HANDLE: u32 = 1 << 0;

#[repr(C)]
pub struct iopm_dm {
    pub context: *mut iopm_context,
    pub comp_mask: u32,
    pub handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct iopm_pci_address {
    pub domain: u32,
    pub bdf: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct iopm_dm_attr {
    pub comp_mask: u32,
    pub bar: u32,
    pub function: iopm_pci_address,
    pub length: u64,
    pub size: u64,
    pub bar_offset: u64,
    pub mmap_wc: u64,
}

pub const IOPM_DM_ATTR_MMAP_WC: u32 = 1 << 0;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct iopm_range {
    pub comp_mask: u32,
    pub reserved: u32,
    pub bar_offset: u64,
    pub length: u64,
}

pub const IOPM_NEAREST_DISTANCE: u32 = 1 << 0;
pub const IOPM_NEAREST_PROVIDER: u32 = 1 << 1;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct iopm_nearest {
    pub comp_mask: u32,
    pub distance: u32,
    pub provider_distance: u32,
    pub provider: iopm_pci_address,
}

#[repr(C)]
pub struct ibv_pd {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct ibv_mr {
    _context: *mut c_void,
    _pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    _handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

extern "C" {
    pub fn iopm_version() -> *const c_char;
    pub fn iopm_get_device_list(num_devices: *mut c_int) -> *mut *mut iopm_device;
    pub fn iopm_free_device_list(list: *mut *mut iopm_device);
    pub fn iopm_get_device_name(device: *mut iopm_device) -> *const c_char;
    pub fn iopm_get_device_path(device: *mut iopm_device) -> *const c_char;
    pub fn iopm_get_device_address(
        device: *mut iopm_device,
        address: *mut iopm_pci_address,
    ) -> c_int;
    pub fn iopm_open_device(device: *mut iopm_device) -> *mut iopm_context;
    pub fn iopm_open_path(path: *const c_char) -> *mut iopm_context;
    pub fn iopm_close_device(context: *mut iopm_context) -> c_int;
    pub fn _iopm_query_device_ex(
        context: *mut iopm_context,
        input: *const iopm_query_device_ex_input,
        attr: *mut iopm_device_attr_ex,
        attr_size: usize,
    ) -> c_int;
    pub fn _iopm_query_nearest(
        context: *mut iopm_context,
        device: *const iopm_pci_address,
        nearest: *mut iopm_nearest,
        nearest_size: usize,
    ) -> c_int;
    pub fn _iopm_query_range(
        context: *mut iopm_context,
        addr: *const c_void,
        range: *mut iopm_range,
        range_size: usize,
    ) -> c_int;
    pub fn iopm_alloc_dm(context: *mut iopm_context, attr: *mut iopm_alloc_dm_attr)
        -> *mut iopm_dm;
    pub fn iopm_free_dm(dm: *mut iopm_dm) -> c_int;
    pub fn iopm_memcpy_to_dm(
        dm: *mut iopm_dm,
        dm_offset: u64,
        host_addr: *const c_void,
        length: usize,
    ) -> c_int;
    pub fn iopm_memcpy_from_dm(
        host_addr: *mut c_void,
        dm: *mut iopm_dm,
        dm_offset: u64,
        length: usize,
    ) -> c_int;
    pub fn iopm_import_dm(context: *mut iopm_context, dm_handle: u32) -> *mut iopm_dm;
    pub fn iopm_unimport_dm(dm: *mut iopm_dm);
    pub fn _iopm_query_dm(dm: *mut iopm_dm, attr: *mut iopm_dm_attr, attr_size: usize) -> c_int;
    pub fn iopm_export_dmabuf(dm: *mut iopm_dm, dm_offset: u64, length: usize) -> c_int;
    pub fn iopm_reg_dm_mr(
        pd: *mut ibv_pd,
        dm: *mut iopm_dm,
        dm_offset: u64,
        length: usize,
        access: c_uint,
    ) -> *mut ibv_mr;
    pub fn iopm_register_dmabuf(
        addr: *const c_void,
        length: usize,
        fd: c_int,
        offset: u64,
    ) -> c_int;
    pub fn iopm_unregister_dmabuf(addr: *const c_void, length: usize) -> c_int;

    pub fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
}
