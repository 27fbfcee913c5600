// SPDX-License-Identifier: GPL-2.0
//
// Before `get_pages` there is only the region, and that cannot be mapped.
//
// expect: error[E0277]: the trait bound `case::Region: Memory` is not satisfied

/// A range that was claimed.
pub struct Region;

/// Maps it at once.
pub fn map(region: &mut Region, dev: &device::Device) -> Result {
    Memory::map(region, dev)
}
