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
    fn without_an_entry_it_is_auto() {
        assert_eq!(choose("", &["mlx5_0"]), Ok(Choice::Auto));
        assert_eq!(choose("mlx5_1:none", &["mlx5_0"]), Ok(Choice::Auto));
    }

    #[test]
    fn for_all_and_for_one() {
        assert_eq!(choose("fast_reg", &["mlx5_0"]), Ok(Choice::FastReg));
        let text = "mlx5_0:dma_buf,rxe0:none,fast_reg";
        assert_eq!(choose(text, &["mlx5_0"]), Ok(Choice::DmaBuf));
        assert_eq!(choose(text, &["rxe0"]), Ok(Choice::None));
        assert_eq!(choose(text, &["mlx5_1"]), Ok(Choice::FastReg));
    }

    #[test]
    fn by_pci_address() {
        let names = ["mlx5_0", "0000:3b:00.0"];
        assert_eq!(choose("0000:3b:00.0:none", &names), Ok(Choice::None));
        assert_eq!(choose("0000:3b:00.1:none", &names), Ok(Choice::Auto));
        assert_eq!(choose("0000:3b:00.0", &names), Err(EINVAL));
    }

    #[test]
    fn the_first_entry_counts() {
        assert_eq!(choose("none,rxe0:fast_reg", &["rxe0"]), Ok(Choice::None));
    }

    #[test]
    fn malformed_text_is_rejected() {
        for text in ["dmabuf", "rxe0:", ",", "auto,", "a:b:c", "rxe0:auto,x"] {
            assert_eq!(choose(text, &["rxe0"]), Err(EINVAL));
        }
    }
}
