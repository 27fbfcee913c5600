// SPDX-License-Identifier: GPL-2.0

//! Memory keys: who may access which memory by them, and where it is.

mod checks;
mod commands;
mod describe;

use crate::objects::NULL_MKEY;
use crate::prelude::*;

/// How deep keys may refer to keys: `max_indirection` of the capabilities.
pub const MAX_INDIRECTION: u32 = 4;
/// The lowest index that is given out; the keys with a meaning of their own are below.
const FIRST_INDEX: u32 = 0x10;
/// In the place of a key in the first entry of a list: what follows is repeated at a distance.
const STRIDED: u32 = 0x400;
/// An entry of a translation table of pages: the address, above the permissions to read and write.
const PRESENT: u64 = READ | WRITE;
const READ: u64 = 1;
const WRITE: u64 = 2;

/// An access, as permissions of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    LocalRead,
    LocalWrite,
    RemoteRead,
    RemoteWrite,
    Atomic,
}

impl Access {
    pub fn writes(self) -> bool {
        !matches!(self, Self::LocalRead | Self::RemoteRead)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Physical,
    /// By a table of pages.
    Pages,
    /// By a list of ranges of other keys, of any length.
    Ranges,
    /// By a list of ranges of other keys, all of the same length.
    FixedRanges,
}

#[derive(Clone)]
pub struct Mkey {
    /// The context, as the driver writes it.
    context: Vec<u8>,
    pub mode: Mode,
    pub table: Vec<u8>,
    pub umem: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessError {
    NoKey,
    /// The key has another low byte by now.
    Stale,
    Free,
    OtherPd,
    OtherQp,
    Permission,
    Bounds,
    /// Keys refer to keys too deeply, or to nothing.
    Indirection,
    /// The page is not there: a page fault at this address of this key.
    NotPresent {
        key: u32,
        va: u64,
    },
    Unmapped(u64),
    /// The address of a page is not a multiple of its size.
    Alignment,
}

impl From<Unmapped> for AccessError {
    fn from(bad: Unmapped) -> Self {
        Self::Unmapped(bad.0)
    }
}

/// The queue pair and protection domain that a request accesses memory for.
#[derive(Clone, Copy)]
pub struct Requester {
    /// The protection domain; the device itself is in none.
    pub pd: Option<u32>,
    pub qpn: u32,
}

#[derive(Clone, Copy)]
pub struct Request {
    pub key: u32,
    pub va: u64,
    pub len: u64,
    pub access: Access,
    pub requester: Requester,
}

#[derive(Default)]
pub struct Mkeys {
    pub all: BTreeMap<u32, Mkey>,
}

/// Makes a method of each field of the context.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $field:path;)*) => {
        $($(#[$doc])* pub fn $name(&self) -> $type { $field.get(&self.context) as $type })*
    };
}

impl Mkey {
    pub fn new(context: &[u8]) -> Result<Self, Refusal> {
        let mode = mkc::access_mode_4_2.get(context) << 2 | mkc::access_mode_1_0.get(context);
        let modes = [Mode::Physical, Mode::Pages, Mode::Ranges, Mode::FixedRanges];
        let why = format!("access mode {mode} is not announced");
        let mode = modes.get(mode as usize);
        let mode = *mode.ok_or(Refusal::new(BAD_PARAM, why))?;
        let mut context = context.to_vec();
        context.resize(mkc::BYTES, 0);
        Ok(Self {
            context,
            mode,
            table: Vec::new(),
            umem: None,
        })
    }

    pub fn has(&self, field: Field) -> bool {
        field.is_set(&self.context)
    }

    pub fn set(&mut self, field: Field, value: u64) {
        field.set(&mut self.context, value);
    }

    pub fn take(&mut self, field: Field, from: &[u8]) {
        self.set(field, field.get(from));
    }

    pub fn free(&self) -> bool {
        self.has(mkc::free)
    }

    fields! {
        /// The low byte of the key; the index is above it.
        variant: u8 = mkc::mkey_7_0;
        /// The queue pair that alone may use the key; all ones for any.
        qpn: u32 = mkc::qpn;
        pd: u32 = mkc::pd;
        start: u64 = mkc::start_addr;
        /// Counts for nothing in a key of all addresses.
        len: u64 = mkc::len;
        log_page: u32 = mkc::log_page_size;
    }

