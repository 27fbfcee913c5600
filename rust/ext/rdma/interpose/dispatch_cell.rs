// SPDX-License-Identifier: GPL-2.0

//! When hooks are asked about a registration.

use crate::shared::prelude::raw::*;

/// When hooks are asked about a registration of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Dispatch {
    /// For each registration: the hooks decide whether the driver is called.
    ClientsFirst = rdma::ext_dispatch_EXT_DISPATCH_CLIENTS_FIRST,
    /// If the driver fails, or if the memory does not look like memory that the driver can pin. For
    /// on-demand memory the hooks are asked each time.
    DriverFirst = rdma::ext_dispatch_EXT_DISPATCH_DRIVER_FIRST,
    /// If the driver fails, or for on-demand memory.
    DriverOnly = rdma::ext_dispatch_EXT_DISPATCH_DRIVER_ONLY,
}

/// An atomic [`Dispatch`]. A concurrent registration uses the old or the new value.
///
/// # Invariants
///
/// The layout is that of the C structure. The counts are those of the [`Wanted`]s of the cell.
#[repr(C)]
pub struct DispatchCell {
    word: Atomic<u32>,
    spaces: [Atomic<u32>; SPACES],
}

const SPACES: usize = 1 << rdma::EXT_DISPATCH_SPACE_BITS;

/// Returns the address of the current task's `mm_struct`, or 0 in a kernel thread.
fn current_mm() -> usize {
    let task = current!();
    task.mm().map_or(0, |mm| mm.as_raw().addr())
}

/// The wish that the tasks of an address space get [`Dispatch::DriverFirst`] in place of
/// [`Dispatch::DriverOnly`]. Drop withdraws the wish.
pub struct Wanted {
    cell: &'static DispatchCell,
    mm: usize,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        // INVARIANT: One less.
        self.cell.word.add(WANTED.wrapping_neg(), Relaxed);
        self.cell.space(self.mm).add(1_u32.wrapping_neg(), Relaxed);
    }
}

const MASK: u32 = rdma::ext_dispatch_EXT_DISPATCH_MASK;
const WANTED: u32 = rdma::ext_dispatch_EXT_DISPATCH_WANTED;

impl DispatchCell {
    pub const fn new(dispatch: Dispatch) -> Self {
        // INVARIANT: There is no `Wanted`.
        Self {
            word: Atomic::new(dispatch as u32),
            spaces: [const { Atomic::new(0) }; SPACES],
        }
    }

    pub fn set(&self, dispatch: Dispatch) {
        let mut old = self.word.load(Relaxed);
        while let Err(now) = self
            .word
            .cmpxchg(old, old & !MASK | dispatch as u32, Relaxed)
        {
            old = now;
        }
    }

    fn space(&self, mm: usize) -> &Atomic<u32> {
        // SAFETY: The function only computes.
        let space = unsafe { rdma::ext_dispatch_space(mm) };
        // CAST: `usize` has at least 32 bits.
        &self.spaces[space as usize % SPACES]
    }

    /// Turns the value [`Dispatch::DriverOnly`] into [`Dispatch::DriverFirst`] for the tasks of the
    /// current address space, and of a few others.
    pub fn want(&'static self) -> Wanted {
        self.want_for(current_mm())
    }

    fn want_for(&'static self, mm: usize) -> Wanted {
        // INVARIANT: One more.
        self.space(mm).add(1, Relaxed);
        self.word.add(WANTED, Relaxed);
        Wanted { cell: self, mm }
    }

    /// Returns whether the current address space may have a [`Wanted`]. `false` is certain.
    pub fn may_be_wanted(&self) -> bool {
        self.word.load(Relaxed) >= WANTED && self.space(current_mm()).load(Relaxed) != 0
    }

    /// Returns the value for the current task.
    pub fn get(&self) -> Dispatch {
        self.of(current_mm())
    }

    /// Returns the value for the tasks of an address space.
    fn of(&self, mm: usize) -> Dispatch {
        // SAFETY: The cell is valid.
        match unsafe { rdma::ext_dispatch_of(self.as_ptr(), mm) } {
            rdma::ext_dispatch_EXT_DISPATCH_CLIENTS_FIRST => Dispatch::ClientsFirst,
            rdma::ext_dispatch_EXT_DISPATCH_DRIVER_ONLY => Dispatch::DriverOnly,
            _ => Dispatch::DriverFirst,
        }
    }

    pub(super) fn as_ptr(&self) -> *const rdma::ext_dispatch_cell {
        // By the type invariants the layout is the same.
        ptr::from_ref(self).cast()
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_dispatch_cell)]
mod tests {
    use super::*;

    /// The names of one process do not change the path of the others.
    #[test]
    fn an_address_space_wants_for_itself() {
        static CELL: DispatchCell = DispatchCell::new(Dispatch::DriverOnly);
        let mm = |i: usize| 0xffff_8880_0000_0000 + 0x1000 * i;
        let wanted = CELL.want_for(mm(0));
        let own = CELL.of(mm(0));
        // Some have the same hash.
        let others = (1..100).filter(|i| CELL.of(mm(*i)) != Dispatch::DriverOnly);
        let many = others.count() > 2;
        CELL.set(Dispatch::ClientsFirst);
        let clients = (CELL.of(mm(0)), CELL.of(mm(1)));
        CELL.set(Dispatch::DriverOnly);
        drop(wanted);
        assert_eq!(own, Dispatch::DriverFirst);
        assert!(!many);
        assert_eq!(clients, (Dispatch::ClientsFirst, Dispatch::ClientsFirst));
        assert_eq!(CELL.of(mm(0)), Dispatch::DriverOnly);
    }
}
