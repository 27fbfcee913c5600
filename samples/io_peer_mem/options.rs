// SPDX-License-Identifier: GPL-2.0

//! The module parameters.

use crate::{
    params,
    pci::BARS, //
};
use kernel::{
    macros::kunit_tests,
    prelude::*,
    sync::SetOnce, //
};

/// What the user asked for when the module was loaded.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    /// The BARs to use, one bit each; `None` to choose.
    pub(crate) bars: Option<u32>,
}

/// Set once, by [`read`].
static OPTIONS: SetOnce<Options> = SetOnce::new();

/// The options; the defaults before [`read`].
pub(crate) fn get() -> Options {
    OPTIONS.copy().unwrap_or_default()
}

/// Reads the parameters; `EINVAL`, and a line in the log, where one is wrong.
pub(crate) fn read() -> Result {
    if let Some(text) = params::string(c"ids") {
        if !items(text.to_bytes()).all(|id| parse_id(id).is_some()) {
            pr_err!(
                "ids={}: not a list of vendor:device, in hexadecimal\n",
                show(text)
            );
            return Err(EINVAL);
        }
    }
    let bars = match params::string(c"bars") {
        Some(text) => Some(parse_bars(text.to_bytes()).ok_or_else(|| {
            pr_err!(
                "bars={}: not a list of BAR numbers from 0 to 5\n",
                show(text)
            );
            EINVAL
        })?),
        None => None,
    };
    OPTIONS.populate(Options { bars });
    Ok(())
}

/// Calls `f` for each vendor and device of the parameter `ids`, until it fails; then there is a
/// line in the log.
pub(crate) fn for_each_id(mut f: impl FnMut(u16, u16) -> Result) -> Result {
    let Some(text) = params::string(c"ids") else {
        return Ok(());
    };
    for (vendor, device) in items(text.to_bytes()).filter_map(parse_id) {
        f(vendor, device).inspect_err(|e| {
            pr_err!("ids: cannot bind {:04x}:{:04x}: {:?}\n", vendor, device, e)
        })?;
    }
    Ok(())
}

/// A parameter as text.
fn show(text: &'static CStr) -> &'static str {
    text.to_str().unwrap_or("(not text)")
}

/// The items of a list. A newline at the end, as `echo` writes, belongs to none.
fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.strip_suffix(b"\n")
        .unwrap_or(list)
        .split(|&c| c == b',')
}

/// One or more BAR numbers, as a mask.
fn parse_bars(list: &[u8]) -> Option<u32> {
    items(list).try_fold(0, |mask, item| match item {
        [c @ b'0'..=b'9'] if u32::from(c - b'0') < BARS => Some(mask | 1 << (c - b'0')),
        _ => None,
    })
}

/// `vendor:device`.
fn parse_id(item: &[u8]) -> Option<(u16, u16)> {
    let colon = item.iter().position(|&c| c == b':')?;
    let (vendor, device) = item.split_at(colon);
    Some((parse_hex(vendor)?, parse_hex(device.get(1..)?)?))
}

/// One to four hexadecimal digits, perhaps with `0x` before them.
fn parse_hex(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    digits.iter().try_fold(0u16, |value, &c| {
        let digit = char::from(c).to_digit(16)?;
        Some(value << 4 | digit as u16)
    })
}

/// What is read, and what is refused.
#[kunit_tests(io_peer_mem_options)]
mod tests {
    use super::*;

    /// One item of `ids`.
    #[test]
    fn ids() {
        assert_eq!(parse_id(b"1af4:1110"), Some((0x1af4, 0x1110)));
        assert_eq!(parse_id(b"0x1AF4:0x0"), Some((0x1af4, 0)));
        for wrong in [
            &b""[..],
            b":",
            b"1af4",
            b"1af4:",
            b":1110",
            b"1af4:11110",
            b"1af4:-1",
            b"1af4:0x",
            b"1af4:1110:0",
            b" 1af4:1110",
        ] {
            assert_eq!(parse_id(wrong), None);
        }
    }

    /// The whole of `bars`.
    #[test]
    fn bars() {
        assert_eq!(parse_bars(b"0"), Some(1));
        assert_eq!(parse_bars(b"2,5,2"), Some(1 << 2 | 1 << 5));
        assert_eq!(parse_bars(b"4\n"), Some(1 << 4));
        for wrong in [&b""[..], b"6", b"01", b"1,", b",1", b"1 2", b"-1", b"x"] {
            assert_eq!(parse_bars(wrong), None);
        }
    }
}
