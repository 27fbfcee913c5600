// SPDX-License-Identifier: GPL-2.0

//! The umem backend: the driver pins the memory like host memory, and a hook on the functions of
//! ib_core that pin user memory turns the memory into a dma-buf. See
//! [`crate::ext::rdma::UmemHook`].
//!
//! The hook serves whatever a driver pins: MRs, queue buffers, doorbell pages. A umem cannot be
//! fenced, so only clients that do not require invalidation are asked. The end of the umem ends the
//! region.
//!
//! This module has the state of the hook: the module that places the hook sets the state, and the
//! choice of a backend and debugfs read the state. Context: any.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// The state of the hook: 0 if it is placed, else the errno.
static HOOK: Atomic<i32> = Atomic::new(-1);

pub(crate) fn set_state(state: Result) {
    HOOK.store(state.err().map_or(0, Error::to_errno), Relaxed);
}

pub(crate) fn state() -> Result {
    kernel::error::to_result(HOOK.load(Relaxed))
}
