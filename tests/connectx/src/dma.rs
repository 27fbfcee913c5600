// SPDX-License-Identifier: GPL-2.0

//! What the device reaches by DMA: the guest's memory and the BARs behind which there is memory,
//! as QEMU maps them, at the addresses that the guest's IOMMU gives them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use crate::bits::be64;
use crate::sys::Mapping;

/// The memory of one file, with the bytes that went through it.
pub struct Backing {
    name: String,
    inode: u64,
    read: Cell<u64>,
    written: Cell<u64>,
}

/// What a mapping permits. That of an IOMMU may be of one direction alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permission {
    pub read: bool,
    pub write: bool,
}

struct Range {
    len: u64,
    memory: Mapping,
    /// The offset of its first byte in the file.
    offset: u64,
    backing: Rc<Backing>,
    permission: Permission,
}

/// What is at some DMA addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// Bytes of a file from this offset on: its name.
    In(String, u64),
    /// Nothing, from this address on.
    Nothing(u64),
}

/// Bytes that are next to each other in one mapping.
#[derive(Clone)]
pub struct Span {
    range: Rc<Range>,
    at: usize,
    len: usize,
}

pub type Spans = Vec<Span>;

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(memory, offset) => write!(f, "{memory}+{offset:#x}"),
            Self::Nothing(at) => write!(f, "nothing+{at:#x}"),
        }
    }
}

/// No memory is mapped at the address, or it may not be accessed so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmapped(pub u64);

#[derive(Default)]
pub struct Dma {
    /// Bus mastering is on: without it the function can access no memory.
    pub master: Cell<bool>,
    ranges: RefCell<BTreeMap<u64, Rc<Range>>>,
    backings: RefCell<Vec<Rc<Backing>>>,
}

impl Dma {
    pub fn map(&self, at: u64, len: u64, file: &File, offset: u64, permission: Permission) {
        let memory = match Mapping::new(file, offset, len as usize, permission.write) {
            Ok(memory) => memory,
            Err(e) => return error!("DMA map of {at:#x}, {len:#x} bytes: {e}"),
        };
        let range = Range {
            len,
            memory,
            offset,
            backing: self.backing(file),
            permission,
        };
        self.ranges.borrow_mut().insert(at, range.into());
    }

    /// Unmaps what lies in the range. A transfer that has begun keeps the memory itself alive.
    pub fn unmap(&self, at: u64, len: u64) {
        let end = at.saturating_add(len);
        self.ranges
            .borrow_mut()
            .retain(|start, range| start.saturating_add(range.len) <= at || *start >= end);
    }

    /// Returns what is mapped at `len` bytes from `at` on, in the order of the addresses.
    pub fn places(&self, mut at: u64, len: u64) -> Vec<Place> {
        let (ranges, end) = (self.ranges.borrow(), at.saturating_add(len));
        let mut places = Vec::new();
        while at < end {
            let below = ranges.range(..=at).next_back();
            match below.filter(|(start, range)| at - **start < range.len) {
                Some((start, range)) => {
                    let offset = range.offset + (at - start);
                    places.push(Place::In(range.backing.name.clone(), offset));
                    at = start.saturating_add(range.len);
                }
                None => {
                    places.push(Place::Nothing(at));
                    let next = ranges.range(at..).next();
                    at = next.map_or(end, |(start, _)| *start);
                }
            }
        }
        places
    }

    pub fn unmap_all(&self) {
        self.ranges.borrow_mut().clear();
    }

    fn backing(&self, file: &File) -> Rc<Backing> {
        let inode = file.metadata().map(|m| m.ino()).unwrap_or(0);
        let mut all = self.backings.borrow_mut();
        if let Some(known) = all.iter().find(|b| b.inode == inode) {
            return known.clone();
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(path).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = Rc::new(Backing {
            name: name.trim_end_matches(" (deleted)").into(),
            inode,
            read: Cell::new(0),
            written: Cell::new(0),
        });
        all.push(new.clone());
        new
    }

    pub fn spans(&self, mut at: u64, mut len: u64, write: bool) -> Result<Spans, Unmapped> {
        let mut spans = Spans::new();
        if len > 0 && !self.master.get() {
            error!("DMA to {at:#x} while bus mastering is off");
            return Err(Unmapped(at));
        }
        let ranges = self.ranges.borrow();
        while len > 0 {
            let Some((start, range)) = ranges.range(..=at).next_back() else {
                return Err(Unmapped(at));
            };
            let (offset, permission) = (at - start, range.permission);
            let permitted = if write {
                permission.write
            } else {
                permission.read
            };
            if offset >= range.len || !permitted {
                return Err(Unmapped(at));
            }
            let here = len.min(range.len - offset);
            spans.push(Span {
                range: range.clone(),
                at: offset as usize,
                len: here as usize,
            });
            at += here;
            len -= here;
        }
        Ok(spans)
    }

    pub fn read(&self, at: u64, to: &mut [u8]) -> Result<(), Unmapped> {
        gather(&self.spans(at, to.len() as u64, false)?, to);
        Ok(())
    }

    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        scatter(&self.spans(at, from.len() as u64, true)?, from);
        Ok(())
    }

