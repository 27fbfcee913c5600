// SPDX-License-Identifier: GPL-2.0

//! How a device imports dma-bufs: the module parameter `modes`.

use crate::ext::params;
use kernel::{
    macros::kunit_tests,
    prelude::*,
    sync::SetOnce, //
};

/// A way to import a dma-buf; each is that of stock drivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// As mlx5: not pinned; after an invalidation the next access maps it again.
    Dynamic,
    /// As irdma: pinned; an invalidation is for good.
    Revocable,
    /// As efa and bnxt_re: pinned, with no way to take it back.
    Pinned,
}

impl Mode {
    /// Its name in the parameter.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Revocable => "revocable",
            Self::Pinned => "pinned",
        }
    }

    fn parse(name: &[u8]) -> Option<Self> {
        [Self::Dynamic, Self::Revocable, Self::Pinned]
            .into_iter()
            .find(|mode| mode.name().as_bytes() == name)
    }

    /// That of the device with that number.
    pub(crate) fn of_device(number: u32) -> Self {
        MODES
            .copy()
            .map_or(Self::Dynamic, |modes| modes.get(number))
    }
}

/// Longer lists are refused.
const MOST: usize = 16;

/// The modes of the first devices; the last one is that of all others.
#[derive(Clone, Copy)]
struct Modes {
    list: [Mode; MOST],
    len: usize,
}

impl Modes {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut modes = Self {
            list: [Mode::Dynamic; MOST],
            len: 0,
        };
        for name in text
            .strip_suffix(b"\n")
            .unwrap_or(text)
            .split(|&c| c == b',')
        {
            *modes.list.get_mut(modes.len)? = Mode::parse(name)?;
            modes.len += 1;
        }
        Some(modes)
    }

    fn get(&self, number: u32) -> Mode {
        let last = self.len.saturating_sub(1);
        self.list[(number as usize).min(last)]
    }
}

/// Set once, by [`read`].
static MODES: SetOnce<Modes> = SetOnce::new();

/// Reads the parameter; `EINVAL`, and a line in the log, where it is wrong.
pub(crate) fn read() -> Result {
    let Some(text) = params::string(c"modes") else {
        return Ok(());
    };
    let modes = Modes::parse(text.to_bytes()).ok_or_else(|| {
        pr_err!("modes: not a list of dynamic, revocable and pinned\n");
        EINVAL
    })?;
    MODES.populate(modes);
    Ok(())
}

/// What is read, and what is refused.
#[kunit_tests(peer_mem_test_adapter_mode)]
mod tests {
    use super::*;

    /// The last one is that of all others.
    #[test]
    fn modes() -> Result {
        let modes = Modes::parse(b"pinned,revocable\n").ok_or(EINVAL)?;
        assert_eq!(modes.get(0), Mode::Pinned);
        assert_eq!(modes.get(1), Mode::Revocable);
        assert_eq!(modes.get(7), Mode::Revocable);
        for wrong in [&b""[..], b",", b"pinned,", b"Pinned", b"pinned revocable"] {
            assert!(Modes::parse(wrong).is_none());
        }
        Ok(())
    }
}
