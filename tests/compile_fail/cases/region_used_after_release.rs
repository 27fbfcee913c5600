// SPDX-License-Identifier: GPL-2.0
//
// A reference to the region must not outlive `get_pages`: `release` drops the region.
//
// expect: error: lifetime may not live long enough

/// Refers to a region for longer than it lives.
pub struct Later(&'static u64);

/// Uses the region.
pub fn keep(later: Later) -> u64 {
    *later.0
}

client!(
    Mine,
    Region = u64,
    get_pages = |region| {
        keep(Later(region));
        pin()
    }
);
peer_client_slot!(Mine);