    pub fn read_be64(&self, at: u64) -> Result<u64, Unmapped> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(be64(&bytes, 0))
    }

    /// Logs how many bytes went through each backing. Returns the same lines.
    pub fn report(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for backing in self.backings.borrow().iter() {
            let (read, written) = (backing.read.get(), backing.written.get());
            if read + written > 0 {
                let name = &backing.name;
                let line = format!("DMA {name}: {read} bytes read, {written} bytes written");
                say!("{line}");
                lines.push(line);
            }
        }
        lines
    }
}

pub fn total(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.len).sum()
}

fn count(bytes: &Cell<u64>, more: usize) {
    bytes.set(bytes.get() + more as u64);
}

/// Reads from `spans`, as much as they have or `to` takes.
pub fn gather(spans: &[Span], to: &mut [u8]) {
    let mut at = 0;
    for span in spans {
        let here = span.len.min(to.len() - at);
        span.range.memory.read(span.at, &mut to[at..at + here]);
        count(&span.range.backing.read, here);
        at += here;
    }
}

/// Writes to `spans`, as much as they take or `from` has.
pub fn scatter(spans: &[Span], from: &[u8]) {
    let mut at = 0;
    for span in spans {
        let here = span.len.min(from.len() - at);
        span.range.memory.write(span.at, &from[at..at + here]);
        count(&span.range.backing.written, here);
        at += here;
    }
}

pub fn copy(to: &[Span], from: &[Span]) {
    let mut bytes = vec![0; total(from).min(total(to))];
    gather(from, &mut bytes);
    scatter(to, &bytes);
}

/// Replaces the 8 bytes of `spans` at once; returns the old ones, or nothing if they are not
/// aligned or not next to each other.
pub fn swap(spans: &[Span], change: impl Fn(u64) -> u64) -> Option<u64> {
    let [span] = spans else { return None };
    if span.len != 8 {
        return None;
    }
    count(&span.range.backing.written, 8);
    span.range.memory.swap(span.at, change)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const ALL: Permission = Permission {
        read: true,
        write: true,
    };

    /// Returns a function's memory: `len` bytes at `at`.
    pub fn memory(at: u64, len: u64) -> Dma {
        let dma = Dma::default();
        dma.master.set(true);
        add(&dma, at, len);
        dma
    }

    pub fn add(dma: &Dma, at: u64, len: u64) {
        add_file(dma, at, len, &format!("{at:x}"), ALL);
    }

    /// Adds `len` bytes of a new file whose name begins with `name`.
    pub fn add_file(dma: &Dma, at: u64, len: u64, name: &str, permission: Permission) {
        let unique = format!("{name}-connectx-{}-{dma:p}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        let mut options = std::fs::OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(len).unwrap();
        dma.map(at, len, &file, 0, permission);
    }

    #[test]
    fn a_mapping_of_one_direction_is_accessed_in_that_one() {
        let dma = memory(0x1000, 0x1000);
        for (at, read, write) in [(0x2000, false, true), (0x3000, true, false)] {
            add_file(&dma, at, 0x1000, "one", Permission { read, write });
            assert_eq!(dma.read(at, &mut [0]).is_ok(), read);
            assert_eq!(dma.write(at, &[0]).is_ok(), write);
        }
    }

    #[test]
    fn without_bus_mastering_there_is_no_dma() {
        let dma = memory(0x1000, 0x1000);
        dma.master.set(false);
        assert_eq!(dma.read(0x1000, &mut [0]), Err(Unmapped(0x1000)));
        dma.master.set(true);
        assert_eq!(dma.read(0x1000, &mut [0]), Ok(()));
    }

    #[test]
    fn swaps_are_of_eight_aligned_bytes() {
        let dma = memory(0, 0x1000);
        let spans = |at, len| dma.spans(at, len, true).unwrap();
        assert_eq!(swap(&spans(8, 8), |old| old + 5), Some(0));
        assert_eq!(swap(&spans(8, 8), |old| old), Some(5));
        assert_eq!(swap(&spans(12, 8), |old| old), None);
        assert_eq!(swap(&spans(8, 4), |old| old), None);
    }
}
