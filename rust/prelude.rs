// SPDX-License-Identifier: GPL-2.0

//! What most modules use: the prelude of the `kernel` crate, with locks, references, atomics, time and
//! the conversion of errors.

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
