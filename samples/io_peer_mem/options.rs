// SPDX-License-Identifier: GPL-2.0

//! The module parameters, and the options of a function.
//!
//! [`Options`] are the options that a function is bound with. [`Given`] are the options of a write
//! to `bind_with`, and override the module parameters.

use crate::{
    ext::base::{
        params,
        pci::BARS, //
    },
    prelude::*,
    zero::{
        self,
        Policies, //
    }, //
};

pub(crate) struct Options {
    /// Mask of the BARs to use; `None` for the default choice.
    pub(crate) bars: Option<u32>,
    /// The part of each BAR to use: offset and size; `None` for the whole BAR.
    pub(crate) parts: Parts,
    /// Whether bus mastering stays as it is.
    pub(crate) busmaster: bool,
    /// Whether the memory is published to other drivers; `None` for the default choice.
    pub(crate) publish: Option<bool>,
    /// When the memory of each BAR is cleared.
    pub(crate) zero: Policies,
}

pub(crate) type Parts = [Option<(u64, u64)>; BARS as usize];

/// The options of a function in a write to `bind_with`. `None` selects the module parameter.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given {
    bars: Option<u32>,
    ranges: Option<Parts>,
    busmaster: Option<bool>,
    publish: Option<bool>,
    zero: Option<Policies>,
}

impl Given {
    /// Sets `option`, of the form `name=value`. Returns `None` if `option` is invalid, or set
    /// already.
    fn set(&mut self, option: &str) -> Option<()> {
        let (name, value) = option.split_once('=')?;
        let value = value.as_bytes();
        let again = match name {
            "bars" => self.bars.replace(parse_bars(value)?).is_some(),
            "ranges" => self.ranges.replace(parse_ranges(value)?).is_some(),
            "busmaster" => self.busmaster.replace(parse_bool(value)?).is_some(),
            "publish" => self.publish.replace(parse_bool(value)?).is_some(),
            "zero" => self.zero.replace(zero::parse(value)?).is_some(),
            _ => return None,
        };
        (!again).then_some(())
    }
}

/// Parses a write to `bind_with`: a function, and the options of the function.
pub(crate) fn parse_bind(text: &str) -> Option<(Address, Given)> {
    let mut words = text.split_ascii_whitespace();
    let address = parse_address(words.next()?.as_bytes())?;
    let mut given = Given::default();
    words.try_for_each(|option| given.set(option))?;
    Some((address, given))
}

impl Options {
    /// Returns the options of a function: the options in `given`, and the parameters for all
    /// others. Users may write the parameters at run time. `bars` and `ranges` are a single choice:
    /// if `given` has either, both parameters are ignored.
    pub(crate) fn get(given: Given) -> Result<Self> {
        let (mut bars, ranges) = if given.bars.is_some() || given.ranges.is_some() {
            (given.bars, given.ranges)
        } else {
            (
                parsed(c"bars", parse_bars)?,
                parsed(c"ranges", parse_ranges)?,
            )
        };
        if let Some(parts) = &ranges {
            let named = (0..BARS).filter(|&i| parts[i as usize].is_some());
            bars = Some(named.fold(bars.unwrap_or(0), |mask, i| mask | 1 << i));
        }
        Ok(Self {
            bars,
            parts: ranges.unwrap_or_default(),
            busmaster: match given.busmaster {
                Some(busmaster) => busmaster,
                None => parsed(c"busmaster", parse_bool)?.unwrap_or(false),
            },
            publish: match given.publish {
                Some(publish) => Some(publish),
                None => parsed(c"publish", parse_bool)?,
            },
            zero: match given.zero {
                Some(zero) => zero,
                None => parsed(c"zero", zero::parse)?.unwrap_or_default(),
            },
        })
    }
}

/// Which mappings without struct pages may be registered.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum Mmio {
    #[default]
    No,
    /// Those of `resourceN` in sysfs.
    Sysfs,
    /// Those of any file.
    Any,
}

