// SPDX-License-Identifier: GPL-2.0

//! The fast registration backend: a REG_MR work request on a kernel-owned queue pair in the user's
//! PD binds an empty MR to pages, and a LOCAL_INV work request on the same queue pair invalidates
//! the MR.
//!
//! [`FastReg`] is the backend of one device, and [`FastRegMr`] the attachment of one MR;
//! [`Backend`](super::Backend) and [`Attachment`] call both.
//!
//! One queue pair serves all MRs of a PD. The queue pair counts as a user of the PD, so the last MR
//! must destroy the queue pair before the user can deallocate the PD.
//!
//! Context: may sleep. `FastReg::links` is held while a queue pair is created or destroyed.

use super::{
    Attachment,
    DeviceAccess,
    RegError,
    ACCESS, //
};
use crate::{
    callbacks::Acquired,
    ext::{
        base::sg::{
            Borrowed,
            Segment,
            Table, //
        },
        rdma::{
            self_test,
            wait_for_software_copies,
            FastMr,
            FastRegKey,
            LoopbackQp,
            Pd, //
        }, //
    },
    prelude::*, //
};

const NO_STRUCT_PAGES: &str = "the memory has no struct pages, and software RDMA has no DMA device";

const NOT_COPYABLE: &str =
    "software RDMA copies by the CPU, and on this architecture the kernel maps \
                            PCI memory for aligned accesses only; use an RDMA adapter";

/// The queue pair of one PD and the number of its users.
struct Link {
    pd: usize,
    users: usize,
    qp: Arc<Pin<KBox<LoopbackQp>>>,
}

/// Whether a task that waits for a spin lock sleeps.
const SPIN_LOCKS_SLEEP: bool = cfg!(CONFIG_PREEMPT_RT);

/// Returns whether the fence works: [`FastRegMr::fence`] waits for the copies of software by a
/// Tasks RCU grace period, which does not wait for a task that sleeps. Between the look-up of a key
/// and the end of the copy, rdma_rxe takes its own spin locks and spin locks of the allocator.
const fn can_fence(is_software: bool, spin_locks_sleep: bool) -> bool {
    !(is_software && spin_locks_sleep)
}

#[pin_data]
pub(crate) struct FastReg {
    dev: ARef<Device>,
    /// Held while a queue pair is created or destroyed, never across a client's callback. A user
    /// determines the number of PDs.
    #[pin]
    links: Mutex<KVVec<Link>>,
}

impl FastReg {
    /// Creates the backend of a device that supports fast registration. Fails with `EOPNOTSUPP` for
    /// software RDMA that cannot be fenced. A device other than rdma_rxe must pass a self-test,
    /// whose error is returned. Context: may sleep.
    pub(crate) fn new(dev: &Device) -> Result<Arc<Self>> {
        if !can_fence(dev.is_virt_dma(), SPIN_LOCKS_SLEEP) {
            pr_warn!(
                "{}: no peer memory: a kernel with PREEMPT_RT cannot fence software RDMA; use another \
                 kernel, or an adapter\n",
                dev.name()
            );
            return Err(eopnotsupp());
        }
        if dev.quirks().fast_reg.is_none() {
            self_test(dev).inspect_err(|e| {
                pr_warn!(
                    "{}: fast registration failed its self-test: {:?}; use another backend\n",
                    dev.name(),
                    e
                )
            })?;
        }
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.get(),
                links <- new_mutex!(KVVec::new(), "FastReg::links"),
            }),
            GFP_KERNEL,
        )
    }

    /// Waits until software RDMA has finished the copies that began before keys were invalidated.
    /// Returns at once for a device with a DMA device. Context: may sleep, for some tenths of a
    /// second.
    pub(crate) fn drain(&self) {
        if self.dev.is_virt_dma() {
            wait_for_software_copies();
        }
    }

    /// Returns the queue pair of `pd`, created at the first use, and counts a user. Context: may
    /// sleep.
    fn link(self: &Arc<Self>, pd: &Pd) -> Result<LinkRef> {
        let mut links = self.links.lock();
        let qp = match links.iter_mut().find(|l| l.pd == pd.id()) {
            Some(link) => {
                link.users += 1;
                link.qp.clone()
            }
            None => {
                links.reserve(1, GFP_KERNEL)?;
                let qp = Arc::new(LoopbackQp::new(pd)?, GFP_KERNEL_ACCOUNT)?;
                links.push(
                    Link {
                        pd: pd.id(),
                        users: 1,
                        qp: qp.clone(),
                    },
                    GFP_KERNEL,
                )?;
                qp
            }
        };
        Ok(LinkRef {
            backend: self.clone(),
            pd: pd.id(),
            qp: Some(qp),
        })
    }

    /// Makes an MR on `pages`. Context: process context; may sleep.
    pub(crate) fn register(
        self: &Arc<Self>,
        req: &Request<'_>,
        range: VaRange,
        pages: &mut Acquired,
    ) -> Result<(UserMr, Attachment), RegError> {
        let access = req.access.for_fast_reg();
        let (Some(access), false) = (access, req.has_dmah()) else {
            return Err(RegError::Rejected(ACCESS));
        };
        let max = self.dev.max_segment();
        let table = if self.dev.is_virt_dma() {
            let table = pages
                .physical(max)?
                .ok_or(RegError::Skip(NO_STRUCT_PAGES))?;
            // An unaligned access would be an Oops in the kernel.
            if !pages.are_copyable() {
                return Err(RegError::Rejected(NOT_COPYABLE));
            }
            table
        } else {
            let dma = self.dev.dma_device().ok_or(ENODEV)?;
            pages.dma_table(dma, max)?
        };
        let shape = Shape::choose(&table, range, req.iova, &self.dev)?;

        let link = self.link(req.pd)?;
        let mut mr = FastMr::alloc(req.pd, shape.pages)?;
        mr.map(
            &table,
            range.page_offset() as u32,
            req.length,
            req.iova,
            shape.page_size,
        )?;
        let key = mr.key();
        link.qp()?.register(&key, access)?;
        let mr = mr.into_user();
        let stopped = false;
        Ok((mr, Attachment::FastReg(FastRegMr { key, link, stopped })))
    }
}