    pub fn page_size(&self) -> u64 {
        1 << self.log_page()
    }

    /// Returns how many bytes the driver may write to the table.
    pub fn table_size(&self) -> usize {
        mkc::translations_octword_size.get(&self.context) as usize * 16
    }

    fn permits(&self, access: Access) -> bool {
        self.has(match access {
            Access::LocalRead => mkc::lr,
            Access::LocalWrite => mkc::lw,
            Access::RemoteRead => mkc::rr,
            Access::RemoteWrite => mkc::rw,
            Access::Atomic => mkc::a,
        })
    }

    fn check(&self, request: &Request) -> Result<(), AccessError> {
        let Request { va, requester, .. } = *request;
        if self.free() {
            return Err(AccessError::Free);
        }
        if requester.pd.is_some_and(|pd| pd != self.pd()) {
            return Err(AccessError::OtherPd);
        }
        if self.qpn() != 0xff_ffff && self.qpn() != requester.qpn {
            return Err(AccessError::OtherQp);
        }
        if !self.permits(request.access) {
            return Err(AccessError::Permission);
        }
        let end = va.checked_add(request.len).ok_or(AccessError::Bounds)?;
        if !self.has(mkc::length64) && (va < self.start() || end - self.start() > self.len()) {
            return Err(AccessError::Bounds);
        }
        Ok(())
    }

    /// Returns the page that `va` is in, and the offset in it.
    fn page(&self, va: u64) -> (u64, u64) {
        let within = self.page_size() - 1;
        let offset = va.wrapping_sub(self.start() & !within);
        (offset >> self.log_page(), offset & within)
    }
}

impl Mkeys {
    pub fn used(&self) -> impl Iterator<Item = (u32, &Mkey)> {
        self.all.iter().map(|(index, mkey)| (*index, mkey))
    }

    pub fn add(&mut self, mkey: Mkey) -> u32 {
        // One that was in use is used again at once, as by firmware: the low byte tells the two apart.
        let free = (FIRST_INDEX..).find(|index| !self.all.contains_key(index));
        let index = free.unwrap_or(FIRST_INDEX);
        self.all.insert(index, mkey);
        index
    }

    fn find(&self, key: u32) -> Result<&Mkey, AccessError> {
        let mkey = self.all.get(&(key >> 8)).ok_or(AccessError::NoKey)?;
        if mkey.variant() != key as u8 {
            return Err(AccessError::Stale);
        }
        Ok(mkey)
    }

    /// Fails unless the access is permitted, wherever the bytes are.
    pub fn check(&self, request: &Request) -> Result<(), AccessError> {
        if request.key == NULL_MKEY {
            return Ok(());
        }
        self.find(request.key)?.check(request)
    }

    /// Returns the indices of a key and of all keys that it refers to.
    pub fn below(&self, key: u32) -> Vec<u32> {
        let mut all = vec![key >> 8];
        let mut seen = 0;
        while let Some(index) = all.get(seen) {
            seen += 1;
            let Some(mkey) = self.all.get(index) else {
                continue;
            };
            if matches!(mkey.mode, Mode::Ranges | Mode::FixedRanges) {
                for entry in mkey.table.chunks_exact(16) {
                    let index = be32(entry, 4) >> 8;
                    if !all.contains(&index) {
                        all.push(index);
                    }
                }
            }
        }
        all
    }

    pub fn translate(&self, dma: &Dma, request: &Request) -> Result<Spans, AccessError> {
        self.translate_at(dma, request, 0)
    }

