// SPDX-License-Identifier: GPL-2.0
//
// Safe code cannot give a device physical addresses that are not in a BAR.
//
// expect: error[E0603]: enum `Reach` is private
// expect: error[E0624]: associated function `of_mmio` is private

/// Maps any physical memory for a device.
pub fn map(dev: &device::Device) -> Result<Table> {
    let all = 0..u64::MAX;
    Table::of_mmio(
        [all].into_iter(),
        dev,
        crate::ext::base::dma_table::Reach::Dma,
    )
}
