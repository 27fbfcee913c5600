// SPDX-License-Identifier: GPL-2.0

//! Named ranges: addresses that a process has declared to be a part of a dma-buf.
//!
//! Memory of a GPU is not always mapped, or the mapping does not show the dma-buf. So a memory
//! allocator can name a range: say of which dma-buf the range is a part. [`Names`] has the names of
//! one address space. The ioctls add, remove and query names, and the dispatch looks ranges up by
//! [`find`].
//!
//! Names belong to the address space: `fork()` does not copy names, and the end of the address
//! space removes the names.
//!
//! Context: process context; may sleep. `Names::ranges` is a leaf lock. [`add`] takes the
//! `mmap_lock` as well, before `Names::ranges` and not at the same time.

mod ranges;

use crate::{
    ext::{
        dma_buf::{
            Buffer,
            NoPart, //
        },
        rdma::Wanted,
        task::per_mm::{
            self,
            PerMm, //
        }, //
    },
    policy::order::DISPATCH,
    prelude::*, //
};
use ranges::{
    Ranges,
    Removed,
    Target, //
};

#[pin_data]
pub(crate) struct Names {
    /// A leaf lock, held for a look-up or a change. Names are dropped without the lock.
    #[pin]
    ranges: Mutex<Ranges<Buffer>>,
}

/// An address space with names. Drop removes the names; the MRs by name keep the empty [`Names`].
pub(crate) struct Space {
    names: Arc<Names>,
    /// Makes the registrations of the address space look for names.
    _wanted: Wanted,
}

impl Drop for Space {
    fn drop(&mut self) {
        let ranges = mem::replace(&mut *self.names.ranges.lock(), Ranges::new());
        drop(ranges);
    }
}

/// A range whose names may end.
#[derive(Clone)]
pub(crate) struct Watched {
    names: Arc<Names>,
    range: VaRange,
}

impl Watched {
    /// Returns whether the range still has names, those of [`find`] or newer ones. Context: may sleep.
    pub(crate) fn is_named(&self) -> bool {
        self.names.ranges.lock().cover(self.range)
    }
}

/// The address spaces with names, for the loaded module.
static SPACES: Snapshot<PerMm<Space>> = Snapshot::new();

/// The most names in an address space, without the parameter.
const LIMIT: usize = 65_536;

static MAX_NAMES: Atomic<usize> = Atomic::new(LIMIT);

impl Space {
    /// Creates the calling process's address space, without names.
    fn new() -> Result<Arc<Self>> {
        let names = pin_init!(Names {
            ranges <- new_mutex!(Ranges::new(), "Names::ranges"),
        });
        let space = Self {
            names: Arc::pin_init(names, GFP_KERNEL_ACCOUNT)?,
            _wanted: DISPATCH.want(),
        };
        Ok(Arc::new(space, GFP_KERNEL_ACCOUNT)?)
    }
}

/// The open registry of names. Dropping the registry removes all names, and waits until the kernel
/// no longer calls this module about their address spaces.
pub(crate) type Open = Published<PerMm<Space>>;

/// Starts to accept names. Context: may sleep.
pub(crate) fn open() -> Result<Open> {
    Ok(SPACES.publish(Arc::new(PerMm::new()?, GFP_KERNEL)?))
}

/// Reads the module parameter, which does not change after the module is loaded.
pub(crate) fn read_parameter() -> Result {
    let text = params::string(c"max_names");
    let limit = parse_limit(text).ok_or(EINVAL).inspect_err(|_| {
        pr_err!("max_names={}: not a number\n", text);
    })?;
    MAX_NAMES.store(limit, Relaxed);
    Ok(())
}

