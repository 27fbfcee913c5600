// SPDX-License-Identifier: GPL-2.0

//! `IO_PEER_MEM_IOC_NEAREST`: finds the memory nearest to a device.

use crate::{
    bar::Bar,
    ext::{
        base::pci,
        p2pdma, //
    },
    options::Address,
    prelude::*,
    uapi::{
        self,
        io_peer_mem_nearest, //
    }, //
};

/// Returns bus, device and function of `address` as a single number.
fn bus_slot((_, bus, slot): Address) -> u32 {
    u32::from(bus) << 8 | u32::from(slot)
}

/// Checks a request. Returns the address of the device, or `EINVAL` for another version, flags,
/// reserved fields that are not 0, and impossible addresses.
fn check(arg: &io_peer_mem_nearest) -> Result<Address> {
    let valid = arg.version == uapi::IO_PEER_MEM_NEAREST_VERSION
        && arg.flags == 0
        && arg.reserved == [0; 4]
        && i32::try_from(arg.domain).is_ok();
    let [0, 0, bus, slot] = arg.address.to_be_bytes() else {
        return Err(EINVAL);
    };
    if !valid {
        return Err(EINVAL);
    }
    Ok((arg.domain, bus, slot))
}

/// Returns the answer for `device`: the nearest provider with the distance of the provider, and
/// `here`, the distance of the function that the ioctl was called on.
fn answer(
    device: Address,
    provider: Option<(Address, u32)>,
    here: Option<u32>,
) -> io_peer_mem_nearest {
    let mut answer = io_peer_mem_nearest {
        version: uapi::IO_PEER_MEM_NEAREST_VERSION,
        domain: device.0,
        address: bus_slot(device),
        ..Default::default()
    };
    if let Some((provider, distance)) = provider {
        answer.flags |= uapi::IO_PEER_MEM_NEAREST_FOUND;
        answer.provider_domain = provider.0;
        answer.provider_address = bus_slot(provider);
        answer.provider_distance = distance;
    }
    if let Some(distance) = here {
        answer.flags |= uapi::IO_PEER_MEM_NEAREST_HERE;
        answer.distance = distance;
    }
    answer
}

/// Implements `IO_PEER_MEM_IOC_NEAREST`, with the errors of ioctl.rst.
pub(crate) fn nearest(this: ArcBorrow<'_, Bar>, arg: usize) -> Result<isize> {
    let address = check(&uapi::read(arg)?)?;
    // The configuration space of a removed function must not be accessed.
    this.check_alive()?;
    let device = pci::at(address.0, address.1, address.2).ok_or(ENXIO)?;
    let client = (*device).as_ref();
    // The provider may be removed before the distance is known. Then the answer has no provider.
    let provider = p2pdma::find(&[client])?.and_then(|provider| {
        let distance = p2pdma::distance(&provider, client).ok()?;
        Some((pci::address(&provider), distance))
    });
    let here = p2pdma::distance(this.dev(), client).ok();
    uapi::write(arg, &answer(address, provider, here))?;
    Ok(0)
}

#[kunit_tests(io_peer_mem_nearest)]
mod tests {
    use super::*;

    fn request(domain: u32, address: u32) -> io_peer_mem_nearest {
        io_peer_mem_nearest {
            version: uapi::IO_PEER_MEM_NEAREST_VERSION,
            domain,
            address,
            ..Default::default()
        }
    }

    /// Addresses, and fields that must have a fixed value.
    #[test]
    fn requests() {
        assert!(check(&request(0, 0x0118)) == Ok((0, 1, 0x18)));
        assert!(check(&request(0x10000, 0xffff)) == Ok((0x10000, 0xff, 0xff)));
        assert!(check(&request(i32::MAX as u32, 0)).is_ok());
        assert!(check(&request(0, 0x10000)) == Err(EINVAL));
        assert!(check(&request(0, 0x0100_0000)) == Err(EINVAL));
        assert!(check(&request(1 << 31, 0)) == Err(EINVAL));
        assert!(check(&request(u32::MAX, 0)) == Err(EINVAL));
        for version in [0, 2] {
            let mut arg = request(0, 0x0118);
            arg.version = version;
            assert!(check(&arg) == Err(EINVAL));
        }
        let mut arg = request(0, 0x0118);
        arg.flags = 1;
        assert!(check(&arg) == Err(EINVAL));
        for i in 0..4 {
            let mut arg = request(0, 0x0118);
            arg.reserved[i] = 1;
            assert!(check(&arg) == Err(EINVAL));
        }
        // Output fields may have any value.
        let mut arg = request(0, 0x0118);
        arg.provider_domain = u32::MAX;
        arg.provider_address = u32::MAX;
        arg.provider_distance = u32::MAX;
        arg.distance = u32::MAX;
        assert!(check(&arg).is_ok());
    }

    /// Each part of the answer has a separate flag, also without the other part.
    #[test]
    fn answers() {
        let device = (3, 0x12, 0x18);
        let none = answer(device, None, None);
        assert_eq!(none.version, uapi::IO_PEER_MEM_NEAREST_VERSION);
        assert_eq!((none.flags, none.domain, none.address), (0, 3, 0x1218));
        let both = answer(device, Some(((1, 2, 3), 4)), Some(6));
        assert_eq!(both.flags, 3);
        assert_eq!((both.domain, both.address), (3, 0x1218));
        assert_eq!((both.provider_domain, both.provider_address), (1, 0x0203));
        assert_eq!((both.provider_distance, both.distance), (4, 6));
        assert_eq!(both.reserved, [0; 4]);
        assert_eq!(answer(device, None, Some(6)).flags, 2);
        assert_eq!(answer(device, Some(((1, 2, 3), 4)), None).flags, 1);
    }
}
