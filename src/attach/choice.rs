// SPDX-License-Identifier: GPL-2.0

//! Which backend serves which device: what the module parameter `backend` says.
//!
//! `[DEVICE:]BACKEND[,...]`: for the device of that name, as `rdma link` shows it, or for all. What
//! comes first wins; without any word on a device it is [`Choice::Auto`].

use kernel::prelude::*;

/// What an administrator wants for a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// dma-buf where the driver imports them, else fast registration.
    Auto,
    DmaBuf,
    FastReg,
    /// Leave the device alone.
    None,
}

impl Choice {
    fn parse(word: &str) -> Result<Self> {
        match word {
            "auto" => Ok(Self::Auto),
            "dma_buf" => Ok(Self::DmaBuf),
            "fast_reg" => Ok(Self::FastReg),
            "none" => Ok(Self::None),
            _ => Err(EINVAL),
        }
    }
}

/// The choice for `device` in the parameter's text. `EINVAL` where any of it is no choice.
pub(crate) fn choose(text: &str, device: &str) -> Result<Choice> {
    let mut found = None;
    for entry in text.split(',').filter(|_| !text.is_empty()) {
        let (wanted, word) = match entry.split_once(':') {
            Some((name, word)) => (name == device && !name.is_empty(), word),
            None => (true, entry),
        };
        let choice = Choice::parse(word)?;
        if wanted && found.is_none() {
            found = Some(choice);
        }
    }
    Ok(found.unwrap_or(Choice::Auto))
}

#[kunit_tests(peer_mem_choice)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_is_auto() {
        assert_eq!(choose("", "mlx5_0"), Ok(Choice::Auto));
        assert_eq!(choose("mlx5_1:none", "mlx5_0"), Ok(Choice::Auto));
    }

    #[test]
    fn for_all_and_for_one() {
        assert_eq!(choose("fast_reg", "mlx5_0"), Ok(Choice::FastReg));
        let text = "mlx5_0:dma_buf,rxe0:none,fast_reg";
        assert_eq!(choose(text, "mlx5_0"), Ok(Choice::DmaBuf));
        assert_eq!(choose(text, "rxe0"), Ok(Choice::None));
        assert_eq!(choose(text, "mlx5_1"), Ok(Choice::FastReg));
    }

    #[test]
    fn the_first_word_counts() {
        assert_eq!(choose("none,rxe0:fast_reg", "rxe0"), Ok(Choice::None));
    }

    #[test]
    fn bad_text_is_refused() {
        for text in ["dmabuf", "rxe0:", ",", "auto,", "a:b:c", "rxe0:auto,x"] {
            assert_eq!(choose(text, "rxe0"), Err(EINVAL));
        }
    }
}
