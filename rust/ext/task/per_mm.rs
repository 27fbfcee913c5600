// SPDX-License-Identifier: GPL-2.0

//! Objects that belong to an address space, and are dropped when the address space ends: when the last
//! process exits or executes another program. Open files do not delay the end, and `fork()` does not copy
//! an object. Used for the names that a process has given to memory.

use super::id::hash;
use crate::shared::prelude::raw::*;
use kernel::{
    mm::MmWithUser,
    rbtree::{
        RBTree,
        RBTreeNode, //
    }, //
};

/// The number of locks, as a power of two. Processes seldom share a lock.
const BITS: u32 = 6;

/// An address space, as a number: its address. No other address space has the number while the address space
/// is used or has a notifier.
type MmId = usize;

/// Returns the size of the user space of `mm`: the first address after it.
pub fn size(mm: &MmWithUser) -> usize {
    // SAFETY: The object is valid. The field changes only while a program is started, before the
    // program makes system calls.
    unsafe { (*mm.as_raw()).__bindgen_anon_1.task_size }
}

struct Entry<T: Send + Sync + 'static> {
    object: Arc<T>,
    _notifier: Notified<T>,
}

/// By the address space.
type Entries<T> = RBTree<MmId, Entry<T>>;

#[pin_data]
struct Spaces<T: Send + Sync + 'static> {
    /// Number of notifiers that are not freed.
    notifiers: Atomic<usize>,
    /// Leaf locks, each held for one look-up or change.
    #[pin]
    shards: [SpinLock<Entries<T>>; 1 << BITS],
}

impl<T: Send + Sync + 'static> Spaces<T> {
    fn shard(&self, mm: MmId) -> &SpinLock<Entries<T>> {
        &self.shards[hash(mm, BITS)]
    }

    fn get(&self, mm: MmId) -> Option<Arc<T>> {
        let entries = self.shard(mm).lock();
        entries.get(&mm).map(|entry| entry.object.clone())
    }

    fn remove(&self, mm: MmId) {
        let removed = self.shard(mm).lock().remove_node(&mm);
        drop(removed);
    }
}

/// The objects of all address spaces. Drop drops the objects, and waits for the kernel's calls of
/// the notifiers. Context: drop may sleep.
pub struct PerMm<T: Send + Sync + 'static>(Arc<Spaces<T>>);

impl<T: Send + Sync + 'static> PerMm<T> {
    /// Creates a `PerMm` without objects. Context: may sleep.
    pub fn new() -> Result<Self> {
        let spaces = pin_init!(Spaces {
            notifiers: Atomic::new(0),
            shards <- pin_init::pin_init_array_from_fn(|_| {
                new_spinlock!(RBTree::new(), "per_mm::Spaces::shards")
            }),
        });
        Ok(Self(Arc::pin_init(spaces, GFP_KERNEL)?))
    }

    /// Returns the object of the address space of the calling process. Context: process context.
    pub fn get(&self) -> Option<Arc<T>> {
        let task = current!();
        let mm = task.mm()?;
        self.0.get(mm.as_raw().addr())
    }

    /// Like [`Self::get`], but adds the object returned by `new` if the address space has no
    /// object. If two tasks add an object at the same time, both get the same object.
    ///
    /// Returns `ESRCH` in a kernel thread, and `ERESTARTSYS` if the task has a signal. Context:
    /// process context; may sleep. Takes the `mmap_lock`.
    pub fn get_or_insert_with(&self, new: impl FnOnce() -> Result<Arc<T>>) -> Result<Arc<T>> {
        let task = current!();
        let mm = task.mm().ok_or(ESRCH)?;
        let id = mm.as_raw().addr();
        if let Some(object) = self.0.get(id) {
            return Ok(object);
        }
        let object = new()?;
        let entry = Entry {
            object: object.clone(),
            _notifier: Notified::new(mm, &self.0)?,
        };
        let node = RBTreeNode::new(id, entry, GFP_KERNEL_ACCOUNT)?;
        let mut entries = self.0.shard(id).lock();
        if let Some(entry) = entries.get(&id) {
            let other = entry.object.clone();
            // The notifier of the node is put without the lock.
            drop(entries);
            return Ok(other);
        }
        // The process runs, so the address space has not ended.
        let old = entries.insert(node);
        drop(entries);
        drop(old);
        Ok(object)
    }
}

