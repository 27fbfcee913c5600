// SPDX-License-Identifier: GPL-2.0

//! [`Quirks`]: facts about drivers that no interface of the kernel tells.
//!
//! The facts are from the sources of the drivers in the kernels of `scripts/kernels`;
//! Documentation/hazards.rst has the reasons. All code that depends on a driver asks
//! [`Device::quirks`](super::Device::quirks).

use crate::shared::prelude::raw::*;

/// The limits of the MRs that a driver registers by work request.
#[derive(Clone, Copy)]
pub struct FastRegLimits {
    pub pages: u32,
    /// The largest page size, in bytes.
    pub page_size: u64,
    pub length: u64,
}

/// What is known of a driver.
pub struct Quirks {
    /// The driver logs an error for each MR whose memory the driver cannot pin. So the driver is not
    /// called for memory that clients may claim.
    pub logs_failed_pins: bool,
    /// `reg_user_mr_dmabuf` fails on devices without on-demand paging.
    pub dma_buf_needs_odp: bool,
    /// The limits of MRs by work request. `None`: no limits are known, and the driver must pass a
    /// self-test.
    pub fast_reg: Option<FastRegLimits>,
    /// The function that invalidates an imported dma-buf, if the driver ignores the result of the
    /// function, an `int`.
    pub ignored_invalidation: Option<&'static CStr>,
}

impl Quirks {
    const NONE: Self = Self {
        logs_failed_pins: false,
        dma_buf_needs_odp: false,
        fast_reg: None,
        ignored_invalidation: None,
    };

    const RXE: Self = Self {
        logs_failed_pins: true,
        // rdma_rxe reports 512 pages, but the only limit is an array of 16 bytes for each page.
        fast_reg: Some(FastRegLimits {
            pages: 1 << 18,
            page_size: 1 << 30,
            length: u64::MAX,
        }),
        ..Self::NONE
    };

    const MLX5: Self = Self {
        dma_buf_needs_odp: true,
        // The driver calls the function from another source file, so the compiler keeps the symbol.
        ignored_invalidation: Some(c"mlx5r_umr_update_mr_pas"),
        ..Self::NONE
    };

    /// Returns those of a driver. `is_virt_dma`: the device uses virtual addresses for DMA.
    pub(super) fn of(driver: rdma::rdma_driver_id, is_virt_dma: bool) -> &'static Self {
        match driver {
            rdma::rdma_driver_id_RDMA_DRIVER_RXE if is_virt_dma => &Self::RXE,
            rdma::rdma_driver_id_RDMA_DRIVER_MLX5 => &Self::MLX5,
            _ => &Self::NONE,
        }
    }
}
