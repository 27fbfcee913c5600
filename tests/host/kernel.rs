// SPDX-License-Identifier: GPL-2.0

//! As much of the kernel crate as the files in `main.rs` use, on top of the standard library.

/// Errors.
pub mod error {
    /// An errno.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Error(pub i32);

    /// A result with an errno.
    pub type Result<T = (), E = Error> = core::result::Result<T, E>;

    /// The codes.
    pub mod code {
        use super::Error;
        macro_rules! codes {
            ($($name:ident $number:literal)*) => { $(#[allow(missing_docs)] pub const $name: Error = Error(-$number);)* };
        }
        codes! { EPERM 1 ENOENT 2 EINTR 4 EIO 5 E2BIG 7 EAGAIN 11 ENOMEM 12 EACCES 13 EFAULT 14
        EBUSY 16 EEXIST 17 ENODEV 19 EINVAL 22 ENOTTY 25 ENOSPC 28 ERANGE 34 EOVERFLOW 75 }
    }
}

/// Allocation flags, which mean nothing here.
pub mod alloc {
    /// Flags.
    #[derive(Clone, Copy)]
    pub struct Flags;
    #[allow(missing_docs)]
    pub const GFP_KERNEL: Flags = Flags;
    #[allow(missing_docs)]
    pub const GFP_KERNEL_ACCOUNT: Flags = Flags;

    /// A vector whose `push` may fail.
    #[derive(Debug, PartialEq, Eq)]
    pub struct KVec<T>(Vec<T>);
    impl<T> KVec<T> {
        #[allow(missing_docs)]
        pub const fn new() -> Self {
            Self(Vec::new())
        }
        #[allow(missing_docs)]
        pub fn with_capacity(n: usize, _flags: Flags) -> crate::error::Result<Self> {
            Ok(Self(Vec::with_capacity(n)))
        }
        #[allow(missing_docs)]
        pub fn capacity(&self) -> usize {
            self.0.capacity()
        }
        #[allow(missing_docs)]
        pub fn push(&mut self, value: T, _flags: Flags) -> crate::error::Result {
            self.0.push(value);
            Ok(())
        }
    }
    impl<T: Clone> KVec<T> {
        #[allow(missing_docs)]
        pub fn from_elem(value: T, n: usize, _flags: Flags) -> crate::error::Result<Self> {
            Ok(Self(vec![value; n]))
        }
    }
    /// The same, for long ones.
    pub type KVVec<T> = KVec<T>;
    impl<T> core::ops::Deref for KVec<T> {
        type Target = [T];
        fn deref(&self) -> &[T] {
            &self.0
        }
    }
    impl<T> core::ops::DerefMut for KVec<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

/// Pages.
pub mod page {
    /// 4 KiB.
    pub const PAGE_SIZE: usize = 4096;
}

/// Initializers: a value that is already there.
pub mod init {
    /// A value to put in place.
    pub trait PinInit<T, E = core::convert::Infallible> {
        /// The value.
        fn into_value(self) -> T;
    }
    /// The result of [`pin_init!`](crate::pin_init).
    pub struct Init<T>(pub T);
    impl<T> PinInit<T> for Init<T> {
        fn into_value(self) -> T {
            self.0
        }
    }
    impl<T> PinInit<T> for T {
        fn into_value(self) -> T {
            self
        }
    }
}

/// `pin_init!(Self { field <- initializer, field: value, field })`.
#[macro_export]
macro_rules! pin_init {
    (@ $name:ident {} $($field:ident ($value:expr))*) => { $crate::init::Init($name { $($field: $value),* }) };
    (@ $name:ident { $new:ident <- $init:expr, $($rest:tt)* } $($done:tt)*) => { $crate::pin_init!(@ $name { $($rest)* } $($done)* $new (<_ as $crate::init::PinInit<_>>::into_value($init))) };
    (@ $name:ident { $new:ident : $init:expr, $($rest:tt)* } $($done:tt)*) => { $crate::pin_init!(@ $name { $($rest)* } $($done)* $new ($init)) };
    (@ $name:ident { $new:ident, $($rest:tt)* } $($done:tt)*) => { $crate::pin_init!(@ $name { $($rest)* } $($done)* $new ($new)) };
    ($name:ident { $($fields:tt)* }) => { $crate::pin_init!(@ $name { $($fields)* }) };
}

/// Locks and references.
pub mod sync {
    use crate::{alloc::Flags, error::Result, init::PinInit};
    use std::sync::{Condvar, Mutex, MutexGuard};

    /// A reference-counted pointer.
    pub struct Arc<T: ?Sized>(std::sync::Arc<T>);
    impl<T> Arc<T> {
        #[allow(missing_docs)]
        pub fn new(value: T, _flags: Flags) -> Result<Self> {
            Ok(Self(std::sync::Arc::new(value)))
        }
        #[allow(missing_docs)]
        pub fn pin_init(init: impl PinInit<T>, flags: Flags) -> Result<Self> {
            Self::new(init.into_value(), flags)
        }
    }
    impl<T: ?Sized> Clone for Arc<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }
    impl<T: ?Sized> core::ops::Deref for Arc<T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.0
        }
    }

