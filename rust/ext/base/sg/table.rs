// SPDX-License-Identifier: GPL-2.0

//! [`Table`], and [`PageTable`] for memory with struct pages.

use super::{
    entries::{
        segment,
        walk,
        Entries, //
    },
    part,
    split,
    ForeignTable,
    Segment, //
};
use crate::shared::{
    ext::base::device::{
        as_raw,
        max_segment, //
    },
    prelude::raw::*, //
};
use core::cell::UnsafeCell;
use kernel::{
    device::Device,
    dma::DataDirection, //
};

/// The memory belongs to the owner of the table, who also maps the table.
pub enum Owned {}

/// The memory belongs to another owner for `'a`, and a mapping, if any, too.
pub struct Borrowed<'a>(PhantomData<&'a ForeignTable>);

/// What the entries of a table are, and how the entries must be unmapped.
enum Mapping {
    /// Struct pages.
    None,
    /// Struct pages with DMA addresses: `dma_map_sgtable()` mapped the table for this device, in
    /// both directions.
    Pages(ARef<Device>),
    /// DMA addresses. Each entry was mapped separately for this device, as device memory.
    Mmio(ARef<Device>),
    /// DMA addresses that need no unmapping.
    Fixed,
}

/// A table with an entry for each of some segments. Drop unmaps the entries.
///
/// # Invariants
///
/// - The first `nents` entries are as `mapping` says; all entries if `mapping` is
///   [`Mapping::None`].
/// - Struct pages are valid until the table is dropped if `T` is [`Owned`], and for `'a` if `T` is
///   [`Borrowed`].
pub struct Table<T = Borrowed<'static>> {
    entries: Entries,
    mapping: Mapping,
    _memory: PhantomData<T>,
}

// SAFETY: A table is not bound to a task.
unsafe impl Send for Table<Owned> {}

impl<T> Table<T> {
    /// Allocates a table with one entry for each of `n` `segments`, and calls `fill` for each entry, with the
    /// segment, to make the entry as `mapping` says. Returns the error of `fill`, and `EINVAL` if there are no
    /// segments, there are less than `n`, or a segment is 4 GiB or longer.
    fn build(
        n: usize,
        segments: impl Iterator<Item = Segment>,
        mapping: Mapping,
        fill: impl Fn(*mut bindings::scatterlist, u64, u32) -> Result,
    ) -> Result<Self> {
        // INVARIANT: The loop below fills the entries.
        let mut this = Self {
            entries: Entries::new(n.try_into()?)?,
            mapping,
            _memory: PhantomData,
        };
        // INVARIANT: No entry is filled yet.
        this.entries.as_mut().nents = 0;
        // SAFETY: The list has `n` entries, and does not move during the loop.
        for (sg, s) in unsafe { walk(this.entries.first(), n) }.zip(segments) {
            fill(sg, s.addr, s.len.try_into()?)?;
            // INVARIANT: This entry is filled now.
            this.entries.as_mut().nents += 1;
        }
        if this.entries.table().nents < this.entries.len() {
            return Err(EINVAL);
        }
        Ok(this)
    }

    /// Creates a table of memory with struct pages, with one entry for each of `n` `segments`, which
    /// are physical addresses of whole pages. Fails as [`Self::build`].
    ///
    /// # Safety
    ///
    /// All pages must have struct pages, which must be valid until the table is dropped if `T` is
    /// [`Owned`], and for `'a` if `T` is [`Borrowed`].
    unsafe fn from_pages(n: usize, segments: impl Iterator<Item = Segment>) -> Result<Self> {
        // INVARIANT: By the safety requirements the pages are valid for long enough.
        Self::build(n, segments, Mapping::None, |sg, phys, len| {
            // SAFETY: `sg` is an entry of the new table. By the safety requirements the pages exist.
            unsafe { helpers::ext_sg_set_phys(sg, phys, len) };
            Ok(())
        })
    }

    /// Returns whether the entries have DMA addresses. Otherwise the entries only have pages.
    pub fn is_mapped(&self) -> bool {
        !matches!(self.mapping, Mapping::None)
    }

    /// Returns the number of entries with a DMA address, or `None` if the table is not mapped.
    pub(crate) fn nents(&self) -> Option<u32> {
        self.is_mapped().then(|| self.entries.table().nents)
    }

    /// Returns a copy of the C structure. C code may read the list of the copy while this object is
    /// not changed, moved or dropped.
    pub(crate) fn as_raw(&self) -> bindings::sg_table {
        self.entries.table()
    }

