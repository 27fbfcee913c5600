// SPDX-License-Identifier: GPL-2.0
//
// What holds pages knows their addresses from the pages.
//
// expect: error[E0451]: field `pages` of struct `PageRefs` is private
// expect: error[E0451]: field `segments` of struct `PageRefs` is private

use crate::ext::{
    base::small_vec::SmallVec,
    p2pdma::PageRefs, //
};

/// Holds memory without an owner.
pub fn forge(segments: SmallVec<Segment>) -> PageRefs {
    PageRefs {
        pages: SmallVec::new(),
        segments,
    }
}