    /// A lock.
    pub struct SpinLock<T>(Mutex<T>);
    /// It is held.
    pub struct Guard<'a, T>(Option<MutexGuard<'a, T>>);
    impl<T> SpinLock<T> {
        #[allow(missing_docs)]
        pub const fn host_new(value: T) -> Self {
            Self(Mutex::new(value))
        }
        #[allow(missing_docs)]
        pub fn lock(&self) -> Guard<'_, T> {
            Guard(self.0.lock().ok())
        }
    }
    impl<T> core::ops::Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().expect("a test that held this lock has failed")
        }
    }
    impl<T> core::ops::DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("a test that held this lock has failed")
        }
    }

    /// Kinds of locks.
    pub mod lock {
        /// It is held.
        pub type Guard<'a, T, B> = <B as Backend>::Guard<'a, T>;
        /// A kind of lock.
        pub trait Backend {
            /// It is held.
            type Guard<'a, T: 'a>;
        }
        #[allow(missing_docs)]
        pub mod spinlock {
            /// Spin locks.
            pub struct SpinLockBackend;
            impl super::Backend for SpinLockBackend {
                type Guard<'a, T: 'a> = super::super::Guard<'a, T>;
            }
        }
    }

    /// A condition variable.
    #[derive(Default)]
    pub struct CondVar(Condvar);
    impl CondVar {
        #[allow(missing_docs)]
        pub fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            guard.0 = guard.0.take().and_then(|held| self.0.wait(held).ok());
        }
        #[allow(missing_docs)]
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[allow(missing_docs)]
#[macro_export]
macro_rules! new_spinlock {
    ($value:expr, $name:literal) => {
        $crate::sync::SpinLock::host_new($value)
    };
}
#[allow(missing_docs)]
#[macro_export]
macro_rules! new_condvar {
    ($name:literal) => {
        $crate::sync::CondVar::default()
    };
}

/// A red-black tree, here a B-tree.
pub mod rbtree {
    use crate::{alloc::Flags, error::Result};
    use std::collections::{
        btree_map::{self, Entry},
        BTreeMap,
    };

    /// The tree.
    pub struct RBTree<K, V>(BTreeMap<K, V>);
    /// The memory for a node.
    pub struct RBTreeNodeReservation<K, V>(core::marker::PhantomData<(K, V)>);
    /// A node.
    pub struct RBTreeNode<K, V>(K, V);

    impl<K, V> RBTreeNodeReservation<K, V> {
        #[allow(missing_docs)]
        pub fn new(_flags: Flags) -> Result<Self> {
            Ok(Self(core::marker::PhantomData))
        }
        #[allow(missing_docs)]
        pub fn into_node(self, key: K, value: V) -> RBTreeNode<K, V> {
            RBTreeNode(key, value)
        }
    }
    #[allow(missing_docs)]
    impl<K: Ord + Copy, V> RBTree<K, V> {
        pub const fn new() -> Self {
            Self(BTreeMap::new())
        }
        pub fn insert(&mut self, node: RBTreeNode<K, V>) -> Option<V> {
            self.0.insert(node.0, node.1)
        }
        pub fn get(&self, key: &K) -> Option<&V> {
            self.0.get(key)
        }
        pub fn values(&self) -> impl Iterator<Item = &V> {
            self.0.values()
        }
        pub fn find_mut(&mut self, key: &K) -> Option<OccupiedEntry<'_, K, V>> {
            match self.0.entry(*key) {
                Entry::Occupied(entry) => Some(OccupiedEntry(entry)),
                Entry::Vacant(_) => None,
            }
        }
        pub fn cursor_lower_bound(&self, key: &K) -> Option<Cursor<'_, K, V>> {
            self.0.range(key..).next().map(|(key, value)| Cursor(key, value))
        }
    }

    /// An entry of a tree.
    pub struct OccupiedEntry<'a, K, V>(btree_map::OccupiedEntry<'a, K, V>);

    impl<K: Ord + Copy, V> OccupiedEntry<'_, K, V> {
        #[allow(missing_docs)]
        pub fn get(&self) -> &V {
            self.0.get()
        }
        #[allow(missing_docs)]
        pub fn remove_node(self) -> RBTreeNode<K, V> {
            let (key, value) = self.0.remove_entry();
            RBTreeNode(key, value)
        }
    }

    /// A place in a tree.
    pub struct Cursor<'a, K, V>(&'a K, &'a V);

    impl<K, V> Cursor<'_, K, V> {
        #[allow(missing_docs)]
        pub fn current(&self) -> (&K, &V) {
            (self.0, self.1)
        }
    }
}

/// Attribute macros.
pub mod macros {
    pub use host_macros::{kunit_tests, pin_data};
}

#[allow(missing_docs)]
#[macro_export]
macro_rules! host_print {
    ($($arguments:tt)*) => { eprint!($($arguments)*) };
}
pub use host_print as pr_warn_limited;

/// The usual names.
pub mod prelude {
    pub use crate::{
        alloc::{Flags, KVVec, KVec, GFP_KERNEL, GFP_KERNEL_ACCOUNT},
        error::{code::*, Error, Result},
        host_print as pr_err,
        host_print as pr_info,
        host_print as pr_warn,
        init::PinInit,
        macros::{kunit_tests, pin_data},
        pin_init,
    };
    pub use core::{ffi::CStr, pin::Pin};
}
