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
    /// Each time: they decide whether the driver is called.
    Always = rdma::ext_asked_EXT_ASKED_ALWAYS,
    /// If the driver fails, or if the memory does not look like memory that it can pin. For memory on
    /// demand they are asked each time.
    AfterDriver = rdma::ext_asked_EXT_ASKED_AFTER_DRIVER,
    /// If the driver fails, or for memory on demand.
    Never = rdma::ext_asked_EXT_ASKED_NEVER,
}

/// An [`Asked`] that can change at any time. A registration meanwhile is one before or after that.
///
/// # Examples
///
/// ```
/// use crate::ext::rdma::{Asked, AskedCell};
///
/// static ASKED: AskedCell = AskedCell::new(Asked::Never);
///
/// ASKED.set(Asked::AfterDriver);
/// assert_eq!(ASKED.get(), Asked::AfterDriver);
/// ```
#[repr(transparent)]
pub struct AskedCell(Atomic<u32>);

impl AskedCell {
    /// Creates a cell.
    pub const fn new(asked: Asked) -> Self {
        Self(Atomic::new(asked as u32))
    }

    /// Sets the value.
    ///
    /// Context: any.
    pub fn set(&self, asked: Asked) {
        self.0.store(asked as u32, Relaxed);
    }

    /// Returns the value.
    ///
    /// Context: any.
    pub fn get(&self) -> Asked {
        match self.0.load(Relaxed) {
            n if n == Asked::Never as u32 => Asked::Never,
            n if n == Asked::AfterDriver as u32 => Asked::AfterDriver,
            _ => Asked::Always,
        }
    }

    /// Returns the C object.
    pub(super) fn as_ptr(&self) -> *const u32 {
        self.0.as_ptr()
    }
}
