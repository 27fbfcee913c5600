// SPDX-License-Identifier: GPL-2.0

//! The peer-to-peer memory of a function, as an allocator.
//!
//! The kernel keeps all BARs that a function provides in one pool, without a choice of the BAR or
//! an alignment. So [`Function`] takes memory out of the kernel's pool in large blocks, and
//! allocates from the blocks, by an allocator for each BAR. When nothing is allocated, all blocks
//! are back in the kernel's pool, available to other drivers and to `p2pmem/allocate`. The free
//! space of the kernel's pool is only read: neither a query nor a request for more than the free
//! space takes a block.
//!
//! A page that still has a user when freed goes to the kernel's pool with the last reference, and
//! from the kernel's pool into the next block.

use super::gen_pool::GenPool;
use crate::shared::{
    ext::base::pci::as_raw,
    prelude::raw::*, //
};
use kernel::devres::Devres;

/// Smallest block that is taken out of the kernel's pool while the pool has blocks of this size.
const BLOCK: usize = (64 << 20) / PAGE_SIZE;

/// Free space of a provider, in bytes.
#[derive(Clone, Copy)]
pub struct FreeSpace {
    pub free: u64,
    /// Size of the largest contiguous free block.
    pub largest: u64,
}

/// The peer-to-peer memory of a function that a driver is bound to.
///
/// # Invariants
///
/// While [`Devres`] gives access to `bound`, the driver that created this object is bound. So the
/// pool of the function, if there is one, belongs to this driver.
#[pin_data]
pub struct Function {
    bound: Devres<ARef<pci::Device>>,
    dev: ARef<pci::Device>,
    #[pin]
    members: Mutex<KVec<Member>>,
}

/// The memory of a provider.
///
/// # Invariants
///
/// - `map` is a pool of the page frame numbers of memory that `pci_p2pdma_add_resource()` created.
/// - The free numbers of `map` are pages in blocks of this object, without a reference.
/// - `used` pages of `map` are allocated to callers of [`Function::alloc`].
/// - This object owns `blocks` references on the page map. If the object has a page, `blocks` is at
///   least 1.
struct Member {
    /// Page frame numbers. Pages in the kernel's pool count as allocated.
    map: GenPool,
    used: usize,
    /// Number of blocks that were taken out of the kernel's pool.
    blocks: usize,
}

pub(super) fn phys_of(frame: usize) -> u64 {
    // CAST: `usize` has 64 bits on architectures with P2PDMA.
    (frame * PAGE_SIZE) as u64
}

fn frame_of(phys: u64) -> usize {
    // CAST: `usize` has 64 bits on architectures with P2PDMA.
    phys as usize / PAGE_SIZE
}

