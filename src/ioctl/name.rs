// SPDX-License-Identifier: GPL-2.0

//! The ioctls that name memory as a part of a dma-buf: [`name`], [`unname`] and [`query`].
//!
//! [`named`] keeps the names. Context: process context; may sleep.

use crate::{
    ext::base::pinned::untagged,
    policy::named,
    prelude::*,
    uapi::{
        self,
        ib_peer_mem_name, //
    }, //
};

/// Fails with `EINVAL` if the version is unknown, a reserved field is not 0, or there are other flags
/// than `flags`.
fn check(arg: &ib_peer_mem_name, flags: u32) -> Result {
    if arg.version != uapi::IB_PEER_MEM_NAME_VERSION
        || arg.flags & !flags != 0
        || arg.pad != 0
        || arg.reserved != [0; 3]
    {
        return Err(EINVAL);
    }
    Ok(())
}

/// Returns the range of `length` bytes at `arg.addr`. Fails with `EINVAL` if the range is empty or
/// wraps.
fn range(arg: &ib_peer_mem_name, length: u64) -> Result<VaRange> {
    VaRange::new(untagged(arg.addr), length).ok_or(EINVAL)
}

/// `IB_PEER_MEM_IOC_NAME`. Fails as [`check`], [`range`] and [`named::add`] do.
pub(super) fn name(arg: usize) -> Result<isize> {
    let arg = uapi::read(arg)?;
    check(&arg, uapi::IB_PEER_MEM_NAME_REPLACE)?;
    named::add(range(&arg, arg.length)?, arg.fd, arg.offset, arg.flags != 0)?;
    Ok(0)
}

#[derive(PartialEq, Eq, Debug)]
enum Which {
    In(VaRange),
    /// The names of the dma-buf behind a descriptor.
    Of(i32),
}

/// Returns the names to remove. Fails as [`check`] and [`range`] do, and with `EINVAL` if both a
/// dma-buf and a range are given, or an offset.
fn which(arg: &ib_peer_mem_name) -> Result<Which> {
    check(arg, uapi::IB_PEER_MEM_UNNAME_DMABUF)?;
    if arg.offset != 0 {
        return Err(EINVAL);
    }
    if arg.flags == 0 {
        return range(arg, arg.length).map(Which::In);
    }
    if arg.addr != 0 || arg.length != 0 {
        return Err(EINVAL);
    }
    Ok(Which::Of(arg.fd))
}

/// `IB_PEER_MEM_IOC_UNNAME`. Fails as [`which`] and the functions of [`named`] do.
pub(super) fn unname(arg: usize) -> Result<isize> {
    match which(&uapi::read(arg)?)? {
        Which::In(range) => named::remove(range)?,
        Which::Of(fd) => named::remove_buffer(fd)?,
    }
    Ok(0)
}

/// `IB_PEER_MEM_IOC_QUERY`. Fails as [`check`] does, and with `ENOENT` if the memory has no name.
pub(super) fn query(arg: usize) -> Result<isize> {
    let mut request: ib_peer_mem_name = uapi::read(arg)?;
    check(&request, 0)?;
    let found = named::query(range(&request, 1)?)?;
    // CAST: An address has 64 bits.
    request.addr = found.range.addr() as u64;
    // CAST: A length has 64 bits.
    request.length = found.range.len() as u64;
    request.offset = found.offset;
    request.fd = found.fd;
    uapi::write(arg, &request)?;
    Ok(0)
}

#[kunit_tests(peer_mem_ioctl_name)]
mod tests {
    use super::*;

    fn arg(addr: u64, length: u64) -> ib_peer_mem_name {
        ib_peer_mem_name {
            version: uapi::IB_PEER_MEM_NAME_VERSION,
            addr,
            length,
            ..pin_init::zeroed()
        }
    }

    #[test]
    fn a_range_or_a_dma_buf_is_unnamed() -> Result {
        let range = VaRange::new(0x1000, 0x2000).ok_or(EINVAL)?;
        assert_eq!(which(&arg(0x1000, 0x2000)), Ok(Which::In(range)));
        let mut buffer = arg(0, 0);
        assert_eq!(which(&buffer), Err(EINVAL));
        buffer.flags = uapi::IB_PEER_MEM_UNNAME_DMABUF;
        buffer.fd = 7;
        assert_eq!(which(&buffer), Ok(Which::Of(7)));
        buffer.addr = 0x1000;
        assert_eq!(which(&buffer), Err(EINVAL));
        Ok(())
    }

    #[test]
    fn unknown_versions_and_reserved_fields_are_rejected() {
        let changes: [fn(&mut ib_peer_mem_name); 5] = [
            |arg| arg.version += 1,
            |arg| arg.flags = 4,
            |arg| arg.pad = 1,
            |arg| arg.reserved[0] = 1 << 32,
            |arg| arg.reserved[2] = 1,
        ];
        let flags = uapi::IB_PEER_MEM_UNNAME_DMABUF;
        for change in changes {
            let mut arg = arg(0x1000, 0x1000);
            assert_eq!(check(&arg, flags), Ok(()));
            change(&mut arg);
            assert_eq!(check(&arg, flags), Err(EINVAL));
        }
        let mut arg = arg(0x1000, 0x1000);
        arg.flags = flags;
        assert_eq!(check(&arg, 0), Err(EINVAL));
    }
}
