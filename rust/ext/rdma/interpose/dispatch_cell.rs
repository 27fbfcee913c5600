// SPDX-License-Identifier: GPL-2.0

//! When hooks are asked about a registration.

use crate::shared::bindings::rdma;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// When hooks are asked about a registration of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Dispatch {
    /// For each registration: the hooks decide whether the driver is called.
    ClientsFirst = rdma::ext_dispatch_EXT_DISPATCH_CLIENTS_FIRST,
    /// If the driver fails, or if the memory does not look like memory that the driver can pin. For
    /// on-demand memory the hooks are asked each time.
    DriverFirst = rdma::ext_dispatch_EXT_DISPATCH_DRIVER_FIRST,
    /// If the driver fails, or for on-demand memory.
    DriverOnly = rdma::ext_dispatch_EXT_DISPATCH_DRIVER_ONLY,
}

/// An atomic [`Dispatch`]. A concurrent registration uses the old or the new value.
#[repr(transparent)]
pub struct DispatchCell(Atomic<u32>);

impl DispatchCell {
    const MASK: u32 = rdma::ext_dispatch_EXT_DISPATCH_MASK;
    const WANTED: u32 = rdma::ext_dispatch_EXT_DISPATCH_WANTED;

    /// Creates a cell.
    pub const fn new(dispatch: Dispatch) -> Self {
        Self(Atomic::new(dispatch as u32))
    }

    /// Sets the value.
    ///
    /// Context: any.
    pub fn set(&self, dispatch: Dispatch) {
        let mut old = self.0.load(Relaxed);
        while let Err(now) = self
            .0
            .cmpxchg(old, old & !Self::MASK | dispatch as u32, Relaxed)
        {
            old = now;
        }
    }

    /// Turns the value [`Dispatch::DriverOnly`] into [`Dispatch::DriverFirst`], until [`Self::unwant`] has
    /// been called once for each call of this function.
    ///
    /// Context: any.
    pub fn want(&self) {
        self.0.add(Self::WANTED, Relaxed);
    }

    /// Reverts one [`Self::want`].
    ///
    /// Context: any.
    pub fn unwant(&self) {
        self.0.add(Self::WANTED.wrapping_neg(), Relaxed);
    }

    /// Returns the value.
    ///
    /// Context: any.
    pub fn get(&self) -> Dispatch {
        let word = self.0.load(Relaxed);
        match word & Self::MASK {
            n if n == Dispatch::ClientsFirst as u32 => Dispatch::ClientsFirst,
            n if n == Dispatch::DriverOnly as u32 && word < Self::WANTED => Dispatch::DriverOnly,
            _ => Dispatch::DriverFirst,
        }
    }

    /// Returns the C object.
    pub(super) fn as_ptr(&self) -> *const u32 {
        self.0.as_ptr()
    }
}
