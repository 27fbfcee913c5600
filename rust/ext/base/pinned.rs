// SPDX-License-Identifier: GPL-2.0

//! Pinning user memory: whether a driver can pin memory ([`can_pin`], [`MemoryKind`]), and pinned
//! peer-to-peer memory (`Pages`).
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h).

#[cfg(ext_p2pdma)]
mod pin;

#[cfg(ext_p2pdma)]
pub use self::pin::Pages;

use super::compat;
use crate::shared::bindings::helpers;
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Returns whether a driver's error can mean that the memory cannot be pinned.
///
/// A page walk fails with `EFAULT` (nothing mapped, or memory without struct pages), `EREMOTEIO`
/// (peer-to-peer memory) or `EOPNOTSUPP`. The limit on locked memory is checked before the pages
/// are looked at: `ENOMEM`, `EPERM`. Drivers return `EINVAL` as well.
pub fn could_not_pin(e: Error) -> bool {
    [
        EFAULT,
        ENOMEM,
        EPERM,
        EINVAL,
        compat::eremoteio(),
        compat::eopnotsupp(),
    ]
    .contains(&e)
}

/// Returns whether the page at `addr` in the calling process can be pinned as RDMA drivers pin host
/// memory: for long, and with `write` for writing. Returns `true` in a kernel thread. Context:
/// process context; may sleep. Takes `mmap_lock`.
pub fn can_pin(addr: usize, write: bool) -> bool {
    let task: &kernel::task::CurrentTask = current!();
    if task.mm().is_none() {
        return true;
    }
    let mut flags = bindings::FOLL_LONGTERM;
    if write {
        flags |= bindings::FOLL_WRITE;
    }
    let mut page: *mut bindings::page = core::ptr::null_mut();
    // SAFETY: There is room for one pointer, and the task has an mm.
    let pinned =
        unsafe { bindings::pin_user_pages_fast(addr & !(PAGE_SIZE - 1), 1, flags, &mut page) };
    if pinned != 1 {
        return false;
    }
    // SAFETY: The call above pinned this page.
    unsafe { bindings::unpin_user_page(page) };
    true
}

/// Returns an address of the calling process without the bits that the CPU ignores (LAM, TBI), as
/// the kernel does before pinning memory. Context: process context.
#[inline]
pub fn untagged(addr: u64) -> u64 {
    // CAST: An address of this machine has the size of `usize`. Larger values are no address of a
    // process.
    // SAFETY: The function reads the mask of the calling process, for any address.
    unsafe { helpers::ext_untagged_addr(addr as usize) as u64 }
}

/// Returns the first address of the kernel. Lower addresses are of a process, or not canonical.
pub fn kernel_half() -> usize {
    // SAFETY: The function only computes.
    unsafe { helpers::ext_kernel_half() }
}

/// What is mapped at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// Not known without a page fault, or not writable.
    Unknown,
    /// Memory that can be pinned.
    Ordinary,
    /// Peer-to-peer memory, or memory without struct pages. RDMA drivers cannot pin such memory.
    Device,
}

impl MemoryKind {
    /// Returns what the calling process has mapped at `addr`.
    ///
    /// Reads only the page tables, at a tenth of the cost of [`can_pin`]. The answer is a hint: the
    /// mapping can change at any time. Context: process context.
    #[inline]
    pub fn at(addr: usize) -> Self {
        // SAFETY: The function reads the page tables of the calling process, for any address.
        Self::from_raw(unsafe { helpers::ext_memory_at(addr) })
    }

    /// Returns the kind that an `enum ext_memory` stands for.
    pub fn from_raw(memory: helpers::ext_memory) -> Self {
        match memory {
            helpers::ext_memory_EXT_MEMORY_ORDINARY => Self::Ordinary,
            helpers::ext_memory_EXT_MEMORY_DEVICE => Self::Device,
            _ => Self::Unknown,
        }
    }
}
