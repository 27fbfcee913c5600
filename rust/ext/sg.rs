// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables: ones that foreign code fills, and ones that we build.
//!
//! C header: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h).

use super::bindings::helpers;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

/// A piece of an address space: physical, or what a device sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it starts.
    pub addr: u64,
    /// How many bytes it has.
    pub len: u64,
}

/// A `struct sg_table` that starts empty and that foreign code fills, changes and frees.
///
/// This object owns only the structure; the list behind it is the foreign code's, and is never
/// written here.
///
/// # Invariants
///
/// Between two calls of that foreign code the table is either all zero or one whose `sgl` heads a
/// list of at least `orig_nents` entries.
pub struct ForeignTable {
    raw: KBox<Opaque<bindings::sg_table>>,
}

// SAFETY: The table may be used from any thread.
unsafe impl Send for ForeignTable {}
// SAFETY: `&self` methods only read.
unsafe impl Sync for ForeignTable {}

impl ForeignTable {
    /// Makes an empty table.
    pub fn new() -> Result<Self> {
        // INVARIANT: All zero.
        Ok(Self {
            raw: KBox::new(Opaque::zeroed(), GFP_KERNEL_ACCOUNT)?,
        })
    }

    /// The table, for foreign code to fill. Whoever lets code write through this pointer answers
    /// for the type invariant, and for calling nothing else here meanwhile.
    pub fn as_raw(&self) -> *mut bindings::sg_table {
        self.raw.get()
    }

    /// How many entries the list has.
    pub fn entries(&self) -> usize {
        // SAFETY: By the type invariants the table may be read.
        let (sgl, n) = unsafe { ((*self.as_raw()).sgl, (*self.as_raw()).orig_nents) };
        if sgl.is_null() {
            0
        } else {
            n as usize
        }
    }

    /// The memory that the first `n` entries stand for, as physical addresses; `None` for an
    /// entry without a struct page.
    pub fn pages(&self, n: usize) -> impl Iterator<Item = Option<Segment>> + '_ {
        self.walk(n, |sg| {
            // SAFETY: `sg` is an entry of the list.
            if unsafe { helpers::ext_sg_has_page(sg) } {
                // SAFETY: As above, and it has a page.
                let addr = unsafe { helpers::ext_sg_phys(sg) };
                // SAFETY: `sg` is an entry of the list.
                let len = u64::from(unsafe { (*sg).length });
                Some(Segment { addr, len })
            } else {
                None
            }
        })
    }

    /// What a device sees of the first `n` entries.
    pub fn dma(&self, n: usize) -> impl Iterator<Item = Segment> + '_ {
        self.walk(n, |sg| Segment {
            // SAFETY: `sg` is an entry of the list.
            addr: unsafe { bindings::sg_dma_address(sg) },
            // SAFETY: As above.
            len: u64::from(unsafe { bindings::sg_dma_len(sg) }),
        })
    }

    /// Walks the first `n` entries.
    fn walk<'a, R: 'a>(
        &'a self,
        n: usize,
        read: impl Fn(*mut bindings::scatterlist) -> R + 'a,
    ) -> impl Iterator<Item = R> + 'a {
        // SAFETY: By the type invariants the table may be read.
        let mut sg = unsafe { (*self.as_raw()).sgl };
        let mut left = n.min(self.entries());
        core::iter::from_fn(move || {
            if left == 0 || sg.is_null() {
                return None;
            }
            left -= 1;
            let item = read(sg);
            // SAFETY: `sg` is an entry of the list.
            sg = unsafe { bindings::sg_next(sg) };
            Some(item)
        })
    }
}

/// A table of our own, for a device to be told of.
///
/// # Invariants
///
/// The table was allocated by `sg_alloc_table()`. Where `mapped` is false every entry refers to
/// struct pages that are valid for `'a`; where it is true every entry has a DMA address.
pub struct Table<'a> {
    raw: Opaque<bindings::sg_table>,
    mapped: bool,
    _pages: PhantomData<&'a ForeignTable>,
}

