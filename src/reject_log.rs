// SPDX-License-Identifier: GPL-2.0

//! The last rejections: why memory was not registered or exported.
//!
//! The dispatch records a [`Rejection`] in the [`RejectLog`], a ring, and debugfs prints the ring.
//! Context: may sleep. The lock, `reject_log::LOG`, is a leaf.

use crate::{
    ext::{
        base::snapshot::{
            Published,
            Snapshot, //
        },
        rdma::{
            task::Comm,
            trace::{
                Event,
                Point, //
            }, //
        }, //
    },
    range::VaRange, //
};
use kernel::{
    current, fmt, new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        Instant,
        Monotonic, //
    },
};

/// The number of kept rejections.
const CAPACITY: usize = 64;

/// The length of a kept name in bytes: names of clients and RDMA devices fit, with the NUL.
const NAME: usize = 64;

/// The rejections of the loaded module. The lock is a leaf, held while a rejection is added, and
/// while debugfs prints the rejections.
static LOG: Snapshot<Mutex<RejectLog>> = Snapshot::new();

/// The facts of a rejection.
pub(crate) struct Rejection<'a> {
    /// The memory, in the calling process.
    pub(crate) range: VaRange,
    /// The name of the device that the memory is for, if known.
    pub(crate) device: Option<&'a str>,
    /// The name of the client that claimed the memory.
    pub(crate) client: Option<&'a str>,
    /// The error that the caller gets, unless another client serves the memory.
    pub(crate) error: Option<Error>,
    /// The cause, in words.
    pub(crate) cause: &'static str,
}

/// A copy of a name.
///
/// # Invariants
///
/// The first `len` bytes are UTF-8.
struct Name {
    bytes: [u8; NAME],
    len: usize,
}

impl Name {
    /// Copies a name, and cuts a name that is too long. `None` becomes `-`.
    fn new(name: Option<&str>) -> Self {
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

    /// Returns the name.
    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("?")
    }
}

/// A kept rejection.
struct Entry {
    time: Instant<Monotonic>,
    pid: i32,
    comm: Comm,
    range: VaRange,
    device: Name,
    client: Name,
    error: Option<Error>,
    cause: &'static str,
}

/// A ring of entries.
pub(crate) struct RejectLog {
    /// Has a capacity of [`CAPACITY`] entries from the start on.
    entries: KVec<Entry>,
    /// The index of the oldest entry, once the ring is full.
    oldest: usize,
}

impl RejectLog {
    /// Creates an empty ring. Context: may sleep.
    fn new() -> Result<Self> {
        Ok(Self {
            entries: KVec::with_capacity(CAPACITY, GFP_KERNEL)?,
            oldest: 0,
        })
    }

    /// Adds an entry, and removes the oldest entry if the ring is full. Context: may sleep.
    fn add(&mut self, entry: Entry) {
        if self.entries.len() < CAPACITY {
            // Does not fail: the capacity is large enough.
            self.entries.push(entry, GFP_KERNEL).unwrap_or_default();
        } else if let Some(oldest) = self.entries.get_mut(self.oldest) {
            *oldest = entry;
            self.oldest = (self.oldest + 1) % CAPACITY;
        }
    }

    /// Returns the entries, the oldest first.
    fn iter(&self) -> impl Iterator<Item = &Entry> {
        let (newer, older) = self.entries.split_at(self.oldest.min(self.entries.len()));
        Iterator::chain(older.iter(), newer)
    }
}

/// The open list. Dropping the list discards the rejections.
pub(crate) type Open = Published<Mutex<RejectLog>>;

/// Starts to keep rejections. Context: may sleep.
pub(crate) fn open() -> Result<Open> {
    let ring = RejectLog::new()?;
    let ring = Arc::pin_init(new_mutex!(ring, "reject_log::LOG"), GFP_KERNEL)?;
    Ok(LOG.publish(ring))
}

impl Entry {
    /// Creates the entry of a rejection of the calling process, now.
    fn new(rejection: Rejection<'_>) -> Self {
        Self {
            time: Instant::now(),
            pid: current!().pid(),
            comm: Comm::current(),
            range: rejection.range,
            device: Name::new(rejection.device),
            client: Name::new(rejection.client),
            error: rejection.error,
            cause: rejection.cause,
        }
    }

    /// Prints the entry as a line.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = self.time.elapsed().as_millis();
        write!(
            f,
            "{}.{:03}\t{}\t{}\t{:#x}\t{}\t{}\t{}\t",
            age / 1000,
            age % 1000,
            self.pid,
            &*self.comm,
            self.range.addr(),
            self.range.len(),
            self.device.as_str(),
            self.client.as_str(),
        )?;
        match self.error {
            Some(e) => writeln!(f, "{e:?}\t{}", self.cause),
            None => writeln!(f, "-\t{}", self.cause),
        }
    }
}

/// Records a rejection of the calling process. Context: may sleep.
pub(crate) fn record(rejection: Rejection<'_>) {
    Point::Refuse.record(&Event {
        client: rejection.client,
        device: rejection.device,
        lkey: 0,
        addr: rejection.range.addr() as u64,
        length: rejection.range.len() as u64,
        pid: current!().group_leader().pid(),
        result: rejection.error.map_or(Ok(()), Err),
        cause: rejection.cause,
    });
    if let Some(ring) = LOG.load() {
        let entry = Entry::new(rejection);
        ring.lock().add(entry);
    }
}

/// Prints the file `rejections`: a line for each rejection, the oldest first, with tabs between the
/// columns. Context: may sleep.
pub(crate) fn print(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "seconds ago\tpid\tprocess\taddress\tlength\tdevice\tclient\terror\tcause"
    )?;
    match LOG.load() {
        Some(ring) => ring.lock().iter().try_for_each(|entry| entry.print(f)),
        None => Ok(()),
    }
}

#[kunit_tests(peer_mem_rejections)]
mod tests {
    use super::*;

    /// Creates the entry of a rejection of `len` bytes.
    fn entry(len: u64) -> Result<Entry> {
        Ok(Entry::new(Rejection {
            range: VaRange::new(0x1000, len).ok_or(EINVAL)?,
            device: Some("mlx5_0"),
            client: None,
            error: Some(EFAULT),
            cause: "test",
        }))
    }

    /// Returns the first and the last length, and the number of entries.
    fn contents(ring: &RejectLog) -> (Option<usize>, Option<usize>, usize) {
        let lengths = || ring.iter().map(|entry| entry.range.len());
        (lengths().next(), lengths().last(), lengths().count())
    }

    #[test]
    fn the_last_64_are_kept() -> Result {
        let mut ring = RejectLog::new()?;
        assert_eq!(contents(&ring), (None, None, 0));
        for len in 1..=64 {
            ring.add(entry(len)?);
        }
        assert_eq!(contents(&ring), (Some(1), Some(64), 64));
        ring.add(entry(65)?);
        assert_eq!(contents(&ring), (Some(2), Some(65), 64));
        for len in 66..=200 {
            ring.add(entry(len)?);
        }
        assert_eq!(contents(&ring), (Some(137), Some(200), 64));
        Ok(())
    }

    #[test]
    fn names_are_copied_and_cut() -> Result {
        let entry = entry(1)?;
        assert_eq!(entry.device.as_str(), "mlx5_0");
        assert_eq!(entry.client.as_str(), "-");
        assert!(!entry.comm.is_empty());
        let long = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\u{e9}";
        assert_eq!(Name::new(Some(long)).as_str(), &long[..63]);
        Ok(())
    }
}
