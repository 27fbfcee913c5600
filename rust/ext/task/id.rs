// SPDX-License-Identifier: GPL-2.0

//! The identity and the name of the current task.

use crate::shared::prelude::*;
use core::fmt::{
    self,
    Write, //
};
use kernel::{
    current,
    task::Task, //
};

/// A task, as a number. No other task has the number while the task runs. The number is not 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TaskId(pub usize);

impl TaskId {
    pub fn current() -> Self {
        let task: &Task = current!();
        Self(ptr::from_ref(task).addr())
    }
}

/// Returns a number below `1 << bits` that spreads addresses evenly.
pub const fn hash(address: usize, bits: u32) -> usize {
    let product = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // CAST: The shift leaves `bits` bits.
    (product >> (u64::BITS - bits)) as usize
}

/// Size of `task_struct.comm`, with the NUL.
const COMM: usize = 16;

/// The name of a task. [`fmt::Display`] replaces what is not printable ASCII by `?`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Comm([u8; COMM]);

impl Comm {
    pub fn current() -> Self {
        // SAFETY: The current task exists; only the address is taken.
        let comm = unsafe { &raw const (*Task::current_raw()).comm };
        // SAFETY: The array lives as long as the task. The read is volatile, as another task may change
        // the name meanwhile.
        // CAST: `c_char` is `u8` in the kernel.
        Self(unsafe { comm.cast::<[u8; COMM]>().read_volatile() })
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take_while(|byte| **byte != 0) {
            let shown = byte.is_ascii_graphic() || byte == b' ';
            f.write_char(if shown { char::from(byte) } else { '?' })?;
        }
        Ok(())
    }
}

#[cfg(ext_tests)]
#[kernel::macros::kunit_tests(ext_task)]
mod tests {
    use super::*;
    use kernel::{
        prelude::*,
        str::CString, //
    };

    #[test]
    fn only_printable_characters_are_shown() -> Result {
        let mut bytes = [0; COMM];
        bytes[..6].copy_from_slice(b"a b\n\x80\t");
        let shown = CString::try_from_fmt(format_args!("{}", Comm(bytes)))?;
        assert_eq!(shown.to_bytes(), b"a b???");
        let shown = CString::try_from_fmt(format_args!("{}", Comm([b'x'; COMM])))?;
        assert_eq!(shown.to_bytes(), b"xxxxxxxxxxxxxxxx");
        Ok(())
    }

    #[test]
    fn the_current_task_has_a_name() {
        assert!(Comm::current() != Comm([0; COMM]));
    }
}
