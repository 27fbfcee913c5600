// SPDX-License-Identifier: GPL-2.0

//! Physical addresses of memory BARs, the BAR that an address belongs to, and what is in it. The main type is
//! [`BarRange`]. Used to find the device behind memory that a process has mapped.

use super::{
    as_raw,
    Bar,
    BARS, //
};
use crate::shared::{
    ext::base::device,
    prelude::raw::*, //
};

/// Physical addresses in a memory BAR of any function.
///
/// # Invariants
///
/// `phys` lies in BAR `index` of `dev`, and the BAR was memory space when the object was created.
/// `index` is less than [`BARS`].
#[derive(Clone)]
pub struct BarRange {
    dev: ARef<pci::Device>,
    index: u32,
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
    /// Visits every function of the system. Context: may sleep.
    pub fn of(phys: u64) -> Option<Self> {
        Self::find(phys..phys.checked_add(1)?, |_| true)
    }

    /// Returns the memory BAR that contains all of `map`, the physical addresses of a page map of
    /// peer-to-peer memory; see [`BarRange::of`]. Only functions count whose driver provides
    /// peer-to-peer memory. A bridge like an Intel VMD does not. Context: may sleep.
    pub fn of_p2pdma(map: Range<u64>) -> Option<Self> {
        // SAFETY: `dev` is valid while it is borrowed.
        let provides = |dev: &_| unsafe { helpers::ext_pci_has_p2pdma(as_raw(dev)) };
        Self::find(map, provides)
    }

    /// Returns the innermost memory BAR that contains all of `wanted`, of the functions for which
    /// `is_candidate` returns true.
    fn find(wanted: Range<u64>, is_candidate: impl Fn(&pci::Device) -> bool) -> Option<Self> {
        let mut best: Option<Self> = None;
        for_each_function(|dev| {
            if !is_candidate(dev) {
                return;
            }
            for index in 0..BARS {
                let Some(phys) = mem_bar(dev, index) else {
                    continue;
                };
                if is_narrower(best.as_ref().map(|best| &best.phys), &phys, &wanted) {
                    let dev = dev.into();
                    // INVARIANT: `mem_bar` returned these addresses for this BAR.
                    best = Some(Self { dev, index, phys });
                }
            }
        });
        best
    }

