// SPDX-License-Identifier: GPL-2.0

//! Physical addresses of memory BARs, and the BAR that an address belongs to. The main type is
//! [`BarRange`]. Used to find the device behind memory that a process has mapped.

#[cfg(ext_p2pdma)]
use super::msix;
use super::{
    as_raw,
    BARS, //
};
use crate::shared::{
    bindings::helpers,
    ext::base::device, //
};
use core::{
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    macros::kunit_tests,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::aref::ARef, //
};

/// Physical addresses in a memory BAR of any function.
///
/// # Invariants
///
/// `phys` lies in BAR `index` of `dev`, and the BAR was memory space when the object was created.
/// `index` is less than [`BARS`].
#[derive(Clone)]
pub struct BarRange {
    /// Function of the BAR, with or without a driver.
    dev: ARef<pci::Device>,
    /// Number of the BAR.
    index: u32,
    /// Physical addresses.
    phys: Range<u64>,
}

impl BarRange {
    /// Creates a range of BAR `index` of `dev`.
    ///
    /// # Safety
    ///
    /// `phys` must lie in BAR `index` of `dev`, and the BAR must be memory space.
    pub(in crate::shared::ext) unsafe fn new(
        dev: ARef<pci::Device>,
        index: u32,
        phys: Range<u64>,
    ) -> Self {
        // INVARIANT: The safety requirements are the invariant. A BAR has a number below `BARS`.
        Self { dev, index, phys }
    }

    /// Returns the memory BAR that contains the physical address `phys`, or `None` if no BAR does, as
    /// for host memory. If BARs are nested, as behind an Intel VMD, the innermost one is returned.
    ///
    /// Visits every function of the system.
    ///
    /// Context: may sleep.
    pub fn of(phys: u64) -> Option<Self> {
        Self::find(phys..phys.checked_add(1)?, |_| true)
    }

    /// Returns the memory BAR that contains all of `map`, the physical addresses of a page map of
    /// peer-to-peer memory; see [`BarRange::of`]. Only functions count whose driver provides
    /// peer-to-peer memory. A bridge like an Intel VMD does not.
    ///
    /// Context: may sleep.
    pub fn of_p2pdma(map: Range<u64>) -> Option<Self> {
        // SAFETY: `dev` is valid while it is borrowed.
        Self::find(map, |dev| unsafe {
            helpers::ext_pci_has_p2pdma(as_raw(dev))
        })
    }

    /// Returns the innermost memory BAR that contains all of `wanted`, of the functions for which
    /// `is_candidate` returns true.
    fn find(wanted: Range<u64>, is_candidate: impl Fn(&pci::Device) -> bool) -> Option<Self> {
        let mut best = None;
        for dev in (Functions { last: None }) {
            if !is_candidate(&dev) {
                continue;
            }
            for index in 0..BARS {
                if let Some(phys) = mem_bar(&dev, index) {
                    best = narrower(best, ((dev.clone(), index), phys), &wanted);
                }
            }
        }
        let ((dev, index), phys) = best?;
        // INVARIANT: `mem_bar` returned these addresses for this BAR.
        Some(Self { dev, index, phys })
    }

    /// Returns the function, with or without a driver.
    ///
    /// Context: any.
    pub fn dev(&self) -> &ARef<pci::Device> {
        &self.dev
    }

    /// Returns the number of the BAR, less than [`BARS`].
    ///
    /// Context: any.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the physical addresses.
    ///
    /// Context: any.
    pub fn phys(&self) -> &Range<u64> {
        &self.phys
    }

    /// Returns the physical addresses of the pages in the BAR that have the function's MSI-X table, whose entries
    /// are addresses that the function writes to, and the pending bits. All of the BAR if the function does not
    /// answer.
    ///
    /// Context: may sleep.
    #[cfg(ext_p2pdma)]
    pub fn msix(&self) -> [Range<u64>; 2] {
        // CAST: `PAGE_SIZE` is less than 2^32.
        let page = PAGE_SIZE as u64;
        let bar = &self.phys;
        msix::parts_of(&self.dev).map(|part| match part {
            None => bar.clone(),
            Some((index, _)) if index != self.index => 0..0,
            Some((_, part)) => {
                let start = bar.start + part.start;
                start - start % page..(bar.start + part.end).next_multiple_of(page)
            }
        })
    }

    /// Returns whether the function, or a sub-function of it, has an RDMA device, with doorbells in the BARs.
    ///
    /// Context: may sleep.
    #[cfg(ext_p2pdma)]
    pub fn is_of_rdma_device(&self) -> bool {
        let name = c"infiniband".as_char_ptr();
        // SAFETY: The device is valid while `self.dev` holds a reference, and the name is a C string.
        unsafe { helpers::ext_device_has_class_below(device::as_raw(self.dev.as_ref()), name) }
    }

    /// Returns the offset from physical addresses in the BAR to bus addresses.
    ///
    /// Context: any.
    pub fn bus_offset(&self) -> i64 {
        // SAFETY: `self.dev` holds a reference, and by the type invariants `index` is the number of a
        // standard BAR.
        // CAST: `index` is less than `BARS`.
        unsafe { helpers::ext_pci_bus_offset(as_raw(&self.dev), self.index as i32) }
    }
}