    /// Iterates over the segments: DMA addresses if [`Self::is_mapped`], else physical addresses.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        // CAST: `usize` has at least 32 bits.
        let n = self.nents().unwrap_or(u32::MAX) as usize;
        let is_mapped = self.is_mapped();
        self.entries.iter().take(n).map(move |sg| {
            // SAFETY: The entry is valid. By the type invariants the entry has a DMA address if the
            // table is mapped, and pages otherwise.
            unsafe { segment(sg, is_mapped) }
        })
    }

    /// Unmaps the table. Does nothing if the table is not mapped. A table without struct pages is
    /// empty afterwards. Context: may sleep.
    pub(in crate::shared::ext) fn unmap(&mut self) {
        let dir = DataDirection::Bidirectional.into();
        match mem::replace(&mut self.mapping, Mapping::None) {
            Mapping::None => return,
            Mapping::Pages(dev) => {
                // SAFETY: By the type invariants the table is mapped for this device in this
                // direction.
                unsafe { bindings::dma_unmap_sgtable(as_raw(&dev), self.entries.as_mut(), dir, 0) };
                return;
            }
            Mapping::Mmio(dev) => {
                // CAST: `usize` has at least 32 bits.
                let n = self.entries.table().nents as usize;
                for sg in self.entries.iter().take(n) {
                    // SAFETY: By the type invariants this entry is mapped for this device.
                    // CAST: `usize` has at least 32 bits.
                    unsafe {
                        let Segment { addr, len } = segment(sg, true);
                        bindings::dma_unmap_resource(as_raw(&dev), addr, len as usize, dir, 0)
                    };
                }
            }
            Mapping::Fixed => {}
        }
        // INVARIANT: Only pages may be left.
        self.entries = Entries::empty();
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        self.unmap();
    }
}

impl Table<Owned> {
    pub(in crate::shared::ext) fn empty() -> Self {
        // INVARIANT: There are no entries.
        Self {
            entries: Entries::empty(),
            mapping: Mapping::None,
            _memory: PhantomData,
        }
    }

    /// Creates a table of device memory, without struct pages, that is mapped for `dev`: by bus
    /// addresses, which are physical addresses plus `bus_offset`, or by the DMA API.
    ///
    /// The table has one entry for each of `segments`, which are physical addresses. No segment
    /// may be longer than [`max_segment`] of `dev`. `dev` must stay bound to a driver until the
    /// table is unmapped.
    ///
    /// Returns `EIO` if the DMA API fails, and `EINVAL` if there are no segments. Context: may
    /// sleep.
    ///
    /// # Safety
    ///
    /// - `segments` must lie in memory BARs: with other addresses `dev` could access any host
    ///   memory.
    /// - `bus_offset` must be the bus offset of the BAR of all `segments`.
    pub(in crate::shared::ext) unsafe fn of_mmio(
        segments: impl Iterator<Item = Segment> + Clone,
        dev: &Device,
        bus_offset: Option<i64>,
    ) -> Result<Self> {
        let mapping = match bus_offset {
            Some(_) => Mapping::Fixed,
            None => Mapping::Mmio(dev.into()),
        };
        let n = segments.clone().count();
        // INVARIANT: Each entry gets a DMA address, from the DMA API with `Mapping::Mmio`.
        Self::build(n, segments, mapping, |sg, phys, len| {
            let addr = match bus_offset {
                Some(offset) => phys.wrapping_add_signed(offset),
                // SAFETY: By the safety requirements `phys` is an address in a memory BAR.
                None => unsafe { map_mmio(dev, phys, len) }?,
            };
            // SAFETY: `sg` is an entry of the new table.
            unsafe { helpers::ext_sg_set_dma(sg, addr, len) };
            Ok(())
        })
    }
}

/// Maps device memory in both directions.
///
/// # Safety
///
/// The memory must lie in a memory BAR.
unsafe fn map_mmio(dev: &Device, phys: u64, len: u32) -> Result<u64> {
    let (dev, dir) = (as_raw(dev), DataDirection::Bidirectional.into());
    // SAFETY: `dev` is valid while it is borrowed, and by the safety requirements this is device memory.
    // CAST: `usize` has at least 32 bits.
    let addr = unsafe { bindings::dma_map_resource(dev, phys, len as usize, dir, 0) };
    // SAFETY: `dev` is valid while it is borrowed.
    to_result(unsafe { helpers::dma_mapping_error(dev, addr) }).map_err(|_| EIO)?;
    Ok(addr)
}

