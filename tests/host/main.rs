// SPDX-License-Identifier: GPL-2.0

//! The pure logic of the modules, tested on the host: `make host-test`.
//!
//! The `#[kunit_tests]` of these files run as `#[test]`, with `kernel.rs` here in place of the
//! kernel crate. KUnit runs the same tests in the kernel. This is the list of the files: to add
//! one, name it at its place in the module tree. Of a file that also has other code, the items are
//! extracted that a line `extract: FILE ITEM...` names, with the comments and attributes above
//! them.

#![allow(dead_code)]

/// The tree that the modules share.
pub mod ext {
    /// What needs neither RDMA nor PCI peer-to-peer memory.
    pub mod base {
        /// The segments of a table.
        pub mod sg {
            use crate::small_vec::SmallVec;
            use core::{iter::Peekable, mem, ops::Range};
            use kernel::{page::PAGE_SIZE, prelude::*};
            // extract: rust/ext/base/sg.rs Segment push Part part pieces whole Split split tests
            include!(concat!(env!("EXTRACTED"), "/rust_ext_base_sg.rs"));
        }

        /// PCI, as much as the options need.
        pub mod pci {
            /// The number of BARs of a function.
            pub const BARS: u32 = 6;
        }

        /// Module parameters: none is set.
        pub mod params {
            use kernel::prelude::*;

            /// Calls `f` with the value of the parameter.
            pub fn with_string<T>(_name: &CStr, f: impl FnOnce(Option<&CStr>) -> T) -> T {
                f(None)
            }

            /// Returns the value of the parameter.
            pub fn string(_name: &CStr) -> &'static str {
                ""
            }
        }
    }

    /// What needs ib_core.
    pub mod rdma {
        /// A set that knows no key for sure: the index itself has them.
        pub mod key_filter {
            /// A set of keys.
            pub struct KeyFilter;
            impl KeyFilter {
                /// Creates a set.
                pub fn new() -> kernel::prelude::Result<Self> {
                    Ok(Self)
                }
                /// Returns whether the key may be in the set.
                pub fn may_contain(&self, _key: u32) -> bool {
                    true
                }
                /// Adds a key.
                pub fn insert(&self, _key: u32) {}
                /// Removes a key.
                pub fn remove(&self, _key: u32) {}
            }
        }
    }
}

/// The ioctl structures, generated for the host.
pub mod uapi {
    #![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
    include!(concat!(env!("EXTRACTED"), "/uapi_generated.rs"));
}

#[path = "../../rust/ext/base/small_vec.rs"]
pub mod small_vec;
#[path = "../../src/data/index.rs"]
pub mod index;
#[path = "../../src/data/lifecycle.rs"]
pub mod lifecycle;
#[path = "../../src/data/range.rs"]
pub mod range;

/// The backends.
pub mod backend {
    /// The page lists of devices.
    pub mod fast_reg {
        use crate::{
            ext::base::sg::Segment,
            range::VaRange, //
        };
        use kernel::{page::PAGE_SIZE, prelude::*, pr_warn_limited};

        /// A table with segments.
        struct Table<T>(T);
        impl Table<Borrowed<'_>> {
            fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
                self.0 .0.iter().copied()
            }
        }
        struct Borrowed<'a>(&'a [Segment]);

        /// A device that is never asked: `Shape::choose` is not tested here.
        struct Device;
        impl Device {
            fn fast_reg_limits(&self) -> Limits {
                Limits {
                    pages: 0,
                    page_size: 0,
                    length: 0,
                }
            }
            fn page_sizes(&self) -> u64 {
                0
            }
            fn name(&self) -> &str {
                "host"
            }
        }
        struct Limits {
            pages: u32,
            page_size: u64,
            length: u64,
        }
        fn eopnotsupp() -> Error {
            EINVAL
        }
        // extract: src/backend/fast_reg.rs can_fence Shape tests
        include!(concat!(env!("EXTRACTED"), "/src_backend_fast_reg.rs"));
    }
}
#[path = "../../src/backend/param.rs"]
pub mod backend_param;

#[path = "../../samples/io_peer_mem/dm_abi.rs"]
pub mod dm_abi;
#[path = "../../samples/io_peer_mem/options.rs"]
pub mod options;
#[path = "../../samples/io_peer_mem/select.rs"]
pub mod select;
#[path = "../../samples/io_peer_mem/zero.rs"]
pub mod zero;

/// Registers a check of the module parameters; here they are never set.
#[macro_export]
macro_rules! param_function {
    ($function:ident, $check:ident) => {
        const _: fn(&kernel::prelude::CStr, &kernel::prelude::CStr) -> kernel::error::Result =
            $check;
    };
}
