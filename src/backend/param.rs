// SPDX-License-Identifier: GPL-2.0

//! The module parameter `backend`: `[DEVICE:]BACKEND[,...]`.
//!
//! An entry is for the named device, or for all devices. The name is the name of the RDMA device,
//! or of the device that does the DMA: a PCI address, which udev does not rename. The first entry
//! that matches a device counts; without a match the choice is [`Choice::Auto`]. The backends call
//! [`choose`] for each device, and once at load to check the text.

use kernel::prelude::*;

/// The administrator's choice for a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// A dma-buf if the driver imports dma-bufs, fast registration for rdma_rxe, else the hook on
    /// `ib_umem_get_desc()`.
    Auto,
    DmaBuf,
    Umem,
    FastReg,
    /// The device is not served.
    None,
}

impl Choice {
    fn parse(word: &str) -> Result<Self> {
        match word {
            "auto" => Ok(Self::Auto),
            "dma_buf" => Ok(Self::DmaBuf),
            "umem" => Ok(Self::Umem),
            "fast_reg" => Ok(Self::FastReg),
            "none" => Ok(Self::None),
            _ => Err(EINVAL),
        }
    }
}

/// Returns the choice in `text` for the device with the names `names`. Fails with `EINVAL` if any
/// entry is malformed.
pub(crate) fn choose(text: &str, names: &[&str]) -> Result<Choice> {
    let mut found = None;
    for entry in text.split(',').filter(|_| !text.is_empty()) {
        // A PCI address has colons as well.
        let (matches, word) = match entry.rsplit_once(':') {
            Some((name, word)) => (names.contains(&name) && !name.is_empty(), word),
            None => (true, entry),
        };
        let choice = Choice::parse(word)?;
        if matches && found.is_none() {
            found = Some(choice);
        }
    }
    Ok(found.unwrap_or(Choice::Auto))
}

#[kunit_tests(peer_mem_param)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_for_the_device_counts() {
        let three = "mlx5_0:dma_buf,rxe0:none,fast_reg";
        for (text, name, choice) in [
            ("", "mlx5_0", Choice::Auto),
            ("mlx5_1:none", "mlx5_0", Choice::Auto),
            ("fast_reg", "mlx5_0", Choice::FastReg),
            (three, "mlx5_0", Choice::DmaBuf),
            (three, "rxe0", Choice::None),
            (three, "mlx5_1", Choice::FastReg),
            ("none,rxe0:fast_reg", "rxe0", Choice::None),
            ("0000:3b:00.0:none", "0000:3b:00.0", Choice::None),
            ("0000:3b:00.1:none", "0000:3b:00.0", Choice::Auto),
        ] {
            assert_eq!(choose(text, &["other", name]), Ok(choice));
        }
    }

    #[test]
    fn malformed_text_is_rejected() {
        for text in [
            "dmabuf",
            "rxe0:",
            ",",
            "auto,",
            "a:b:c",
            "rxe0:auto,x",
            "0000:3b:00.0",
        ] {
            assert_eq!(choose(text, &["rxe0", "0000:3b:00.0"]), Err(EINVAL));
        }
    }
}