pub(crate) fn mmio() -> Mmio {
    parsed(c"mmio", parse_mmio)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Returns a bit of the parameter `name` and whether `text` sets it, if it is one that keeps the client
/// registered while no function is bound.
pub(crate) fn keeps_client(name: &CStr, text: &CStr) -> Option<(u32, bool)> {
    let text = text.to_bytes();
    match name.to_bytes() {
        b"mmio" => Some((1 << 0, parse_mmio(text) > Some(Mmio::No))),
        b"p2pmem" => Some((1 << 1, parse_bool(text) == Some(true))),
        _ => None,
    }
}

/// Returns how many bytes of a BAR one user may have.
pub(crate) fn quota() -> u64 {
    match parsed(c"quota", parse_bytes) {
        Ok(Some(bytes)) => bytes,
        _ => u64::MAX,
    }
}

/// Calls `f` for each vendor and device of the parameter `ids`. Stops and logs at the first error.
pub(crate) fn for_each_id(mut f: impl FnMut(u16, u16) -> Result) -> Result {
    let ids = params::string(c"ids").as_bytes();
    for (vendor, device) in items(ids).filter_map(parse_id) {
        f(vendor, device).inspect_err(|e| {
            pr_err!("ids: cannot bind {:04x}:{:04x}: {:?}\n", vendor, device, e)
        })?;
    }
    Ok(())
}

/// Address of a PCI function: domain, bus, and device and function.
pub(crate) type Address = (u32, u8, u8);

/// Calls `f` for the text and the address of each function in the parameter `devices`. Stops at the
/// first error.
pub(crate) fn for_each_device(mut f: impl FnMut(&str, Address) -> Result) -> Result {
    for name in params::string(c"devices").split(',') {
        if let Some(address) = parse_address(name.as_bytes()) {
            f(name, address)?;
        }
    }
    Ok(())
}

/// Returns the value of the parameter `name`, which [`check`] has accepted, or `None` if the value
/// is empty.
fn parsed<T>(name: &CStr, parse: fn(&[u8]) -> Option<T>) -> Result<Option<T>> {
    params::with_string(name, |text| {
        text.map(|text| parse(text.to_bytes()).ok_or(EINVAL))
            .transpose()
    })
}

/// Checks a new value of the parameter `name`. Returns `EINVAL` and logs the rule if the value is
/// invalid. An empty text restores the default.
fn check(name: &CStr, text: &CStr) -> Result {
    let bytes = text.to_bytes();
    let (valid, rule) = match name.to_bytes() {
        _ if bytes.is_empty() => return Ok(()),
        b"ids" => (
            all(bytes, parse_id),
            "a list of vendor:device, in hexadecimal",
        ),
        b"devices" => (
            all(bytes, parse_address),
            "a list of domain:bus:device.function",
        ),
        b"bars" => (
            parse_bars(bytes).is_some(),
            "a list of BAR numbers from 0 to 5",
        ),
        b"ranges" => (
            parse_ranges(bytes).is_some(),
            "a list of BAR:offset:size, at most one per BAR",
        ),
        b"zero" => (
            zero::parse(bytes).is_some(),
            "a list of never, free or alloc, with a BAR number and a colon before it or not",
        ),
        b"quota" => (parse_bytes(bytes).is_some(), "a number of bytes"),
        b"mmio" => (parse_mmio(bytes).is_some(), "0, 1, sysfs or any"),
        b"p2pmem" | b"busmaster" | b"publish" => (parse_bool(bytes).is_some(), "0 or 1"),
        _ => return Err(EINVAL),
    };
    if !valid {
        pr_err!("{}={}: not {}\n", show(name), show(text), rule);
        return Err(EINVAL);
    }
    Ok(())
}

// Called before the init function of the module, and on a write in sysfs.
crate::param_function!(ext_module_param_check, check);

fn show(text: &CStr) -> &str {
    text.to_str().unwrap_or("(not text)")
}

fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&c| c == b',')
}

fn all<T>(list: &[u8], parse: fn(&[u8]) -> Option<T>) -> bool {
    items(list).all(|item| parse(item).is_some())
}