impl Function {
    /// Creates an object for `dev`, without memory. Context: may sleep.
    pub fn new(dev: &pci::Device<Bound>) -> Result<Arc<Self>> {
        // INVARIANT: The driver is bound now, and devres revokes `bound` before another driver is
        // bound.
        let bound = Devres::new(dev.as_ref(), ARef::<pci::Device>::from(dev))?;
        Arc::pin_init(
            pin_init!(Self {
                bound,
                dev: dev.into(),
                members <- new_mutex!(KVec::new(), "ext::p2pdma::Function::members"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns whether this is the memory of `dev`.
    pub(super) fn is_of(&self, dev: &pci::Device) -> bool {
        as_raw(&self.dev) == as_raw(dev)
    }

    /// Adds the memory `phys`, in whole pages. Returns the number of the new member.
    ///
    /// # Safety
    ///
    /// `pci_p2pdma_add_resource()` must have created the memory for this function.
    pub(super) unsafe fn add(&self, phys: Range<u64>) -> Result<usize> {
        let mut map = GenPool::new(frame_of(phys.start)..frame_of(phys.end))?;
        // All pages are in the kernel's pool.
        map.alloc(map.range().len(), 1).ok_or(EINVAL)?;
        let mut members = self.members.lock();
        // INVARIANT: By the safety requirements the numbers are page frames of peer-to-peer memory.
        // There are no blocks yet.
        members.push(
            Member {
                map,
                used: 0,
                blocks: 0,
            },
            GFP_KERNEL,
        )?;
        Ok(members.len() - 1)
    }

    /// Allocates `n` pages of member `member`. The number of the first page is a multiple of
    /// `align`, and is returned. The pages have no references.
    ///
    /// Returns `ENOMEM` if no free run is long enough, `ENODEV` if the driver has been unbound.
    /// Context: may sleep.
    pub(super) fn alloc(&self, member: usize, n: usize, align: usize) -> Result<usize> {
        let mut members = self.members.lock();
        let fit = |members: &mut [Member]| {
            let member = members.get_mut(member)?;
            let first = member.map.alloc(n, align)?;
            // INVARIANT: The pages are allocated to the caller.
            member.used += n;
            Some(first)
        };
        let taken = match fit(&mut members) {
            Some(first) => Ok(Some(first)),
            None => match members.get(member).map(|m| self.space(m, align)) {
                Some(Ok((space, known))) if !known || n <= space.longest => {
                    self.take(&mut members, n.saturating_add(align - 1), fit)
                }
                Some(Err(e)) => Err(e),
                _ => Ok(None),
            },
        };
        self.give_back(&mut members);
        taken?.ok_or(ENOMEM)
    }

    /// Frees `n` pages of member `member` that [`Function::alloc`] returned. The pages in `runs`
    /// have no references; the kernel frees the other pages.
    ///
    /// # Safety
    ///
    /// - The caller must own the `n` pages, and must not use them any more.
    /// - `runs` must yield ranges of these pages, each page at most once.
    ///
    /// Context: may sleep.
    pub(super) unsafe fn free(
        &self,
        member: usize,
        n: usize,
        runs: impl Iterator<Item = Range<usize>>,
    ) {
        for run in runs {
            if let Some(member) = self.members.lock().get_mut(member) {
                // INVARIANT: The pages have no references.
                // SAFETY: By the safety requirements the pages are allocated.
                unsafe { member.map.free(run.start, run.len()) };
            }
        }
        let mut members = self.members.lock();
        if let Some(member) = members.get_mut(member) {
            // INVARIANT: The caller does not use the pages any more.
            member.used -= n;
        }
        self.give_back(&mut members);
    }

    /// Returns the free space of member `member`. Returns `ENODEV` if the driver has been unbound.
    /// Context: may sleep.
    pub(super) fn free_space(&self, member: usize) -> Result<FreeSpace> {
        let members = self.members.lock();
        let (space, _) = self.space(members.get(member).ok_or(EINVAL)?, 1)?;
        Ok(FreeSpace {
            free: phys_of(space.free),
            largest: phys_of(space.longest),
        })
    }

    /// Returns the free space of `member`, in the blocks and in the kernel's pool together. `align`
    /// is a power of two. The second result is whether those in the kernel's pool are included. Returns
    /// `ENODEV` if the driver has been unbound.
    fn space(&self, member: &Member, align: usize) -> Result<(helpers::ext_p2p_space, bool)> {
        self.bound.try_access_with(|_| ()).ok_or(ENODEV)?;
        let (dev, map) = (as_raw(&self.dev), member.map.as_raw());
        let mut space = helpers::ext_p2p_space {
            free: 0,
            longest: 0,
        };
        // SAFETY:
        // - `self` holds the function, and the caller holds `member`. The numbers of `member` are
        //   page frames with struct pages.
        // - `align` is a power of two.
        let known = unsafe { helpers::ext_p2p_free_space(dev, map, align, &mut space) };
        Ok((space, known))
    }

    /// Takes blocks out of the kernel's pool until `done` returns a value, or the pool is empty.
    ///
    /// Begins with blocks of `n` pages, or of [`BLOCK`] pages if [`BLOCK`] is larger. Returns
    /// `ENODEV` if the driver has been unbound.
    fn take<T>(
        &self,
        members: &mut [Member],
        n: usize,
        mut done: impl FnMut(&mut [Member]) -> Option<T>,
    ) -> Result<Option<T>> {
        let all = members.iter().map(|m| m.map.range().len()).max();
        let mut step = n.max(BLOCK).min(all.unwrap_or(0));
        while step > 0 {
            let block = self.bound.try_access_with(|dev| {
                // SAFETY: By the type invariants the pool belongs to this driver, or there is no
                // pool and the call returns null.
                let block = unsafe { bindings::pci_alloc_p2pmem(as_raw(dev), step * PAGE_SIZE) };
                let block = NonNull::new(block)?.as_ptr();
                // SAFETY: The block has struct pages.
                Some(frame_of(unsafe { helpers::ext_virt_to_phys(block) }))
            });
            let Some(first) = block.ok_or(ENODEV)? else {
                step /= 2;
                continue;
            };
            let owner = members.iter_mut().find(|m| m.map.range().contains(&first));
            if let Some(owner) = owner {
                // INVARIANT: The call above has returned the block, without references on the
                // pages, and with one reference on the page map.
                owner.blocks += 1;
                // SAFETY: The pages were in the kernel's pool, so the numbers were allocated in
                // `map`.
                unsafe { owner.map.free(first, step) };
            }
            if let Some(value) = done(members) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Puts all blocks back into the kernel's pool if no page is allocated to a caller.
    fn give_back(&self, members: &mut [Member]) {
        if members.iter().any(|m| m.used > 0) {
            return;
        }
        for member in members {
            let phys = phys_of(member.map.range().start);
            let mut at = member.map.range().start;
            while let Some(run) = member.map.free_run(at) {
                at = run.end;
                let n = run.len();
                // The first fit is this run: all earlier free runs are taken.
                let Some(first) = member.map.alloc(n, 1) else {
                    break;
                };
                // The next call puts a reference on the page map, but one block may be several runs.
                //
                // SAFETY: By the type invariants of `Member` the member owns a reference on the
                // page map.
                unsafe { helpers::ext_p2p_map_get(phys) };
                let (dev, len) = (as_raw(&self.dev), n * PAGE_SIZE);
                // SAFETY:
                // - By the type invariants of `Member` the pages came from `pci_alloc_p2pmem()` and
                //   have no references.
                // - The references on the page map keep the function's pool alive.
                unsafe {
                    let block = helpers::ext_phys_to_virt(phys_of(first));
                    bindings::pci_free_p2pmem(dev, block, len)
                };
            }
            let blocks = core::mem::take(&mut member.blocks);
            if blocks > 0 {
                // INVARIANT: There is no page left.
                // SAFETY: The object owned these references.
                unsafe { helpers::ext_p2p_map_put(phys, blocks) };
            }
        }
    }
}