/// Returns `other` if `other` contains all of `wanted` and is smaller than `best`, otherwise
/// `best`.
fn narrower<T>(
    best: Option<(T, Range<u64>)>,
    other: (T, Range<u64>),
    wanted: &Range<u64>,
) -> Option<(T, Range<u64>)> {
    let size = |range: &Range<u64>| range.end - range.start;
    let contains = other.1.start <= wanted.start && wanted.end <= other.1.end;
    match &best {
        Some((_, range)) if !contains || size(range) <= size(&other.1) => best,
        None if !contains => None,
        _ => Some(other),
    }
}

/// Returns the physical addresses of BAR `index` of `dev`, if the BAR is memory space with an
/// address.
fn mem_bar(dev: &pci::Device, index: u32) -> Option<Range<u64>> {
    if index >= BARS {
        return None;
    }
    let (mut start, mut end) = (0, 0);
    // SAFETY: `dev` is valid while it is borrowed, and `index` is the number of a standard BAR.
    // CAST: `index` is less than `BARS`.
    let found =
        unsafe { helpers::ext_pci_mem_bar(as_raw(dev), index as i32, &mut start, &mut end) };
    found.then_some(start..end)
}

/// Iterator over all functions of the system.
struct Functions {
    /// The function that was returned last.
    last: Option<ARef<pci::Device>>,
}

impl Iterator for Functions {
    type Item = ARef<pci::Device>;

    fn next(&mut self) -> Option<Self::Item> {
        // CAST: The C macro is `~0`.
        let any = bindings::PCI_ANY_ID as u32;
        let last = self.last.take();
        let from = last.map_or(core::ptr::null_mut(), |dev| {
            ARef::into_raw(dev).as_ptr().cast()
        });
        // SAFETY: `from` is null, or a device with a reference that this call puts.
        let dev = NonNull::new(unsafe { bindings::pci_get_device(any, any, from) })?;
        // SAFETY:
        // - The call returned the device with a reference, and the `ARef` takes the reference over.
        // - `pci::Device` is a transparent wrapper of `struct pci_dev`.
        let dev: ARef<pci::Device> = unsafe { ARef::from_raw(dev.cast()) };
        self.last = Some(dev.clone());
        Some(dev)
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_pci_bar_range)]
mod tests {
    use super::*;

    /// Returns the number of the innermost BAR.
    fn owner(bars: &[Range<u64>], addr: u64) -> Option<usize> {
        owner_of_all(bars, addr..addr + 1)
    }

    /// Returns the number of the innermost BAR for a range.
    fn owner_of_all(bars: &[Range<u64>], wanted: Range<u64>) -> Option<usize> {
        let mut best = None;
        for bar in bars.iter().cloned().enumerate() {
            best = narrower(best, bar, &wanted);
        }
        best.map(|(i, _)| i)
    }

    /// BARs side by side.
    #[test]
    fn disjoint() {
        let bars = [0x1000..0x2000, 0x2000..0x6000];
        assert_eq!(owner(&bars, 0xfff), None);
        assert_eq!(owner(&bars, 0x1000), Some(0));
        assert_eq!(owner(&bars, 0x1fff), Some(0));
        assert_eq!(owner(&bars, 0x2000), Some(1));
        assert_eq!(owner(&bars, 0x5fff), Some(1));
        assert_eq!(owner(&bars, 0x6000), None);
        assert_eq!(owner(&[], 0), None);
    }

    /// A VMD endpoint comes first on the bus, and the BARs of the VMD contain the BARs of the SSDs
    /// behind the VMD.
    #[test]
    fn nested() {
        let (vmd, ssd, cmb) = (
            0x1000_0000..0x3000_0000,
            0x1000_0000..0x1000_4000,
            0x2000_0000..0x2400_0000,
        );
        let bars = [vmd, ssd, cmb];
        assert_eq!(owner(&bars, 0x1000_0000), Some(1));
        assert_eq!(owner(&bars, 0x1000_3fff), Some(1));
        assert_eq!(owner(&bars, 0x1000_4000), Some(0));
        assert_eq!(owner(&bars, 0x2000_0000), Some(2));
        assert_eq!(owner(&bars, 0x23ff_ffff), Some(2));
        assert_eq!(owner(&bars, 0x2400_0000), Some(0));
        let mut reversed = bars;
        reversed.reverse();
        assert_eq!(owner(&reversed, 0x2000_0000), Some(0));
        assert_eq!(owner(&reversed, 0x2fff_ffff), Some(2));
    }

    /// A range is in a BAR only if the whole range is. The smaller BAR may contain a part of
    /// the range.
    #[test]
    fn whole_ranges() {
        let bars = [0x1000..0x9000, 0x2000..0x4000];
        assert_eq!(owner_of_all(&bars, 0x2000..0x4000), Some(1));
        assert_eq!(owner_of_all(&bars, 0x2000..0x4001), Some(0));
        assert_eq!(owner_of_all(&bars, 0x1fff..0x3000), Some(0));
        assert_eq!(owner_of_all(&bars, 0x1000..0x9000), Some(0));
        assert_eq!(owner_of_all(&bars, 0x0fff..0x2000), None);
        assert_eq!(owner_of_all(&bars, 0x8fff..0x9001), None);
    }

    /// Three levels, and two BARs of equal size: the first is returned.
    #[test]
    fn deep_and_equal() {
        let bars = [0..0x1_0000, 0x1000..0x9000, 0x2000..0x3000, 0x2000..0x3000];
        assert_eq!(owner(&bars, 0x2800), Some(2));
        assert_eq!(owner(&bars, 0x3000), Some(1));
        assert_eq!(owner(&bars, 0x9000), Some(0));
        assert_eq!(owner(&[0..u64::MAX, 5..6], 5), Some(1));
    }
}
