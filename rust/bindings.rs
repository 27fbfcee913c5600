// SPDX-License-Identifier: GPL-2.0

//! Declarations generated from kernel headers that [`kernel::bindings`] does not cover.
//!
//! Only the abstractions in `rust/` and the C ABI edge name these.

/// `rdma/*.h`.
#[allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::missing_docs_in_private_items,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
pub mod rdma {
    use kernel::{
        bindings::*,
        ffi, //
    };
    use pin_init::{
        MaybeZeroable,
        Zeroable, //
    };

    // SAFETY: A bitfield unit is its storage alone.
    unsafe impl<S: Zeroable> Zeroable for __BindgenBitfieldUnit<S> {}

    // SAFETY: It has no bytes.
    unsafe impl<T> Zeroable for __IncompleteArrayField<T> {}

    impl<T: Copy> Clone for __IncompleteArrayField<T> {
        fn clone(&self) -> Self {
            *self
        }
    }
    impl<T: Copy> Copy for __IncompleteArrayField<T> {}

    include!(concat!(
        env!("PEER_MEM_OBJ"),
        "/rust/bindings/rdma_generated.rs"
    ));
}
