// SPDX-License-Identifier: GPL-2.0
//
// Before `get_pages` only the region exists, which cannot be mapped.
//
// expect: error[E0277]: the trait bound `case::Region: Memory` is not satisfied

/// A claimed range.
pub struct Region;

/// Maps the region itself.
pub fn map(region: &mut Region, dev: &device::Device) -> Result {
    Memory::map(region, dev)
}
