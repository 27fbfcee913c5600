// SPDX-License-Identifier: GPL-2.0

//! The last records of a kind, which debugfs prints.
//!
//! [`Log`] keeps the records of the loaded module in a ring, [`Recent`]. [`Name`] is the copy of a name
//! in a record, and [`Age`] prints how old a record is. Context: any, except where a function says
//! more.

use crate::prelude::*;

const CAPACITY: usize = 64;

/// The length of a kept name in bytes: names of clients and RDMA devices fit, with the NUL.
const NAME: usize = 64;

/// A copy of a name.
///
/// # Invariants
///
/// The first `len` bytes are UTF-8.
pub(crate) struct Name {
    bytes: [u8; NAME],
    len: usize,
}

impl Name {
    /// Copies a name, and cuts a name that is too long. `None` becomes `-`.
    pub(crate) fn new(name: Option<&str>) -> Self {
        let name = name.unwrap_or("-");
        let mut bytes = [0; NAME];
        let mut len = name.len().min(NAME);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        // INVARIANT: The bytes come from a string, cut between two characters.
        Self { bytes, len }
    }

    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("?")
    }
}

/// Prints the time since an instant, in seconds with milliseconds.
pub(crate) struct Age(pub(crate) Instant<Monotonic>);

/// For the macros of `core`, such as `write!`.
impl core::fmt::Display for Age {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let age = self.0.elapsed().as_millis();
        write!(f, "{}.{:03}", age / 1000, age % 1000)
    }
}

/// A ring of the last 64 records.
pub(crate) struct Recent<T> {
    /// Has a capacity of [`CAPACITY`] records from the start on.
    records: KVec<T>,
    /// The index of the oldest record, once the ring is full.
    oldest: usize,
}

impl<T> Recent<T> {
    /// Creates an empty ring. Context: may sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            records: KVec::with_capacity(CAPACITY, GFP_KERNEL)?,
            oldest: 0,
        })
    }

    /// Adds a record, and removes the oldest record if the ring is full. Allocates nothing.
    pub(crate) fn add(&mut self, record: T) {
        if self.records.len() < CAPACITY {
            // Does not fail: the capacity is large enough.
            self.records.push(record, GFP_KERNEL).unwrap_or_default();
        } else if let Some(oldest) = self.records.get_mut(self.oldest) {
            *oldest = record;
            self.oldest = (self.oldest + 1) % CAPACITY;
        }
    }

    /// Returns a record for which `is_it` is true.
    pub(crate) fn find_mut(&mut self, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        self.records.iter_mut().find(|record| is_it(record))
    }

    /// Returns the records, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let (newer, older) = self.records.split_at(self.oldest.min(self.records.len()));
        Iterator::chain(older.iter(), newer)
    }
}

/// The last records of the loaded module. The lock is a leaf, held for a look-up, an addition or a
/// print.
pub(crate) struct Log<T: Send + 'static>(Snapshot<Mutex<Recent<T>>>);

/// The open list. Dropping the list discards the records.
pub(crate) type Open<T> = Published<Mutex<Recent<T>>>;

impl<T: Send + 'static> Log<T> {
    /// Creates a list that keeps nothing.
    pub(crate) const fn new() -> Self {
        Self(Snapshot::new())
    }

    /// Starts to keep records. Context: may sleep.
    pub(crate) fn open(&'static self) -> Result<Open<T>> {
        let ring = Recent::new()?;
        let ring = Arc::pin_init(new_mutex!(ring, "recent::Log"), GFP_KERNEL)?;
        Ok(self.0.publish(ring))
    }

    /// Calls `f` with the ring, if the list is open. Context: may sleep.
    pub(crate) fn with(&self, f: impl FnOnce(&mut Recent<T>)) {
        if let Some(ring) = self.0.load() {
            f(&mut ring.lock());
        }
    }

    /// Prints `heading`, and each record by `print`, the oldest first. Context: may sleep.
    pub(crate) fn print(
        &self,
        f: &mut fmt::Formatter<'_>,
        heading: &str,
        print: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        writeln!(f, "{heading}")?;
        match self.0.load() {
            Some(ring) => ring.lock().iter().try_for_each(|record| print(record, f)),
            None => Ok(()),
        }
    }
}

#[kunit_tests(peer_mem_recent)]
mod tests {
    use super::*;

    /// Returns the first and the last record, and their number.
    fn contents(ring: &Recent<u32>) -> (Option<u32>, Option<u32>, usize) {
        let records = || ring.iter().copied();
        (records().next(), records().last(), records().count())
    }

    #[test]
    fn the_last_64_are_kept() -> Result {
        let mut ring = Recent::new()?;
        assert_eq!(contents(&ring), (None, None, 0));
        (1..=64).for_each(|n| ring.add(n));
        assert_eq!(contents(&ring), (Some(1), Some(64), 64));
        ring.add(65);
        assert_eq!(contents(&ring), (Some(2), Some(65), 64));
        (66..=200).for_each(|n| ring.add(n));
        assert_eq!(contents(&ring), (Some(137), Some(200), 64));
        Ok(())
    }

    #[test]
    fn a_found_record_can_be_changed() -> Result {
        let mut ring = Recent::new()?;
        (1..=70).for_each(|n| ring.add(n));
        assert!(ring.find_mut(|n| *n == 6).is_none());
        if let Some(n) = ring.find_mut(|n| *n == 7) {
            *n = 100;
        }
        assert_eq!(contents(&ring), (Some(100), Some(70), 64));
        Ok(())
    }

    #[test]
    fn names_are_copied_and_cut() {
        assert_eq!(Name::new(Some("mlx5_0")).as_str(), "mlx5_0");
        assert_eq!(Name::new(None).as_str(), "-");
        let long = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\u{e9}";
        assert_eq!(Name::new(Some(long)).as_str(), &long[..63]);
    }
}