fn parse_bars(list: &[u8]) -> Option<u32> {
    items(list).try_fold(0, |mask, item| match item {
        [c @ b'0'..=b'9'] if u32::from(c - b'0') < BARS => Some(mask | 1 << (c - b'0')),
        _ => None,
    })
}

fn parse_ranges(list: &[u8]) -> Option<Parts> {
    let mut parts = Parts::default();
    for item in items(list) {
        let mut fields = item.split(|&c| c == b':');
        let [bar @ b'0'..=b'9'] = *fields.next()? else {
            return None;
        };
        let part = parts.get_mut(usize::from(bar - b'0'))?;
        let (offset, size) = (parse_bytes(fields.next()?)?, parse_bytes(fields.next()?)?);
        let fits = size > 0 && offset.checked_add(size).is_some();
        if !fits || fields.next().is_some() || part.replace((offset, size)).is_some() {
            return None;
        }
    }
    Some(parts)
}

/// Parses a number of bytes: decimal, or hexadecimal after `0x`.
fn parse_bytes(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?;
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // `from_str_radix` accepts a sign.
    if !digits.bytes().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

fn parse_bool(text: &[u8]) -> Option<bool> {
    match text {
        b"0" | b"n" | b"N" => Some(false),
        b"1" | b"y" | b"Y" => Some(true),
        _ => None,
    }
}

fn parse_mmio(text: &[u8]) -> Option<Mmio> {
    match text {
        b"any" => Some(Mmio::Any),
        b"sysfs" => Some(Mmio::Sysfs),
        _ => parse_bool(text).map(|on| if on { Mmio::Sysfs } else { Mmio::No }),
    }
}

/// Parses one to `most` hexadecimal digits of a number below `limit`.
fn parse_hex(digits: &str, most: usize, limit: u32) -> Option<u32> {
    // `from_str_radix` accepts a sign.
    let valid = digits.len() <= most && digits.bytes().all(|c| c.is_ascii_hexdigit());
    let value = u32::from_str_radix(digits, 16).ok()?;
    (valid && value < limit).then_some(value)
}

/// Parses `vendor:device`, each in hexadecimal, with an optional `0x`.
fn parse_id(item: &[u8]) -> Option<(u16, u16)> {
    let (vendor, device) = core::str::from_utf8(item).ok()?.split_once(':')?;
    let id = |text: &str| -> Option<u16> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        parse_hex(digits, 4, 1 << 16)?.try_into().ok()
    };
    Some((id(vendor)?, id(device)?))
}

/// Parses `domain:bus:device.function`, in hexadecimal. A missing domain is 0.
fn parse_address(item: &[u8]) -> Option<Address> {
    let text = core::str::from_utf8(item).ok()?;
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    // Domains are `int` in the kernel.
    let domain = parse_hex(domain, 8, 1 << 31)?;
    let (bus, device) = (parse_hex(bus, 2, 1 << 8)?, parse_hex(device, 2, 1 << 5)?);
    let function = parse_hex(function, 1, 1 << 3)?;
    Some((
        domain,
        bus.try_into().ok()?,
        (device << 3 | function).try_into().ok()?,
    ))
}

