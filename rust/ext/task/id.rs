// SPDX-License-Identifier: GPL-2.0

//! The identity and the name of the current task.
//!
//! C header: [`include/linux/sched.h`](srctree/include/linux/sched.h).

use core::{
    ops::Deref,
    ptr,
    str, //
};
use kernel::{
    current,
    task::Task, //
};

/// A task, as a number. No other task has the number while the task runs. The number is not 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TaskId(pub usize);

impl TaskId {
    /// Returns the calling task.
    pub fn current() -> Self {
        let task: &Task = current!();
        Self(ptr::from_ref(task).addr())
    }

    /// Returns a number below `1 << bits` that spreads tasks evenly.
    pub const fn hash(self, bits: u32) -> usize {
        let product = (self.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // CAST: The shift leaves `bits` bits.
        (product >> (u64::BITS - bits)) as usize
    }
}

/// Size of `task_struct.comm`, with the NUL.
const COMM: usize = 16;

/// The name of a task.
///
/// A task chooses its name: bytes that are not printable ASCII are replaced by `?`.
///
/// # Invariants
///
/// The bytes before the first 0 are ASCII.
#[derive(Clone, Copy)]
pub struct Comm([u8; COMM]);

impl Comm {
    /// Returns the name of the current task.
    ///
    /// Context: any.
    pub fn current() -> Self {
        // SAFETY: The current task exists; only the address is taken.
        let comm = unsafe { &raw const (*Task::current_raw()).comm };
        let mut bytes = [0; COMM];
        for (i, byte) in bytes[..COMM - 1].iter_mut().enumerate() {
            // SAFETY: `i` is less than the length of the array, and the array lives as long as the
            // task. The read is volatile, as another task may change the name meanwhile.
            // CAST: `c_char` is `u8` in the kernel.
            *byte = unsafe { comm.cast::<u8>().add(i).read_volatile() };
        }
        Self::new(bytes)
    }

    /// Creates the name of a task whose `comm` is `bytes`.
    fn new(mut bytes: [u8; COMM]) -> Self {
        for byte in bytes.iter_mut().take_while(|byte| **byte != 0) {
            if !byte.is_ascii_graphic() && *byte != b' ' {
                *byte = b'?';
            }
        }
        // INVARIANT: The loop has replaced all other bytes.
        Self(bytes)
    }
}

impl Deref for Comm {
    type Target = str;

    fn deref(&self) -> &str {
        let len = self.0.iter().position(|&byte| byte == 0);
        str::from_utf8(&self.0[..len.unwrap_or(COMM)]).unwrap_or("?")
    }
}

#[cfg(ext_tests)]
#[kernel::macros::kunit_tests(ext_task)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    #[test]
    fn only_printable_characters_are_shown() {
        let mut bytes = [0; COMM];
        bytes[..6].copy_from_slice(b"a b\n\x80\t");
        assert_eq!(&*Comm::new(bytes), "a b???");
        assert_eq!(&*Comm::new([b'x'; COMM]), "xxxxxxxxxxxxxxxx");
    }

    #[test]
    fn the_current_task_has_a_name() {
        assert!(!Comm::current().is_empty());
    }
}
