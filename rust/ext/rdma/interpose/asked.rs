// SPDX-License-Identifier: GPL-2.0

//! When hooks are asked about a registration.

use super::super::super::bindings::rdma;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// When hooks are asked about a registration of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Asked {
    /// For each registration: the hooks decide whether the driver is called.
    Always = rdma::ext_asked_EXT_ASKED_ALWAYS,
    /// If the driver fails, or if the memory does not look like memory that the driver can pin. For
    /// on-demand memory the hooks are asked each time.
    AfterDriver = rdma::ext_asked_EXT_ASKED_AFTER_DRIVER,
    /// If the driver fails, or for on-demand memory.
    Never = rdma::ext_asked_EXT_ASKED_NEVER,
}

/// An atomic [`Asked`]. A concurrent registration uses the old or the new value.
///
/// # Examples
///
/// ```
/// use crate::ext::rdma::{Asked, AskedCell};
///
/// static ASKED: AskedCell = AskedCell::new(Asked::Never);
///
/// ASKED.want();
/// assert_eq!(ASKED.get(), Asked::AfterDriver);
/// ASKED.set(Asked::Always);
/// ASKED.unwant();
/// assert_eq!(ASKED.get(), Asked::Always);
/// ```
#[repr(transparent)]
pub struct AskedCell(Atomic<u32>);

impl AskedCell {
    const MASK: u32 = rdma::ext_asked_EXT_ASKED_MASK;
    const WANTED: u32 = rdma::ext_asked_EXT_ASKED_WANTED;

    /// Creates a cell.
    pub const fn new(asked: Asked) -> Self {
        Self(Atomic::new(asked as u32))
    }

    /// Sets the value.
    ///
    /// Context: any.
    pub fn set(&self, asked: Asked) {
        let mut old = self.0.load(Relaxed);
        while let Err(now) = self
            .0
            .cmpxchg(old, old & !Self::MASK | asked as u32, Relaxed)
        {
            old = now;
        }
    }

    /// Turns the value [`Asked::Never`] into [`Asked::AfterDriver`], until [`Self::unwant`] has
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
    pub fn get(&self) -> Asked {
        let word = self.0.load(Relaxed);
        match word & Self::MASK {
            n if n == Asked::Always as u32 => Asked::Always,
            n if n == Asked::Never as u32 && word < Self::WANTED => Asked::Never,
            _ => Asked::AfterDriver,
        }
    }

    /// Returns the C object.
    pub(super) fn as_ptr(&self) -> *const u32 {
        self.0.as_ptr()
    }
}