#[kunit_tests(io_peer_mem_options)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        assert_eq!(parse_id(b"1af4:1110"), Some((0x1af4, 0x1110)));
        assert_eq!(parse_id(b"0x1AF4:0x0"), Some((0x1af4, 0)));
        for wrong in
            "|:|1af4|1af4:|:1110|1af4:11110|1af4:-1|1af4:0x|1af4:1110:0| 1af4:1110".split('|')
        {
            assert_eq!(parse_id(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn devices() {
        assert_eq!(parse_address(b"0000:03:00.0"), Some((0, 3, 0)));
        assert_eq!(parse_address(b"03:1f.7"), Some((0, 3, 0xff)));
        assert_eq!(parse_address(b"10000:E1:00.0"), Some((0x1_0000, 0xe1, 0)));
        assert_eq!(
            parse_address(b"7fffffff:0:0.1"),
            Some((i32::MAX as u32, 0, 1))
        );
        let wrong = "|03:00|03.0|:00.0|03:.0|03:00.|03:00.8|03:20.0|100:00.0|\
                     80000000:03:00.0|0:0:03:00.0|03:00.0 |+3:00.0|03:00.0.0";
        for wrong in wrong.split('|') {
            assert_eq!(parse_address(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn bars() {
        assert_eq!(parse_bars(b"0"), Some(1));
        assert_eq!(parse_bars(b"2,5,2"), Some(1 << 2 | 1 << 5));
        assert_eq!(parse_bars(b"4"), Some(1 << 4));
        for wrong in "|6|01|1,|,1|1 2|-1|x".split('|') {
            assert_eq!(parse_bars(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn ranges() {
        let two = parse_ranges(b"2:0x200000:4194304,0:0:0x200000");
        let mut want = Parts::default();
        want[2] = Some((0x20_0000, 0x40_0000));
        want[0] = Some((0, 0x20_0000));
        assert_eq!(two, Some(want));
        let wrong = "|2|2:0|2:0:|2:0:0|2:0:1:1|6:0:1|22:0:1|2:0:+1|2:-1:1|2:0:0x|\
                     2:0:1,2:1:1|2:0xffffffffffffffff:1|2:0:1,";
        for wrong in wrong.split('|') {
            assert!(parse_ranges(wrong.as_bytes()).is_none());
        }
    }

    #[test]
    fn bind_with() {
        let none = parse_bind("0000:03:00.1").map(|(address, given)| (address, given.bars));
        assert_eq!(none, Some(((0, 3, 1), None)));
        let all = "3:0.0  bars=0,2 ranges=2:0:0x200000 busmaster=1 publish=0 zero=alloc";
        let (address, given) = parse_bind(all).unwrap_or_default();
        assert_eq!((address, given.bars), ((0, 3, 0), Some(1 << 2 | 1)));
        let part = given.ranges.and_then(|parts| parts[2]);
        assert_eq!(part, Some((0, 0x20_0000)));
        assert_eq!((given.busmaster, given.publish), (Some(true), Some(false)));
        assert!(given.zero.is_some());
        let wrong = "|bars=2|03:00.0 bars|03:00.0 bars=|03:00.0 bars=6|\
                     03:00.0 bars=1 bars=2|03:00.0 mmio=1|\
                     03:00.0 zero=2:never publish=2|03:00.0 04:00.0";
        for wrong in wrong.split('|') {
            assert!(parse_bind(wrong).is_none());
        }
    }

    #[test]
    fn mmio() {
        for (text, mmio) in [
            (&b"1"[..], Mmio::Sysfs),
            (b"N", Mmio::No),
            (b"sysfs", Mmio::Sysfs),
            (b"any", Mmio::Any),
        ] {
            assert_eq!(parse_mmio(text), Some(mmio));
        }
        for wrong in "|2|yes| 1|Any".split('|') {
            assert_eq!(parse_mmio(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn kept() {
        assert_eq!(keeps_client(c"mmio", c"y"), Some((1, true)));
        assert_eq!(keeps_client(c"mmio", c"any"), Some((1, true)));
        assert_eq!(keeps_client(c"p2pmem", c"1"), Some((2, true)));
        for off in [c"0", c"", c"n"] {
            assert_eq!(keeps_client(c"p2pmem", off), Some((2, false)));
        }
        assert_eq!(keeps_client(c"publish", c"1"), None);
    }

    /// A value of each parameter; an empty text is the default.
    #[test]
    fn values() {
        for (name, value) in [
            (c"ids", c"1af4:1110,10ee:9038"),
            (c"devices", c"0000:03:00.0,04:00.1"),
            (c"bars", c"2"),
            (c"ranges", c"2:0:0x200000"),
            (c"mmio", c"0"),
            (c"p2pmem", c"0"),
            (c"busmaster", c"1"),
            (c"publish", c"0"),
            (c"zero", c"alloc,2:free"),
            (c"quota", c"0x1000000"),
        ] {
            assert!(check(name, value).is_ok() && check(name, c"").is_ok());
            assert_eq!(check(name, c"nonsense"), Err(EINVAL));
        }
        assert_eq!(check(c"other", c"1"), Err(EINVAL));
    }
}