/// A use of the queue pair of a PD. Dropping the last use destroys the queue pair.
struct LinkRef {
    backend: Arc<FastReg>,
    pd: usize,
    qp: Option<Arc<Pin<KBox<LoopbackQp>>>>,
}

impl LinkRef {
    fn qp(&self) -> Result<&LoopbackQp> {
        self.qp.as_ref().map(|qp| &***qp).ok_or(ENODEV)
    }
}

impl Drop for LinkRef {
    fn drop(&mut self) {
        let mut links = self.backend.links.lock();
        // The reference in the list must be the last reference: the removal from the list destroys
        // the queue pair.
        self.qp = None;
        if let Some(i) = links.iter().position(|l| l.pd == self.pd) {
            links[i].users -= 1;
            if links[i].users == 0 {
                drop(links.remove(i));
            }
        }
    }
}

/// A fast-registration MR of the user. The key is not used after deregistration.
pub(crate) struct FastRegMr {
    key: FastRegKey,
    link: LinkRef,
    stopped: bool,
}

impl DeviceAccess for FastRegMr {
    fn stop(&mut self) -> Result {
        if self.stopped {
            return Ok(());
        }
        // A device that is gone would not answer, and accesses no memory.
        if !self.link.backend.dev.is_gone() {
            let qp = self.link.qp()?;
            self.key.as_fast_reg(|| qp.invalidate(&self.key))?;
        }
        self.stopped = true;
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn fence(&mut self, _: &FenceBudget) -> Result {
        self.stop()?;
        self.link.backend.drain();
        Ok(())
    }
}

/// The page size in bytes, and the number of pages, that describe an MR.
#[derive(PartialEq, Eq, Debug)]
struct Shape {
    page_size: u32,
    pages: u32,
}

impl Shape {
    /// Chooses the page size for a table: the largest size whose pages are exactly the memory, or
    /// else the smallest size with which the table fits into an MR of the device. Fails with
    /// `EOPNOTSUPP` if the table does not fit. `iova`: the address of the first byte of `range` in
    /// the MR.
    fn choose(
        table: &Table<Borrowed<'_>>,
        range: VaRange,
        iova: u64,
        dev: &Device,
    ) -> Result<Self> {
        let limits = dev.fast_reg_limits();
        // The address of the first whole page of the range in the device's address space.
        let iova = iova.wrapping_sub(range.page_offset() as u64);
        // CAST: `usize` has 64 bits at most.
        let bytes = (range.pages() * PAGE_SIZE) as u64;
        let sizes = (0..u64::BITS).map(|bit| 1u64 << bit).filter(|size| {
            (PAGE_SIZE as u64..=limits.page_size).contains(size) && dev.page_sizes() & size != 0
        });
        let fits = |size| Self::fits(table.segments(), iova, size, limits.pages);
        // A page larger than the memory would cost the device an entry for each page around the
        // memory.
        let mut largest_first = sizes.clone().rev().filter(|&size| size <= bytes);
        let shape = largest_first
            .find_map(|size| fits(size).filter(|shape| shape.bytes() == bytes))
            .or_else(|| sizes.clone().find_map(fits))
            .filter(|_| range.len() as u64 <= limits.length);
        shape.ok_or_else(|| {
            pr_warn_limited!(
                "{}: {} bytes do not fit into an MR of {} pages; register less, or memory that is \
                 contiguous and aligned to larger pages\n",
                dev.name(),
                range.len(),
                limits.pages
            );
            eopnotsupp()
        })
    }

