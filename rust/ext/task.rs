// SPDX-License-Identifier: GPL-2.0

//! Tasks and address spaces, and the kernel code that tasks execute.

pub(super) mod calls;
pub(super) mod id;
pub mod per_mm;
pub mod return_probe;
pub(super) mod task_value;
pub mod trace;
pub mod worker;

pub use self::{
    calls::TextRef,
    id::{
        Comm,
        TaskId, //
    },
};