fn parse_limit(text: &str) -> Option<usize> {
    if text.is_empty() {
        return Some(LIMIT);
    }
    // `parse` accepts a sign.
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Returns whether the calling process may have names. `false` is certain. Context: any.
pub(crate) fn may_exist() -> bool {
    DISPATCH.may_be_wanted()
}

fn names() -> Option<Arc<Names>> {
    if !may_exist() {
        return None;
    }
    let space = SPACES.with(PerMm::get)??;
    Some(space.names.clone())
}

/// Returns the part of a dma-buf as which the calling process has named `range`, or `None` if no
/// part of the range has a name. The second result tells later whether the range still has a name.
///
/// Returns the seam if only a part of the range has a name, or spans two dma-bufs, or has a gap.
///
/// Context: process context; may sleep.
pub(crate) fn find(range: VaRange) -> Result<Option<(Part, Watched)>, NoPart> {
    let Some(names) = names() else {
        return Ok(None);
    };
    let found = names.ranges.lock().find(range).map_err(NoPart::Seam)?;
    Ok(found.map(|Target { buffer, offset }| {
        let part = Part {
            writable: buffer.is_writable(),
            buffer,
            offset,
        };
        (part, Watched { names, range })
    }))
}

/// Returns `range`, or `EINVAL` if the range is not in whole pages or not in user space.
fn check(range: VaRange) -> Result<VaRange> {
    let task = current!();
    let in_user_space = task.mm().is_some_and(|mm| {
        let size = per_mm::size(mm);
        range.addr() <= size && range.len() <= size - range.addr()
    });
    let whole = (range.addr() | range.len()) % PAGE_SIZE == 0;
    (whole && in_user_space).then_some(range).ok_or(EINVAL)
}

/// Names `range` of the calling process as the part of the dma-buf `fd` that begins at the byte
/// `offset`. Adds a reference if the range has exactly the same name already. With `replace`, the name
/// takes the place of the names that are there, as [`Ranges::replace`] does.
///
/// Returns
///
/// - `EBADF` if `fd` is not a file descriptor, and `EACCES` if `fd` is not open for reading;
/// - `EINVAL` if `fd` is not a dma-buf, if the range or the offset is not in whole pages, or if the
///   range is not in user space or goes beyond the end of the dma-buf;
/// - `EEXIST` if a part of the range has another name, without `replace`;
/// - `ENOSPC` if the process has too many names;
/// - `ERESTARTSYS` if the process has a signal.
///
/// Context: process context; may sleep. Takes the `mmap_lock`.
pub(crate) fn add(range: VaRange, fd: i32, offset: u64, replace: bool) -> Result {
    let range = check(range)?;
    let end = offset.checked_add(range.len() as u64).ok_or(EINVAL)?;
    if offset % PAGE_SIZE as u64 != 0 {
        return Err(EINVAL);
    }
    let buffer = Buffer::from_fd(fd)?;
    if end > buffer.size() as u64 {
        return Err(EINVAL);
    }
    if !buffer.is_readable() {
        return Err(EACCES);
    }
    let spaces = SPACES.load().ok_or(ENODEV)?;
    let space = spaces.get_or_insert_with(Space::new)?;
    let limit = MAX_NAMES.load(Relaxed);
    let target = Target { buffer, offset };
    let mut ranges = space.names.ranges.lock();
    let result = if replace {
        ranges.replace(range, target, fd, limit).map(Some)
    } else {
        ranges.add(range, target, fd, limit).map(|()| None)
    };
    // The replaced names are dropped without the lock.
    drop(ranges);
    result.map(drop).inspect_err(|&e| {
        if e == ENOSPC {
            pr_warn_limited!(
                "{} ranges of a process have names, which is the limit; remove names of freed \
                 memory, or set the parameter max_names\n",
                limit
            );
        }
    })
}

/// Removes names of the calling process by `f`, which returns the removed names. Returns `ENOENT`
/// without a name.
fn remove_by(f: impl FnOnce(&mut Ranges<Buffer>) -> Result<Removed<Buffer>>) -> Result {
    let names = names().ok_or(ENOENT)?;
    let removed = f(&mut names.ranges.lock())?;
    drop(removed);
    Ok(())
}

/// Removes a reference of each name in `range`, as [`Ranges::remove`] does. Context: process context;
/// may sleep.
pub(crate) fn remove(range: VaRange) -> Result {
    remove_by(|ranges| ranges.remove(range))
}

/// Removes a reference of the name around `addr`. Returns `ENOENT` without a name. Context: process
/// context; may sleep.
pub(crate) fn remove_at(addr: usize) -> Result {
    remove_by(|ranges| ranges.remove_if(addr, addr, |_| true))
}

/// Removes a reference of each name of the dma-buf behind the descriptor `fd`. Returns `EBADF` and
/// `EINVAL` as [`add`] does, and `ENOENT` if the dma-buf has no name. Context: process context; may
/// sleep.
pub(crate) fn remove_buffer(fd: i32) -> Result {
    let buffer = Buffer::from_fd(fd)?;
    remove_by(|ranges| ranges.remove_if(0, usize::MAX, |name| name.target.buffer == buffer))
}

/// Removes a reference of each name that was given with the number `fd`, whatever `fd` is now.
/// Returns `ENOENT` if no name was given with `fd`. Context: process context; may sleep.
pub(crate) fn remove_fd(fd: i32) -> Result {
    remove_by(|ranges| ranges.remove_if(0, usize::MAX, |name| name.fd == fd))
}

/// A named range, as a query returns it.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub(crate) range: VaRange,
    /// Where the range begins in the dma-buf, in bytes.
    pub(crate) offset: u64,
    /// The file descriptor with which the range was named first.
    pub(crate) fd: i32,
}

/// Returns the first named range of the calling process that has an address of `range`. Returns
/// `ENOENT` if no named range has. Context: process context; may sleep.
pub(crate) fn query(range: VaRange) -> Result<Named> {
    let names = names().ok_or(ENOENT)?;
    let ranges = names.ranges.lock();
    let found = ranges.first_in(range).map(|name| Named {
        range: name.range,
        offset: name.target.offset,
        fd: name.fd,
    });
    drop(ranges);
    found.ok_or(ENOENT)
}

#[kunit_tests(peer_mem_named_parameter)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_number() {
        assert_eq!(parse_limit(""), Some(LIMIT));
        assert_eq!(parse_limit("0"), Some(0));
        assert_eq!(parse_limit("100"), Some(100));
        for text in ["+1", "-1", "1k", "0x10", " 1", "99999999999999999999"] {
            assert_eq!(parse_limit(text), None);
        }
    }

    #[test]
    fn nothing_has_a_name_in_a_kernel_thread() -> Result {
        let range = VaRange::new(0x1000, 0x1000).ok_or(EINVAL)?;
        assert!(matches!(find(range), Ok(None)));
        assert_eq!(remove(range), Err(ENOENT));
        assert_eq!(query(range).err(), Some(ENOENT));
        Ok(())
    }
}
