// SPDX-License-Identifier: GPL-2.0

//! Limits of a resource for each user. A [`Quota`] counts the bytes of all users, and a [`Charge`]
//! is the part of one user. Used for device memory.

use crate::shared::{
    ext::base::compat::edquot,
    prelude::raw::*, //
};
use kernel::rbtree::{
    Entry,
    RBTree,
    RBTreeNodeReservation, //
};

/// The use of a resource by each user, in bytes.
#[pin_data]
pub struct Quota {
    #[pin]
    users: Mutex<RBTree<u32, u64>>,
}

/// Bytes that are charged to a user. Drop reverts the charge.
///
/// # Invariants
///
/// `bytes` are a part of the bytes of `uid` in `quota`.
pub struct Charge {
    quota: Arc<Quota>,
    uid: u32,
    bytes: u64,
}

impl Quota {
    /// Creates a quota that is not used. Context: may sleep.
    pub fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                users <- new_mutex!(RBTree::new(), "ext::p2pdma::quota::Quota::users"),
            }),
            GFP_KERNEL,
        )
    }

    /// Charges `bytes` to the user of the calling process. In a user namespace a user has any
    /// number of uids, so the user is the creator of the outermost namespace; otherwise the real
    /// user of the process. Returns `EDQUOT` if the user would have more than `limit` bytes, and
    /// `ENOMEM` if the sum is no number of 64 bits. Context: process context; may sleep.
    pub fn charge(this: &Arc<Self>, bytes: u64, limit: u64) -> Result<Charge> {
        // SAFETY: The function reads the credentials of the calling task.
        let uid = unsafe { helpers::ext_current_owner() };
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut users = this.users.lock();
        let used = users.get(&uid).copied().unwrap_or(0);
        // Without a limit as well: no memory has so many bytes.
        let total = used.checked_add(bytes).ok_or(ENOMEM)?;
        if total > limit {
            return Err(edquot());
        }
        match users.entry(uid) {
            Entry::Occupied(mut entry) => *entry.get_mut() = total,
            Entry::Vacant(entry) => {
                entry.insert(total, node);
            }
        }
        // INVARIANT: The bytes were added above.
        Ok(Charge {
            quota: this.clone(),
            uid,
            bytes,
        })
    }

    #[cfg(ext_tests)]
    fn used(&self, uid: u32) -> u64 {
        self.users.lock().get(&uid).copied().unwrap_or(0)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut users = self.quota.users.lock();
        let node = match users.get_mut(&self.uid) {
            Some(used) if *used > self.bytes => {
                *used -= self.bytes;
                None
            }
            _ => users.remove_node(&self.uid),
        };
        drop(users);
        drop(node);
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_quota)]
mod tests {
    use super::*;

    /// The sum of the charges of a user is at most the limit.
    #[test]
    fn limit() -> Result {
        let quota = Quota::new()?;
        let first = Quota::charge(&quota, 60, 100)?;
        assert!(Quota::charge(&quota, 41, 100).is_err());
        let second = Quota::charge(&quota, 40, 100)?;
        assert_eq!(Quota::charge(&quota, 1, 100).err(), Some(edquot()));
        assert_eq!(
            Quota::charge(&quota, u64::MAX, u64::MAX).err(),
            Some(ENOMEM)
        );
        let uid = first.uid;
        assert_eq!(quota.used(uid), 100);
        drop(first);
        assert_eq!(quota.used(uid), 40);
        // A limit below the bytes of the user.
        assert!(Quota::charge(&quota, 1, 30).is_err());
        drop(second);
        assert_eq!(quota.used(uid), 0);
        assert!(quota.users.lock().is_empty());
        assert!(Quota::charge(&quota, 0, 0).is_ok());
        Ok(())
    }
}
