// SPDX-License-Identifier: GPL-2.0

//! The functions of ib_core that the hook redirects. They differ between kernels: `by_address` is
//! removed together with 7.1.

#[cfg(not(has_umem_desc))]
mod by_address;
#[cfg(has_umem_desc)]
mod by_desc;

#[cfg(not(has_umem_desc))]
pub(super) use self::by_address::*;
#[cfg(has_umem_desc)]
pub(super) use self::by_desc::*;