    fn translate_at(&self, dma: &Dma, request: &Request, depth: u32) -> Result<Spans, AccessError> {
        let Request { key, va, len, .. } = *request;
        let writes = request.access.writes();
        if depth > MAX_INDIRECTION {
            return Err(AccessError::Indirection);
        }
        if key == NULL_MKEY {
            return Err(AccessError::NotPresent { key, va });
        }
        let mkey = self.find(key)?;
        mkey.check(request)?;
        match mkey.mode {
            Mode::Physical => Ok(dma.spans(va, len, writes)?),
            Mode::Pages => pages(mkey, dma, request),
            Mode::Ranges | Mode::FixedRanges => {
                // Only the outermost key says what the other end may do.
                let access = match writes {
                    true => Access::LocalWrite,
                    false => Access::LocalRead,
                };
                let mut spans = Spans::new();
                for (key, va, len) in ranges(mkey, va, len)? {
                    let inner = Request {
                        key,
                        va,
                        len,
                        access,
                        ..*request
                    };
                    spans.extend(self.translate_at(dma, &inner, depth + 1)?);
                }
                Ok(spans)
            }
        }
    }
}

fn pages(mkey: &Mkey, dma: &Dma, request: &Request) -> Result<Spans, AccessError> {
    let (mut va, mut len, key) = (request.va, request.len, request.key);
    let (writes, mut spans) = (request.access.writes(), Spans::new());
    while len > 0 {
        let (page, offset) = mkey.page(va);
        let entry = be64(&mkey.table, (page as usize).saturating_mul(8));
        if entry & PRESENT == 0 || (writes && entry & WRITE == 0) {
            return Err(AccessError::NotPresent { key, va });
        }
        let size = mkey.page_size();
        if entry & !PRESENT & (size - 1) != 0 {
            error!("mkey {key:#x}: {entry:#x} is no address of a page of {size:#x} bytes");
            return Err(AccessError::Alignment);
        }
        let here = len.min(size - offset);
        let address = (entry & !PRESENT) + offset;
        spans.extend(dma.spans(address, here, writes)?);
        va += here;
        len -= here;
    }
    Ok(spans)
}

/// Returns the ranges of other keys that `len` bytes at `va` are made of: key, address, length.
fn ranges(mkey: &Mkey, va: u64, len: u64) -> Result<Vec<(u32, u64, u64)>, AccessError> {
    let mut found = Vec::new();
    let (mut skip, mut left) = (va.wrapping_sub(mkey.start()), len);
    let first = if mkey.mode == Mode::FixedRanges {
        let (page, offset) = mkey.page(va);
        skip = offset;
        page as usize
    } else {
        0
    };
    if be32(&mkey.table, 4) == STRIDED {
        return strided(&mkey.table, skip, left);
    }
    for entry in mkey.table.chunks_exact(16).skip(first) {
        if left == 0 {
            break;
        }
        let size = match mkey.mode {
            Mode::FixedRanges => mkey.page_size(),
            _ => u64::from(be32(entry, 0)),
        };
        if skip >= size {
            skip -= size;
            continue;
        }
        let here = left.min(size - skip);
        found.push((be32(entry, 4), be64(entry, 8).wrapping_add(skip), here));
        left -= here;
        skip = 0;
    }
    if left > 0 {
        return Err(AccessError::Indirection);
    }
    Ok(found)
}

/// Returns the same for a list whose first entry says how often, and is followed by so many that each
/// have a length, and a distance from one repetition to the next.
fn strided(table: &[u8], skip: u64, mut left: u64) -> Result<Vec<(u32, u64, u64)>, AccessError> {
    let (row, count) = (u64::from(be32(table, 0)), u64::from(be32(table, 8)));
    let entries = usize::from(be16(table, 14));
    let end = skip.checked_add(left).ok_or(AccessError::Indirection)?;
    if row == 0 || end > row.saturating_mul(count) || table.len() < (entries + 1) * 16 {
        return Err(AccessError::Indirection);
    }
    let (mut found, mut skip) = (Vec::new(), skip);
    let first = skip / row;
    skip %= row;
    for n in first..count {
        for entry in table[16..].chunks_exact(16).take(entries) {
            let (stride, size) = (u64::from(be16(entry, 0)), u64::from(be16(entry, 2)));
            if skip >= size {
                skip -= size;
                continue;
            }
            let here = left.min(size - skip);
            let va = be64(entry, 8).wrapping_add(n * stride + skip);
            found.push((be32(entry, 4), va, here));
            (left, skip) = (left - here, 0);
            if left == 0 {
                return Ok(found);
            }
        }
    }
    Err(AccessError::Indirection)
}

#[cfg(test)]
pub mod tests;