impl<'a> Table<Borrowed<'a>> {
    /// Creates a table of the struct pages of `foreign`, of the [`part`] with `skip` and `len`. No
    /// entry is longer than `max` bytes; see [`split`].
    ///
    /// Returns `None` if `foreign` is empty or an entry has no struct page. Context: may sleep.
    pub fn of_pages(
        foreign: &'a ForeignTable,
        skip: u64,
        len: u64,
        max: u32,
    ) -> Result<Option<Self>> {
        if !foreign.has_pages() {
            return Ok(None);
        }
        let (n, segments) = part(foreign.pages().flatten(), skip, len, max)?;
        // SAFETY: Each segment is a part of an entry with struct pages, and the pages are valid
        // for `'a`.
        unsafe { Self::from_pages(n, segments) }.map(Some)
    }

    /// Creates a table of `n` DMA addresses, without pages. Returns `EINVAL` if there are no segments, or
    /// less than `n`, or a segment is 4 GiB or longer. Context: may sleep.
    pub fn of_dma(n: usize, segments: impl Iterator<Item = Segment>) -> Result<Self> {
        // INVARIANT: Each entry gets a DMA address.
        Self::build(n, segments, Mapping::Fixed, |sg, addr, len| {
            // SAFETY: `sg` is an entry of the new table.
            unsafe { helpers::ext_sg_set_dma(sg, addr, len) };
            Ok(())
        })
    }

    /// Creates a table that is the first `n` entries of a list of other code, with DMA addresses.
    ///
    /// # Safety
    ///
    /// `first` must head a list of at least `n` mapped entries for `'a`.
    pub(super) unsafe fn borrowed(first: *mut bindings::scatterlist, n: usize) -> Result<Self> {
        let n = n.try_into()?;
        // INVARIANT: By the safety requirements the entries have DMA addresses, which the other code
        // unmaps.
        Ok(Self {
            // SAFETY: By the safety requirements the list has the entries for `'a`.
            entries: unsafe { Entries::borrowed(first, n) },
            mapping: Mapping::Fixed,
            _memory: PhantomData,
        })
    }

    /// Gives the table to C code, which may read and change the entries until the table is passed
    /// to [`Self::from_raw`].
    pub fn into_raw(mut table: KBox<Self>) -> *mut bindings::sg_table {
        // The object does not move any more, so the pointer to the list can be set.
        table.entries.as_mut();
        let table = KBox::into_raw(table);
        // SAFETY: The box has left a valid object; only the address of a field is taken.
        unsafe { &raw mut (*table).entries.table }
    }

    /// Takes over a table from C code.
    ///
    /// # Safety
    ///
    /// - `raw` must come from [`Self::into_raw`], and must be passed to this function only once.
    /// - The C code must not use the table any more.
    pub unsafe fn from_raw(raw: *mut bindings::sg_table) -> KBox<Self> {
        // SAFETY: By the safety requirements `raw` is the field of an object that `KBox::into_raw`
        // returned and that has no other user.
        unsafe {
            let entries = kernel::container_of!(raw, Entries, table);
            KBox::from_raw(kernel::container_of!(entries, Self, entries))
        }
    }
}

/// A table that C code uses in its place, any number of times.
pub struct FixedTable(UnsafeCell<Table>);

// SAFETY: A table is not bound to a task.
unsafe impl Send for FixedTable {}
// SAFETY: Only C code uses the entries, by its own rules.
unsafe impl Sync for FixedTable {}

impl FixedTable {
    /// Takes a table for C code.
    pub fn new(table: Table) -> Self {
        Self(UnsafeCell::new(table))
    }

    /// Returns the table for C code, which may read and change the entries until this object is moved or
    /// dropped.
    pub fn as_raw(&self) -> *mut bindings::sg_table {
        // SAFETY: The object is valid, and no other Rust code has a reference to the table.
        unsafe { (*self.0.get()).entries.as_mut() }
    }
}

/// Memory with struct pages.
///
/// # Safety
///
/// The segments must be physical addresses of whole pages with struct pages, which stay valid until
/// the object is dropped. The segments must not change.
pub unsafe trait Segments {
    fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_;
}

/// A table of memory with struct pages, with one entry for each segment.
pub struct PageTable<T: Segments> {
    // Fields drop in this order: a table must not outlive its memory.
    table: Table<Owned>,
    memory: T,
}

impl<T: Segments> PageTable<T> {
    /// Creates a table of `memory`. Returns `EINVAL` if `memory` is empty. Context: may sleep.
    pub fn new(memory: T) -> Result<Self> {
        Ok(Self {
            table: Self::build(&memory, u32::MAX)?,
            memory,
        })
    }