impl<'a> Table<'a> {
    /// Allocates a table with an entry for each of `segments`, and fills each by `fill`.
    fn build(
        segments: &[Segment],
        mapped: bool,
        fill: impl Fn(*mut bindings::scatterlist, Segment, u32),
    ) -> Result<Self> {
        let n = u32::try_from(segments.len()).map_err(|_| EINVAL)?;
        let raw = Opaque::zeroed();
        // SAFETY: `raw` is a table to initialise; for 0 entries the call itself returns -EINVAL.
        to_result(unsafe { bindings::sg_alloc_table(raw.get(), n, bindings::GFP_KERNEL_ACCOUNT) })?;
        // INVARIANT: Allocated; what `fill` does is for the callers to argue.
        let table = Self {
            raw,
            mapped,
            _pages: PhantomData,
        };
        let (mut sg, _) = table.as_raw();
        for s in segments {
            fill(sg, *s, u32::try_from(s.len).map_err(|_| EINVAL)?);
            // SAFETY: There are as many entries as segments.
            sg = unsafe { bindings::sg_next(sg) };
        }
        Ok(table)
    }

    /// A table of the struct pages of `foreign`, cut as by [`cut`]. `None` where an entry of
    /// `foreign` has none. May sleep.
    pub fn of_pages(
        foreign: &'a ForeignTable,
        skip: u64,
        len: u64,
        max: u64,
    ) -> Result<Option<Self>> {
        let n = foreign.entries();
        if n == 0 || foreign.pages(n).any(|s| s.is_none()) {
            return Ok(None);
        }
        let segments = cut(foreign.pages(n).flatten(), skip, len, max)?;
        // INVARIANT: Each segment is a piece of what entries with struct pages stand for.
        // SAFETY: `sg` is an entry of the new table.
        Self::build(&segments, false, |sg, s, len| unsafe {
            helpers::ext_sg_set_phys(sg, s.addr, len)
        })
        .map(Some)
    }

    /// A table of DMA addresses, without pages. May sleep.
    pub fn of_dma(segments: &[Segment]) -> Result<Self> {
        // INVARIANT: Each entry gets its DMA address.
        // SAFETY: `sg` is an entry of the new table.
        Self::build(segments, true, |sg, s, len| unsafe {
            helpers::ext_sg_set_dma(sg, s.addr, len)
        })
    }

    /// Have the entries DMA addresses? If not, they have pages.
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// The list and the number of its entries.
    pub fn as_raw(&self) -> (*mut bindings::scatterlist, u32) {
        // SAFETY: By the type invariants the table may be read.
        unsafe { ((*self.raw.get()).sgl, (*self.raw.get()).orig_nents) }
    }

    /// Lends the table to C code, which may read and change the entries, until
    /// [`Self::from_raw`] takes it back.
    pub fn into_raw(table: KBox<Self>) -> *mut bindings::sg_table {
        let table = KBox::into_raw(table);
        // SAFETY: The object is valid; only the address is taken.
        Opaque::cast_into(unsafe { &raw const (*table).raw })
    }

    /// # Safety
    ///
    /// `raw` must be from [`Self::into_raw`], and not be used any more.
    pub unsafe fn from_raw(raw: *mut bindings::sg_table) -> KBox<Self> {
        let raw: *mut Opaque<bindings::sg_table> = raw.cast();
        // SAFETY: By the caller's promise it is the field of an object that a box was made of.
        unsafe { KBox::from_raw(kernel::container_of!(raw, Self, raw)) }
    }

    /// The segments, as pages or as DMA addresses.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let (mut sg, mut left) = self.as_raw();
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            left -= 1;
            // SAFETY: `sg` is an entry of the list, with what the type invariants say.
            let item = unsafe {
                if self.mapped {
                    Segment {
                        addr: bindings::sg_dma_address(sg),
                        len: bindings::sg_dma_len(sg).into(),
                    }
                } else {
                    Segment {
                        addr: helpers::ext_sg_phys(sg),
                        len: (*sg).length.into(),
                    }
                }
            };
            // SAFETY: `sg` is an entry of the list.
            sg = unsafe { bindings::sg_next(sg) };
            Some(item)
        })
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::sg_free_table(self.raw.get()) };
    }
}

