// SPDX-License-Identifier: GPL-2.0
//
// A region is released in any task: it must not contain data of one task.
//
// expect: error[E0277]: `*mut u8` cannot be sent between threads safely
// expect: error[E0277]: `*mut u8` cannot be shared between threads safely

/// A claimed range with a pointer that belongs to a task.
pub struct Region(pub *mut u8);

client!(
    Mine,
    Region = Region,
    acquire = Region(core::ptr::null_mut())
);
peer_client_slot!(Mine);
