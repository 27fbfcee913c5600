// SPDX-License-Identifier: GPL-2.0

//! The functions of ib_core that pin user memory, as the kernel has them: how they are redirected, and
//! how a dma-buf becomes a umem.

#[cfg(have_umem_desc)]
mod desc;
// Up to 7.1.
#[cfg(not(have_umem_desc))]
mod get;

#[cfg(have_umem_desc)]
pub(super) use self::desc::*;
#[cfg(not(have_umem_desc))]
pub(super) use self::get::*;
