// SPDX-License-Identifier: GPL-2.0

//! Which memory is nearest to a device: `IO_PEER_MEM_IOC_NEAREST`.

use crate::{
    bar::Bar,
    ext::{
        p2pdma,
        pci, //
    }, //
};
use kernel::{
    ioctl::_IOWR,
    macros::kunit_tests,
    prelude::*,
    sync::ArcBorrow,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

/// `struct io_peer_mem_nearest`, as 16 words of 32 bits; the last eight are reserved.
type Arg = [u32; 16];

/// `IO_PEER_MEM_IOC_NEAREST`.
pub(crate) const IOC_NEAREST: u32 = _IOWR::<Arg>(0xB7, 2);

/// `IO_PEER_MEM_NEAREST_VERSION`.
const VERSION: u32 = 1;

/// `IO_PEER_MEM_NEAREST_FOUND`.
const FOUND: u32 = 1 << 0;

/// `IO_PEER_MEM_NEAREST_HERE`.
const HERE: u32 = 1 << 1;

/// Where a function is.
type Address = (u32, u8, u8);

/// What is asked for: the device that shall reach memory. `EINVAL` where the version is another
/// one, what must be 0 is not, or there can be no such address.
fn parse(arg: &Arg) -> Result<Address> {
    let [version, flags, domain, address, ..] = *arg;
    let valid = version == VERSION && flags == 0 && arg[8..].iter().all(|&word| word == 0);
    if !valid || domain > i32::MAX as u32 || address > 0xffff {
        return Err(EINVAL);
    }
    Ok((domain, (address >> 8) as u8, address as u8))
}

/// The answer: the nearest provider and how far it is, and how far we are.
fn answer(device: Address, provider: Option<(Address, u32)>, here: Option<u32>) -> Arg {
    let join = |(_, bus, slot): Address| u32::from(bus) << 8 | u32::from(slot);
    let mut arg = [0; 16];
    arg[0] = VERSION;
    arg[2] = device.0;
    arg[3] = join(device);
    if let Some((provider, distance)) = provider {
        arg[1] |= FOUND;
        arg[4] = provider.0;
        arg[5] = join(provider);
        arg[6] = distance;
    }
    if let Some(distance) = here {
        arg[1] |= HERE;
        arg[7] = distance;
    }
    arg
}

/// `ENXIO` where there is no function at that address.
///
/// Context: process context; may sleep.
pub(crate) fn nearest(this: ArcBorrow<'_, Bar>, arg: usize) -> Result<isize> {
    let size = core::mem::size_of::<Arg>();
    let (mut reader, mut writer) = UserSlice::new(UserPtr::from_addr(arg), size).reader_writer();
    let address = parse(&reader.read::<Arg>()?)?;
    let device = pci::at(address.0, address.1, address.2).ok_or(ENXIO)?;
    let client = (*device).as_ref();
    // It may be gone again when its distance is asked for; then there is none.
    let provider = p2pdma::find(&[client])?.and_then(|provider| {
        let distance = p2pdma::distance(&provider, client).ok()?;
        Some((pci::address(&provider), distance))
    });
    let here = p2pdma::distance(&this.dev, client).ok();
    writer.write(&answer(address, provider, here))?;
    Ok(0)
}

/// The words of the structure.
#[kunit_tests(io_peer_mem_nearest)]
mod tests {
    use super::*;

    /// A question.
    fn ask(domain: u32, address: u32) -> Arg {
        let mut arg = [0; 16];
        arg[0] = VERSION;
        arg[2] = domain;
        arg[3] = address;
        arg
    }

    /// The size that user space was promised, and the number.
    #[test]
    fn abi() {
        assert_eq!(core::mem::size_of::<Arg>(), 64);
        assert_eq!(IOC_NEAREST, 0xc040_b702);
    }

    /// What is refused.
    #[test]
    fn questions() {
        assert!(parse(&ask(0, 0x0118)) == Ok((0, 1, 0x18)));
        assert!(parse(&ask(0x10000, 0xffff)) == Ok((0x10000, 0xff, 0xff)));
        assert!(parse(&ask(0, 0x10000)).is_err());
        assert!(parse(&ask(u32::MAX, 0)).is_err());
        for word in [0, 1, 8, 15] {
            let mut arg = ask(0, 0x0118);
            arg[word] += 1;
            assert!(parse(&arg) == Err(EINVAL));
        }
        // What is only written may hold anything.
        for word in 4..8 {
            let mut arg = ask(0, 0x0118);
            arg[word] = u32::MAX;
            assert!(parse(&arg).is_ok());
        }
    }

    /// Each part comes with its flag, and alone.
    #[test]
    fn answers() {
        let device = (3, 0x12, 0x18);
        let none = answer(device, None, None);
        assert_eq!(none[..8], [VERSION, 0, 3, 0x1218, 0, 0, 0, 0]);
        let both = answer(device, Some(((1, 2, 3), 4)), Some(6));
        assert_eq!(
            both[..8],
            [VERSION, FOUND | HERE, 3, 0x1218, 1, 0x0203, 4, 6]
        );
        assert_eq!(answer(device, None, Some(6))[1], HERE);
        assert!(both[8..].iter().all(|&word| word == 0));
    }
}