    fn bytes(&self) -> u64 {
        u64::from(self.page_size) * u64::from(self.pages)
    }

    /// Describes the segments by at most `limit` pages of `size` bytes. The first page is at `iova`
    /// rounded down. Returns `None` if the segments do not fit: inner boundaries must lie between
    /// pages, and the memory must be congruent to `iova`.
    fn fits(
        segments: impl Iterator<Item = Segment>,
        iova: u64,
        size: u64,
        limit: u32,
    ) -> Option<Self> {
        let mut at = iova;
        let mut pages = 0u64;
        let mut open = true;
        for (i, s) in segments.enumerate() {
            if !open || s.addr.wrapping_sub(at) % size != 0 || (i > 0 && s.addr % size != 0) {
                return None;
            }
            let first = s.addr % size;
            pages += (first + s.len).div_ceil(size);
            at = at.wrapping_add(s.len);
            // Only the last segment may end inside a page.
            open = (first + s.len) % size == 0;
        }
        Some(Self {
            page_size: u32::try_from(size).ok()?,
            pages: u32::try_from(pages).ok().filter(|&n| n <= limit)?,
        })
    }
}

#[kunit_tests(peer_mem_fast_reg)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;

    /// Returns the number of pages, or 0 if the segments do not fit.
    fn pages(segments: &[(u64, u64)], iova: u64, size: u64, limit: u32) -> u32 {
        let segments = segments.iter().map(|&(addr, len)| Segment { addr, len });
        Shape::fits(segments, iova, size, limit).map_or(0, |s| s.pages)
    }

    #[test]
    fn software_cannot_be_fenced_where_spin_locks_sleep() {
        assert!(!can_fence(true, true));
        assert!(can_fence(true, false) && can_fence(false, true) && can_fence(false, false));
    }

    #[test]
    fn one_run() {
        assert_eq!(pages(&[(M, 64 * K)], 0x7000, 4 * K, 512), 16);
        assert_eq!(pages(&[(M, 64 * K)], 0x7000, 4 * K, 15), 0);
        assert_eq!(pages(&[(M, 64 * K)], 16 * M, 64 * K, 1), 1);
        assert_eq!(pages(&[(M, 65 * K)], 16 * M, 64 * K, 2), 2);
    }

    #[test]
    fn the_iova_must_be_congruent() {
        assert_eq!(pages(&[(M, 64 * K)], 16 * M + 4 * K, 64 * K, 9), 0);
        assert_eq!(pages(&[(M + 4 * K, 60 * K)], 16 * M + 4 * K, 64 * K, 9), 1);
        assert_eq!(pages(&[(M + 4 * K, 64 * K)], 16 * M + 4 * K, 64 * K, 9), 2);
    }

    #[test]
    fn inner_boundaries_lie_between_pages() {
        let two = [(2 * M, 64 * K), (8 * M, 64 * K)];
        assert_eq!(pages(&two, 16 * M, 64 * K, 9), 2);
        assert_eq!(pages(&two, 16 * M, 128 * K, 9), 0);
        let second_inside = [(2 * M, 64 * K), (8 * M + 4 * K, 64 * K)];
        assert_eq!(pages(&second_inside, 16 * M, 64 * K, 9), 0);
        assert_eq!(pages(&second_inside, 16 * M, 4 * K, 99), 32);
        let first_short = [(2 * M, 60 * K), (8 * M, 64 * K)];
        assert_eq!(pages(&first_short, 16 * M, 64 * K, 9), 0);
    }
}
