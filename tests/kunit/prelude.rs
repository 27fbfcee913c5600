// SPDX-License-Identifier: GPL-2.0

//! The vocabulary of the fakes and the suites.

pub(crate) use crate::{
    bindings::{
        helpers as shared,
        rdma, //
    },
    client::*,
    counters,
    device::*,
    expect::{
        diagnostic,
        ensure,
        ensure_eq, //
    },
    fixture::*,
    helpers,
    importer::Mode,
    peer,
    script::*,
    sizes::*,
    sync::*,
    testbed::Testbed,
    user::{
        self,
        *, //
    },
    waits::Waits, //
};
pub(crate) use core::{
    mem,
    ops::Range,
    ptr, //
};
pub(crate) use kernel::{
    bindings,
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    new_mutex, new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
};