impl<T: Send + Sync + 'static> Drop for PerMm<T> {
    fn drop(&mut self) {
        for shard in &self.0.shards {
            let entries = mem::replace(&mut *shard.lock(), RBTree::new());
            // Without the lock.
            drop(entries);
        }
        // SAFETY: The function only sleeps.
        unsafe { bindings::mmu_notifier_synchronize() };
        // `mmu_notifier_synchronize()` does not wait for callbacks queued by other CPUs. Pairs with
        // the decrement in `Notifier::free`.
        while self.0.notifiers.load(Acquire) > 0 {
            fsleep(Delta::from_millis(1));
        }
        // The last callback may still be returning from this module. A callback runs with bottom
        // halves disabled, in an RCU read-side section.
        //
        // SAFETY: The function only sleeps.
        unsafe { bindings::synchronize_rcu() };
    }
}

/// The C object, and the data of the callbacks.
#[repr(C)]
struct Notifier<T: Send + Sync + 'static> {
    inner: Opaque<bindings::mmu_notifier>,
    spaces: Arc<Spaces<T>>,
}

impl<T: Send + Sync + 'static> Notifier<T> {
    const OPS: bindings::mmu_notifier_ops = bindings::mmu_notifier_ops {
        release: Some(Self::release),
        free_notifier: Some(Self::free),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `raw` must be the first field of a `Notifier<T>` that is not freed before the call returns.
    unsafe extern "C" fn release(raw: *mut bindings::mmu_notifier, mm: *mut bindings::mm_struct) {
        // SAFETY: By the safety requirements the object is valid. `remove` puts the notifier; the kernel frees
        // it after this call.
        let spaces = unsafe { &(*raw.cast::<Self>()).spaces };
        spaces.remove(mm.addr());
    }

    /// Called by SRCU.
    ///
    /// # Safety
    ///
    /// `raw` must be the first field of a `Notifier<T>` that came from [`KBox::into_raw`] and has
    /// no user after this call.
    unsafe extern "C" fn free(raw: *mut bindings::mmu_notifier) {
        // SAFETY: By the safety requirements the pointer came from `into_raw`, and has no user.
        let this = unsafe { KBox::from_raw(raw.cast::<Self>()) };
        let spaces = this.spaces.clone();
        drop(this);
        // Pairs with the load in the drop of `PerMm`.
        spaces.notifiers.fetch_add(1_usize.wrapping_neg(), Release);
    }
}

/// A notifier of an address space. Drop puts the notifier; the kernel frees the notifier later.
///
/// # Invariants
///
/// The pointer is the first field of a registered [`Notifier`], and this object owns the only
/// reference.
struct Notified<T: Send + Sync + 'static>(NonNull<bindings::mmu_notifier>, PhantomData<Arc<T>>);

// SAFETY: Any task may put a notifier. The data of the notifier is `Send` and `Sync`.
unsafe impl<T: Send + Sync + 'static> Send for Notified<T> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<T: Send + Sync + 'static> Sync for Notified<T> {}

impl<T: Send + Sync + 'static> Notified<T> {
    /// Registers a notifier that drops the object in `spaces` at the end of `mm`. `mm` must be the
    /// address space of the calling process. Context: process context; may sleep. Takes the
    /// `mmap_lock`.
    fn new(mm: &MmWithUser, spaces: &Arc<Spaces<T>>) -> Result<Self> {
        let notifier = Notifier {
            inner: Opaque::new(bindings::mmu_notifier {
                ops: &Notifier::<T>::OPS,
                ..pin_init::zeroed()
            }),
            spaces: spaces.clone(),
        };
        let notifier = KBox::into_raw(KBox::new(notifier, GFP_KERNEL_ACCOUNT)?);
        let raw: *mut bindings::mmu_notifier = notifier.cast();
        spaces.notifiers.fetch_add(1, Relaxed);
        // SAFETY: The object is initialised, and does not move until `Notifier::free`. The process
        // uses `mm`, and holds no lock of `mm` here.
        if let Err(e) = to_result(unsafe { bindings::mmu_notifier_register(raw, mm.as_raw()) }) {
            // SAFETY: The notifier is not registered, so the notifier has no user.
            unsafe { Notifier::<T>::free(raw) };
            // No state has changed, so the system call may be restarted.
            return Err(if e == EINTR { ERESTARTSYS } else { e });
        }
        // INVARIANT: The notifier has just been registered, with one reference.
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?, PhantomData))
    }
}

impl<T: Send + Sync + 'static> Drop for Notified<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the notifier is registered, and the reference is owned.
        unsafe { bindings::mmu_notifier_put(self.0.as_ptr()) };
    }
}
