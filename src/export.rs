// SPDX-License-Identifier: GPL-2.0

//! `/dev/ib_peer_mem`: `include/uapi/ib_peer_mem.h`.

use crate::{
    ext::miscdev::Control,
    pr_warn_limited,
    range::Range,
    registry, //
};
use core::mem::size_of;
use kernel::{
    bindings,
    fs::file::FileDescriptorReservation,
    ioctl::_IOWR,
    page::PAGE_SIZE,
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

/// `struct ib_peer_mem_export`, as words of 32 bits.
type Arg = [u32; 14];

/// `IB_PEER_MEM_IOC_EXPORT`.
const IOC_EXPORT: u32 = _IOWR::<Arg>(0xB8, 1);

/// `IB_PEER_MEM_EXPORT_VERSION`.
const VERSION: u32 = 1;

/// Where in it the file descriptor is.
const FD: usize = 6;

/// The device. Anybody may open it: what a process can have exported is what it could register.
pub(crate) struct Ioctls;

impl Control for Ioctls {
    const NAME: &'static CStr = c"ib_peer_mem";
    const MODE: u16 = 0o666;

    fn ioctl(cmd: u32, arg: usize) -> Result<isize> {
        match cmd {
            IOC_EXPORT => export(arg),
            _ => Err(ENOTTY),
        }
    }
}

/// Two words, as one of 64 bits.
fn join(words: [u32; 2]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&words[0].to_ne_bytes());
    bytes[4..].copy_from_slice(&words[1].to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// What is to be exported; `EINVAL` where the version is another one, what must be 0 is not, or
/// the range is empty, wraps, or is not in whole pages.
fn parse(arg: &Arg) -> Result<Range> {
    let [version, flags, addr0, addr1, length0, length1, _fd, reserved @ ..] = *arg;
    if version != VERSION || flags != 0 || reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    let (addr, length) = (join([addr0, addr1]), join([length0, length1]));
    if (addr | length) % PAGE_SIZE as u64 != 0 {
        return Err(EINVAL);
    }
    Range::new(addr, length).ok_or(EINVAL)
}

/// `IB_PEER_MEM_IOC_EXPORT`: as [`parse`], `EFAULT` where the range is no client's memory, `EMFILE`,
/// and what the client's own functions return.
fn export(arg: usize) -> Result<isize> {
    let (mut reader, mut writer) =
        UserSlice::new(UserPtr::from_addr(arg), size_of::<Arg>()).reader_writer();
    let mut words = reader.read::<Arg>()?;
    let range = parse(&words)?;
    let fd = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
    let offer = registry::export_memory(range)?.ok_or_else(|| {
        pr_warn_limited!(
            "export: {} bytes at {:#x} are no client's memory\n",
            range.len(),
            range.addr()
        );
        EFAULT
    })?;
    words[FD] = fd.reserved_fd();
    // Where this fails the offer ends with its last reference, and nobody has seen it.
    writer.write(&words)?;
    fd.fd_install(offer.file());
    Ok(0)
}

/// The structure.
#[kunit_tests(peer_mem_export_abi)]
mod tests {
    use super::*;

    /// A good one.
    fn arg(addr: u64, length: u64) -> Arg {
        let mut arg = [0; 14];
        arg[0] = VERSION;
        for (i, word) in [(2, addr), (4, length)] {
            arg[i] = word as u32;
            arg[i + 1] = (word >> 32) as u32;
        }
        arg
    }

    #[test]
    fn size_and_number() {
        assert_eq!(size_of::<Arg>(), 56);
        assert_eq!(IOC_EXPORT, 0xc038_b801);
    }

    #[test]
    fn what_is_asked_for() -> Result {
        let range = parse(&arg(0x7f12_3456_7000, 0x3000))?;
        assert_eq!((range.addr(), range.len()), (0x7f12_3456_7000, 0x3000));
        // What is only written may hold anything.
        let mut any = arg(0x1000, 0x1000);
        any[FD] = u32::MAX;
        assert!(parse(&any).is_ok());
        Ok(())
    }

    #[test]
    fn what_is_refused() {
        for (addr, length) in [
            (0x1000, 0),
            (0x1001, 0x1000),
            (0x1000, 0x1001),
            (u64::MAX - 0xfff, 0x1000),
            (0x1000, u64::MAX - 0xfff),
        ] {
            assert_eq!(parse(&arg(addr, length)).err(), Some(EINVAL));
        }
        for word in [0, 1, 7, 8, 13] {
            let mut arg = arg(0x1000, 0x1000);
            arg[word] += 1;
            assert_eq!(parse(&arg).err(), Some(EINVAL));
        }
    }
}