/// Cuts the piece `[skip, skip + len)` out of `segments` laid end to end, joins neighbours, and
/// splits what is longer than `max`.
///
/// `EINVAL` where the segments do not reach, are not whole pages, or are empty; `ENOMEM`.
pub fn cut(
    segments: impl Iterator<Item = Segment>,
    mut skip: u64,
    len: u64,
    max: u64,
) -> Result<KVec<Segment>> {
    let page = PAGE_SIZE as u64;
    let max = max & !(page - 1);
    let mut out: KVec<Segment> = KVec::new();
    let mut left = len;

    if max == 0 || len == 0 {
        return Err(EINVAL);
    }
    for mut s in segments {
        if left == 0 {
            break;
        }
        if s.len == 0 || s.addr % page != 0 || s.len % page != 0 {
            return Err(EINVAL);
        }
        if skip >= s.len {
            skip -= s.len;
            continue;
        }
        s.addr += skip;
        s.len = (s.len - skip).min(left);
        skip = 0;
        left -= s.len;

        while s.len > 0 {
            // A run of one address after the other is one segment, up to `max`.
            let room = match out.last_mut() {
                Some(last) if last.addr + last.len == s.addr => max - last.len,
                _ => 0,
            };
            let take = s.len.min(if room > 0 { room } else { max });
            match out.last_mut() {
                Some(last) if room > 0 => last.len += take,
                _ => out.push(
                    Segment {
                        addr: s.addr,
                        len: take,
                    },
                    GFP_KERNEL_ACCOUNT,
                )?,
            }
            s.addr += take;
            s.len -= take;
        }
    }
    if left > 0 {
        return Err(EINVAL);
    }
    Ok(out)
}

#[cfg(ext_tests)]
#[kunit_tests(ext_sg)]
mod tests {
    use super::*;

    /// Cuts and compares.
    fn check(input: &[(u64, u64)], (skip, len, max): (u64, u64, u64), want: &[(u64, u64)]) -> bool {
        let segments = input.iter().map(|&(addr, len)| Segment { addr, len });
        match cut(segments, skip, len, max) {
            Ok(out) => {
                out.len() == want.len()
                    && out
                        .iter()
                        .zip(want)
                        .all(|(s, &(a, l))| s.addr == a && s.len == l)
            }
            Err(_) => want.is_empty(),
        }
    }

    const BIG: u64 = 1 << 30;

    #[test]
    fn neighbours_become_one() {
        let pages = [(0x1000, 0x1000), (0x2000, 0x1000), (0x3000, 0x1000)];
        assert!(check(&pages, (0, 0x3000, BIG), &[(0x1000, 0x3000)]));
    }

    #[test]
    fn gaps_stay() {
        let pages = [(0x1000, 0x1000), (0x8000, 0x1000)];
        assert!(check(&pages, (0, 0x2000, BIG), &pages));
    }

    #[test]
    fn both_ends_are_trimmed() {
        let huge = [(0x20_0000, 0x20_0000), (0x40_0000, 0x20_0000)];
        assert!(check(&huge, (0x3000, 0x1000, BIG), &[(0x20_3000, 0x1000)]));
        assert!(check(
            &huge,
            (0x1f_f000, 0x2000, BIG),
            &[(0x3f_f000, 0x2000)]
        ));
        assert!(check(
            &huge,
            (0x20_0000, 0x1000, BIG),
            &[(0x40_0000, 0x1000)]
        ));
    }

    #[test]
    fn long_runs_are_split_at_the_device_limit() {
        let run = [(0x1_0000, 0x5000)];
        let want = [(0x1_0000, 0x2000), (0x1_2000, 0x2000), (0x1_4000, 0x1000)];
        assert!(check(&run, (0, 0x5000, 0x2fff), &want));
        let pages = [(0x1_0000, 0x1000), (0x1_1000, 0x3000), (0x1_4000, 0x1000)];
        assert!(check(&pages, (0, 0x5000, 0x2000), &want));
    }

    #[test]
    fn bad_tables_are_refused() {
        assert!(check(&[], (0, 0x1000, BIG), &[]));
        assert!(check(&[(0x1000, 0x1000)], (0, 0x2000, BIG), &[]));
        assert!(check(&[(0x1000, 0x1000)], (0x1000, 0x1000, BIG), &[]));
        assert!(check(&[(0x1800, 0x1000)], (0, 0x1000, BIG), &[]));
        assert!(check(&[(0x1000, 0x800)], (0, 0x800, BIG), &[]));
        assert!(check(
            &[(0x1000, 0), (0x1000, 0x1000)],
            (0, 0x1000, BIG),
            &[]
        ));
        assert!(check(&[(0x1000, 0x1000)], (0, 0, BIG), &[]));
        assert!(check(&[(0x1000, 0x1000)], (0, 0x1000, 0xfff), &[]));
    }
}
