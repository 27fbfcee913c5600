// SPDX-License-Identifier: GPL-2.0

//! What most modules use: the prelude of the `kernel` crate, with locks, references, atomics, time,
//! the conversion of errors, and lines of the log at a limited rate.

pub use crate::{
    dev_err_limited,
    pr_err_limited,
    pr_warn_limited, //
};
pub use core::{
    marker::PhantomData,
    mem,
    ops::Range,
    ptr::{
        self,
        NonNull, //
    }, //
};
pub use kernel::{
    container_of,
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    fmt, new_condvar, new_mutex, new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    str::CString,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        ArcBorrow,
        CondVar,
        Mutex,
        SetOnce,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
    types::{
        ForeignOwnable,
        Opaque, //
    },
};

/// The same, with the functions and structures of C, devices and PCI functions: for abstractions.
pub mod raw {
    pub use super::*;
    pub use crate::shared::bindings::helpers;
    #[cfg(any(ext_rdma, bindings_rdma))]
    pub use crate::shared::bindings::rdma;
    pub use kernel::{
        bindings,
        device::{
            self,
            Bound, //
        },
        pci, //
    };
}
