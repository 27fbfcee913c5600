// SPDX-License-Identifier: GPL-2.0

//! Maps of shared objects by a 32-bit key.
//!
//! A [`Map`] has the regions of a client by ticket. An [`Index`], whose keys can be searched
//! without a lock, has the MRs of a device by local key. Insertion needs a [`Reservation`],
//! allocated before, and cannot fail.
//!
//! Context: any, except for the creation of an [`Index`] or a [`Reservation`], which may sleep.

use crate::ext::rdma::key_filter::KeyFilter;
use crate::prelude::*;
use kernel::rbtree::{
    OccupiedEntry,
    RBTreeNodeReservation, //
};

/// A map from a key to a reference. The lock is a leaf lock, held for a look-up or a change.
/// References are dropped without the lock.
#[pin_data]
pub(crate) struct Map<T: ?Sized> {
    #[pin]
    entries: SpinLock<RBTree<u32, Arc<T>>>,
}

/// The memory for an entry of a [`Map`]: with a reservation, [`Map::insert`] cannot fail.
pub(crate) struct Reservation<T: ?Sized>(RBTreeNodeReservation<u32, Arc<T>>);

impl<T: ?Sized> Reservation<T> {
    /// Allocates a reservation. Context: may sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?))
    }
}

impl<T: ?Sized> Map<T> {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries <- new_spinlock!(RBTree::new(), "Map::entries"),
        })
    }

    /// Inserts `value` under `key` and replaces an older entry.
    pub(crate) fn insert(&self, reservation: Reservation<T>, key: u32, value: Arc<T>) {
        self.insert_and(reservation, key, value, || ());
    }

    /// As [`Self::insert`]. Calls `added` with the lock held if there was no older entry.
    fn insert_and(
        &self,
        reservation: Reservation<T>,
        key: u32,
        value: Arc<T>,
        added: impl FnOnce(),
    ) {
        let mut entries = self.entries.lock();
        let old = entries.insert(reservation.0.into_node(key, value));
        if old.is_none() {
            added();
        }
        drop(entries);
        drop(old);
    }

    pub(crate) fn get(&self, key: u32) -> Option<Arc<T>> {
        self.entries.lock().get(&key).cloned()
    }

    pub(crate) fn contains(&self, key: u32) -> bool {
        self.entries.lock().get(&key).is_some()
    }

    /// Returns the entry with the smallest key from `key` on, and the key of the entry.
    pub(crate) fn from(&self, key: u32) -> Option<(u32, Arc<T>)> {
        let entries = self.entries.lock();
        let cursor = entries.cursor_lower_bound(&key)?;
        let (key, value) = cursor.current();
        Some((*key, value.clone()))
    }

    pub(crate) fn remove(&self, key: u32) {
        self.remove_if_and(key, |_| true, || ());
    }

    /// Removes the entry under `key` if `matches` accepts the entry. Calls `removed` with the lock
    /// held after the removal.
    fn remove_if_and(
        &self,
        key: u32,
        matches: impl FnOnce(&T) -> bool,
        removed: impl FnOnce(), //
    ) {
        let mut entries = self.entries.lock();
        let entry = entries.find_mut(&key).filter(|entry| matches(entry.get()));
        let entry = entry.map(OccupiedEntry::remove_node);
        if entry.is_some() {
            removed();
        }
        drop(entries);
        drop(entry);
    }
}

/// A [`Map`] whose keys can be searched without a lock.
#[pin_data]
pub(crate) struct Index<T: ?Sized> {
    #[pin]
    map: Map<T>,
    /// The keys of the entries. Changed with the map locked.
    keys: KeyFilter,
}

impl<T: ?Sized> Index<T> {
    /// Creates an empty index. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let keys = KeyFilter::new()?;
        Arc::pin_init(
            pin_init!(Self {
                map <- Map::new(),
                keys,
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn keys(&self) -> &KeyFilter {
        &self.keys
    }

    pub(crate) fn insert(&self, reservation: Reservation<T>, key: u32, value: Arc<T>) {
        self.map
            .insert_and(reservation, key, value, || self.keys.insert(key));
    }

    /// See [`Map::get`]. A key that is not in [`Self::keys`] has no entry.
    pub(crate) fn get(&self, key: u32) -> Option<Arc<T>> {
        self.map.get(key)
    }

    pub(crate) fn from(&self, key: u32) -> Option<(u32, Arc<T>)> {
        self.map.from(key)
    }

    /// Removes the entry under `key` if `matches` accepts the entry.
    pub(crate) fn remove_if(&self, key: u32, matches: impl FnOnce(&T) -> bool) {
        self.map
            .remove_if_and(key, matches, || self.keys.remove(key));
    }
}

#[kunit_tests(peer_mem_index)]
mod tests {
    use super::*;

    fn index(entries: &[(u32, u64)]) -> Result<Arc<Index<u64>>> {
        let index = Index::new()?;
        for &(key, value) in entries {
            index.insert(Reservation::new()?, key, Arc::new(value, GFP_KERNEL)?);
        }
        Ok(index)
    }

    #[test]
    fn a_later_entry_replaces_an_older_one() -> Result {
        let index = index(&[(7, 70), (3, 30), (7, 71)])?;
        assert_eq!(index.get(7).map(|v| *v), Some(71));
        assert_eq!(index.from(0).map(|(_, v)| *v), Some(30));
        assert!(index.get(0).is_none());
        Ok(())
    }

    #[test]
    fn the_next_entry_has_the_same_or_a_larger_key() -> Result {
        let index = index(&[(7, 70), (3, 30)])?;
        let from = |key| index.from(key).map(|(key, value)| (key, *value));
        assert_eq!(from(0), Some((3, 30)));
        assert_eq!(from(3), Some((3, 30)));
        assert_eq!(from(4), Some((7, 70)));
        assert_eq!(from(8), None);
        Ok(())
    }

    #[test]
    fn only_the_entry_that_matches_is_removed() -> Result {
        let index = index(&[(7, 70)])?;
        index.remove_if(7, |v| *v == 71);
        assert!(index.get(7).is_some());
        index.remove_if(7, |v| *v == 70);
        assert!(index.from(0).is_none());
        index.remove_if(7, |_| true);
        Ok(())
    }
}