    /// Builds a table with entries of at most `max` bytes. The table must not outlive `memory`.
    fn build(memory: &T, max: u32) -> Result<Table<Owned>> {
        let segments = split(memory.segments(), max)?;
        // SAFETY: By the safety requirements of `Segments` the pages are valid until `memory` is
        // dropped. `PageTable` drops the table before `memory`.
        unsafe { Table::from_pages(segments.clone().count(), segments) }
    }

    pub fn table(&self) -> &Table<Owned> {
        &self.table
    }

    /// Maps the table for `dev`, in both directions. `dev` must stay bound to a driver until the
    /// table is unmapped. Builds the table again if an entry is too long for `dev`.
    ///
    /// Returns `EBUSY` if the table is mapped already, else the error of the DMA API: `EREMOTEIO`
    /// if `dev` cannot reach peer-to-peer memory. Context: may sleep.
    pub fn map(&mut self, dev: &Device) -> Result {
        if self.table.is_mapped() {
            return Err(EBUSY);
        }
        let max = max_segment(dev);
        if self.table.segments().any(|entry| entry.len > max.into()) {
            self.table = Self::build(&self.memory, max)?;
        }
        let (list, dir) = (self.table.entries.as_mut(), DataDirection::Bidirectional);
        // SAFETY: `dev` is valid while borrowed; by the type invariants the entries are pages.
        to_result(unsafe { helpers::ext_dma_map_sgtable(as_raw(dev), list, dir.into(), 0) })?;
        // INVARIANT: The call above mapped the table.
        self.table.mapping = Mapping::Pages(dev.into());
        Ok(())
    }

    /// Reverts [`PageTable::map`]. Does nothing if the table is not mapped. Context: may sleep.
    pub fn unmap(&mut self) {
        self.table.unmap();
    }
}

#[kunit_tests(ext_sg_table)]
mod tests {
    use super::{
        super::entries::IN_ONE_PAGE,
        *, //
    };
    use kernel::page::PAGE_SIZE;

    const P: u64 = PAGE_SIZE as u64;

    #[test]
    fn a_part_has_any_number_of_segments() -> Result {
        const N: u64 = 300_000;
        let apart = (0..N).map(|i| Segment {
            addr: 2 * i * P,
            len: P,
        });
        let (n, segments) = part(apart.clone(), P, (N - 1) * P, u32::MAX)?;
        let table = Table::of_dma(n, segments)?;
        assert!(table.segments().eq(apart.skip(1)));
        Ok(())
    }

    /// Returns whether the list of `n` entries of 2 pages, `gap` bytes apart, is borrowed as the part with
    /// `skip` and `len`, in pages, for which so many are mapped, or fails unless the part has `len` pages.
    fn is_borrowed(n: u64, gap: u64, (skip, len): (u64, u64)) -> Result<bool> {
        let entries = (0..n).map(|i| Segment {
            addr: P + i * (2 * P + gap),
            len: 2 * P,
        });
        let mapped = (skip + len).div_ceil(2);
        let list = Table::of_dma(n as usize, entries)?;
        let foreign = ForeignTable::new();
        // SAFETY: The table is zero, and `list` has the entries of its copy.
        unsafe { *foreign.as_raw() = list.as_raw() };
        // SAFETY: The list neither changes nor ends before the table of the part.
        let table = unsafe {
            foreign
                .part(mapped as usize, skip * P, len * P, u32::MAX)?
                .borrow()
        }?;
        assert_eq!(table.segments().map(|s| s.len).sum::<u64>(), len * P);
        Ok(table.as_raw().sgl == list.as_raw().sgl)
    }

    #[test]
    fn a_long_list_is_borrowed_if_nothing_is_cut_or_joined() -> Result {
        let most = u64::from(IN_ONE_PAGE);
        assert!(is_borrowed(most + 1, P, (0, 2 * most + 2))?);
        assert!(is_borrowed(most + 9, P, (0, 2 * most + 2))?);
        assert!(!is_borrowed(most, P, (0, 2 * most))?);
        assert!(!is_borrowed(most + 9, 0, (0, 2 * most + 18))?);
        assert!(!is_borrowed(most + 9, P, (1, 2 * most + 2))?);
        assert!(!is_borrowed(most + 9, P, (0, 2 * most + 3))?);
        assert!(is_borrowed(most + 1, P, (0, 2 * most + 3)).is_err());
        // Entries that begin inside a page.
        assert!(is_borrowed(most + 9, P / 2, (0, 2 * most + 18)).is_err());
        Ok(())
    }
}