    /// Returns the function, with or without a driver.
    pub fn dev(&self) -> &ARef<pci::Device> {
        &self.dev
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn phys(&self) -> &Range<u64> {
        &self.phys
    }

    /// Returns the physical addresses of the pages in the BAR that have the function's MSI-X table, whose entries
    /// are addresses that the function writes to, and the pending bits. All of the BAR if the function does not
    /// answer. Context: may sleep.
    pub fn msix(&self) -> [Range<u64>; 2] {
        // CAST: `PAGE_SIZE` is less than 2^32.
        let page = PAGE_SIZE as u64;
        let bar = &self.phys;
        msix_parts_of(&self.dev).map(|part| match part {
            None => bar.clone(),
            Some((index, _)) if index != self.index => 0..0,
            Some((_, part)) => {
                let start = bar.start + part.start;
                start - start % page..(bar.start + part.end).next_multiple_of(page)
            }
        })
    }

    /// Returns whether the function, or a sub-function of it, has an RDMA device, with doorbells in
    /// the BARs. Context: may sleep.
    pub fn is_of_rdma_device(&self) -> bool {
        let name = c"infiniband".as_char_ptr().cast_mut().cast();
        let dev = device::as_raw(self.dev.as_ref());
        // SAFETY: The device is valid while `self.dev` holds a reference, and the name is a C string.
        unsafe { helpers::ext_device_has_class_below(dev, name) != 0 }
    }

    /// Returns the offset from physical addresses in the BAR to bus addresses.
    pub fn bus_offset(&self) -> i64 {
        // SAFETY: `self.dev` holds a reference, and by the type invariants `index` is less than `BARS`.
        unsafe { helpers::ext_pci_bus_offset(as_raw(&self.dev), self.index as i32) }
    }
}

/// Returns whether `other` contains all of `wanted`, and is smaller than `best`.
fn is_narrower(best: Option<&Range<u64>>, other: &Range<u64>, wanted: &Range<u64>) -> bool {
    let size = |range: &Range<u64>| range.end - range.start;
    other.start <= wanted.start
        && wanted.end <= other.end
        && best.is_none_or(|best| size(other) < size(best))
}

/// Returns the physical addresses of BAR `index` of `dev`, if the BAR is memory space with an
/// address.
fn mem_bar(dev: &pci::Device, index: u32) -> Option<Range<u64>> {
    let bar = Bar::of(dev, index).filter(|bar| bar.is_mem() && bar.len > 0)?;
    Some(bar.start..bar.start + bar.len)
}

/// Calls `f` for each function of the system. A registration looks for a BAR here, so the walk takes references
/// to no function, and waits for no lock that a driver's callback may hold, as `pci_bus_sem`.
/// Context: may sleep.
fn for_each_function<F: FnMut(&pci::Device)>(mut f: F) {
    /// # Safety
    ///
    /// `dev` must be a device of the PCI bus, and `f` must be the `F`.
    unsafe extern "C" fn call<F: FnMut(&pci::Device)>(
        dev: *mut bindings::device,
        f: *mut c_void,
    ) -> c_int {
        // SAFETY: By the safety requirements the device is the field of a `pci_dev`, which the caller keeps.
        // `pci::Device` is a transparent wrapper of it.
        let dev: &pci::Device = unsafe { &*container_of!(dev, bindings::pci_dev, dev).cast() };
        // SAFETY: By the safety requirements.
        (unsafe { &mut *f.cast::<F>() })(dev);
        0
    }

    let (bus, f) = (&raw const bindings::pci_bus_type, &raw mut f);
    // SAFETY: The bus has PCI devices alone, and the function calls `call` with `f`, which is borrowed, before it
    // returns.
    unsafe { bindings::bus_for_each_dev(bus, core::ptr::null_mut(), f.cast(), Some(call::<F>)) };
}

/// Returns the BARs and the offsets of the MSI-X table of `dev` and of its pending bits, which are empty without
/// a table, or `None` if the function does not answer. Context: may sleep.
fn msix_parts_of(dev: &pci::Device) -> [Option<(u32, Range<u64>)>; 2] {
    // SAFETY: `dev` is valid while it is borrowed. The field does not change.
    let cap = unsafe { (*as_raw(dev)).msix_cap };
    if cap == 0 {
        return [const { Some((BARS, 0..0)) }; 2];
    }
    // The flags are the upper half of the first word.
    let registers = [0, bindings::PCI_MSIX_TABLE, bindings::PCI_MSIX_PBA];
    let [flags, table, pending] = registers.map(|register| {
        // CAST: The configuration space has 4096 bytes.
        let (at, mut word) = (i32::from(cap) + register as i32, u32::MAX);
        // SAFETY: `dev` is valid while it is borrowed, and `word` is valid for a write.
        unsafe { bindings::pci_read_config_dword(as_raw(dev), at, &mut word) };
        word
    });
    if flags == u32::MAX {
        return [None, None];
    }
    msix_parts(flags, table, pending).map(Some)
}

/// Returns the BARs and the offsets of the table and of the pending bits.
fn msix_parts(flags: u32, table: u32, pending: u32) -> [(u32, Range<u64>); 2] {
    let vectors = u64::from((flags >> 16) & bindings::PCI_MSIX_FLAGS_QSIZE) + 1;
    [(table, vectors * 16), (pending, vectors.div_ceil(64) * 8)].map(|(register, len)| {
        let start = u64::from(register & bindings::PCI_MSIX_TABLE_OFFSET);
        (register & bindings::PCI_MSIX_TABLE_BIR, start..start + len)
    })
}

#[cfg(ext_tests)]
#[kunit_tests(ext_pci_bar_range)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_bar_with_the_whole_range_is_found() {
        // A VMD endpoint comes first on the bus, and its BARs contain those of the SSDs behind it.
        let vmd = [
            0x10_0000..0x30_0000,
            0x10_0000..0x10_4000,
            0x20_0000..0x24_0000,
        ];
        let reversed = [vmd[2].clone(), vmd[1].clone(), vmd[0].clone()];
        // The smaller BAR may contain a part of the range.
        let two = [0x1000..0x9000, 0x2000..0x4000];
        // Of two BARs of equal size the first is found.
        let equal = [0..0x1_0000, 0x1000..0x9000, 0x2000..0x3000, 0x2000..0x3000];
        type Case<'a> = (&'a [Range<u64>], Range<u64>, Option<usize>);
        let cases: [Case<'_>; 18] = [
            (&vmd, 0x10_0000..0x10_0001, Some(1)),
            (&vmd, 0x10_3fff..0x10_4000, Some(1)),
            (&vmd, 0x10_4000..0x10_4001, Some(0)),
            (&vmd, 0x20_0000..0x20_0001, Some(2)),
            (&vmd, 0x23_ffff..0x24_0000, Some(2)),
            (&vmd, 0x24_0000..0x24_0001, Some(0)),
            (&reversed, 0x20_0000..0x20_0001, Some(0)),
            (&reversed, 0x2f_ffff..0x30_0000, Some(2)),
            (&two, 0x2000..0x4000, Some(1)),
            (&two, 0x2000..0x4001, Some(0)),
            (&two, 0x1fff..0x3000, Some(0)),
            (&two, 0x1000..0x9000, Some(0)),
            (&two, 0x0fff..0x2000, None),
            (&two, 0x8fff..0x9001, None),
            (&equal, 0x2800..0x2801, Some(2)),
            (&equal, 0x3000..0x3001, Some(1)),
            (&equal, 0x9000..0x9001, Some(0)),
            (&[0..u64::MAX, 5..6], 5..6, Some(1)),
        ];
        for (bars, wanted, found) in cases {
            let mut best = None;
            for (i, bar) in bars.iter().enumerate() {
                if is_narrower(best.map(|i: usize| &bars[i]), bar, &wanted) {
                    best = Some(i);
                }
            }
            assert_eq!(best, found);
        }
    }

    #[test]
    fn the_registers_have_the_places_of_msix() {
        let [table, pending] = msix_parts(0x8040_0011, 0x0000_2003, 0x0000_3004);
        assert_eq!(table, (3, 0x2000..0x2000 + 65 * 16));
        assert_eq!(pending, (4, 0x3000..0x3010));
    }
}
