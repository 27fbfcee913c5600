// SPDX-License-Identifier: GPL-2.0

//! The last revocations: which processes have lost MRs, and why.
//!
//! A region records a [`Revocation`] once the region is fenced before its deregistration, and debugfs
//! prints the ring. The MRs that a process loses at one time share an entry. Context: may sleep. The
//! lock, `revocations::LOG`, is a leaf.

use crate::prelude::*;
use crate::records::{
    listing::Origin,
    recent::{
        Age,
        Log,
        Name,
        Recent, //
    }, //
};

/// Revocations that follow within this time share an entry.
const TOGETHER: Delta = Delta::from_secs(1);

/// The revocations of the loaded module. The lock is a leaf, held while an entry is looked up and
/// added, and while debugfs prints the entries.
pub(crate) static LOG: Log<Entry> = Log::new();

pub(crate) struct Revocation<'a> {
    /// Who has registered the memory.
    pub(crate) origin: &'a Origin,
    pub(crate) client: &'a str,
    pub(crate) device: Option<&'a str>,
    pub(crate) bytes: u64,
    /// How long the fence has taken.
    pub(crate) took: Delta,
    pub(crate) cause: &'static str,
}

/// Revocations of regions of one process, client, device and cause, at one time.
pub(crate) struct Entry {
    time: Instant<Monotonic>,
    origin: Origin,
    client: Name,
    device: Name,
    cause: &'static str,
    regions: u64,
    bytes: u64,
    /// The time of the fence that has taken longest.
    longest: Delta,
}

impl Entry {
    /// Creates the entry of a revocation that ends now.
    fn new(revocation: &Revocation<'_>) -> Self {
        Self {
            time: Instant::now(),
            origin: revocation.origin.clone(),
            client: Name::new(Some(revocation.client)),
            device: Name::new(revocation.device),
            cause: revocation.cause,
            regions: 1,
            bytes: revocation.bytes,
            longest: revocation.took,
        }
    }

    /// Whether `new`, a later revocation of one region, belongs to this entry.
    fn is_of(&self, new: &Self) -> bool {
        self.origin.is_same_process(&new.origin)
            && self.cause == new.cause
            && self.client.as_str() == new.client.as_str()
            && self.device.as_str() == new.device.as_str()
            && new.time - self.time < TOGETHER
    }

    fn join(&mut self, new: &Self) {
        self.time = new.time;
        self.regions += new.regions;
        self.bytes = self.bytes.saturating_add(new.bytes);
        self.longest = self.longest.max(new.longest);
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            Age(self.time),
            self.origin.pid(),
            self.origin.comm(),
            self.client.as_str(),
            self.device.as_str(),
            self.regions,
            self.bytes,
            self.longest.as_micros_ceil(),
            self.cause,
        )
    }
}

fn add(ring: &mut Recent<Entry>, revocation: &Revocation<'_>) {
    let new = Entry::new(revocation);
    match ring.find_mut(|entry| entry.is_of(&new)) {
        Some(entry) => entry.join(&new),
        None => ring.add(new),
    }
}

/// Records a revocation. Context: may sleep.
pub(crate) fn record(revocation: &Revocation<'_>) {
    LOG.with(|ring| add(ring, revocation));
}

/// Prints the file `revocations`: a line for each entry, the oldest first, with tabs between the
/// columns. Context: may sleep.
pub(crate) fn print(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let heading =
        "seconds ago\tpid\tprocess\tclient\tdevice\tregions\tbytes\tlongest fence us\tcause";
    LOG.print(f, heading, Entry::print)
}

#[kunit_tests(peer_mem_revocations)]
mod tests {
    use super::*;

    /// Returns regions, bytes and longest fence of each entry.
    fn contents(ring: &Recent<Entry>) -> Result<KVec<(u64, u64, i64)>> {
        let mut all = KVec::new();
        for entry in ring.iter() {
            let row = (entry.regions, entry.bytes, entry.longest.as_micros_ceil());
            all.push(row, GFP_KERNEL)?;
        }
        Ok(all)
    }

    #[test]
    fn regions_of_a_process_share_an_entry() -> Result {
        let origin = Origin::current();
        let mut ring = Recent::new()?;
        let mut lose = |device, cause, bytes, took| {
            let revocation = Revocation {
                origin: &origin,
                client: "client",
                device: Some(device),
                bytes,
                took: Delta::from_micros(took),
                cause,
            };
            add(&mut ring, &revocation);
        };
        lose("mlx5_0", "one", 4096, 10);
        lose("mlx5_0", "one", 100, 30);
        lose("mlx5_1", "one", 200, 20);
        lose("mlx5_0", "one", 1, 20);
        lose("mlx5_0", "two", 300, 20);
        let all = contents(&ring)?;
        assert_eq!(&*all, &[(3, 4197, 30), (1, 200, 20), (1, 300, 20)]);
        Ok(())
    }

    #[test]
    fn an_old_entry_stays_as_it_is() -> Result {
        let origin = Origin::current();
        let mut ring = Recent::new()?;
        let revocation = Revocation {
            origin: &origin,
            client: "client",
            device: None,
            bytes: 1,
            took: Delta::from_micros(1),
            cause: "test",
        };
        let mut old = Entry::new(&revocation);
        let new = Entry::new(&revocation);
        assert!(old.is_of(&new));
        old.time = Instant::now() - TOGETHER;
        ring.add(old);
        add(&mut ring, &revocation);
        assert_eq!(&*contents(&ring)?, &[(1, 1, 1), (1, 1, 1)]);
        Ok(())
    }
}
