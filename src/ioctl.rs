// SPDX-License-Identifier: GPL-2.0

//! `/dev/ib_peer_mem`: the ioctls of `include/uapi/ib_peer_mem.h`.
//!
//! [`Ioctls`] exports memory by the dispatch, and names memory by [`named`](crate::policy::named). Context:
//! process context; may sleep.

mod name;

use crate::{
    dispatch,
    ext::base::chardev::control::Control,
    prelude::*,
    uapi::{
        self,
        ib_peer_mem_export, //
    }, //
};
use kernel::{
    bindings,
    fs::file::FileDescriptorReservation, //
};

/// The device. Any process may open the device: a process can export only memory that the process
/// could register.
pub(crate) struct Ioctls;

impl Control for Ioctls {
    const NAME: &'static CStr = c"ib_peer_mem";
    const MODE: u16 = 0o666;

    fn ioctl(cmd: u32, arg: usize) -> Result<isize> {
        match cmd {
            uapi::IB_PEER_MEM_IOC_EXPORT => export(arg),
            uapi::IB_PEER_MEM_IOC_NAME => name::name(arg),
            uapi::IB_PEER_MEM_IOC_UNNAME => name::unname(arg),
            uapi::IB_PEER_MEM_IOC_QUERY => name::query(arg),
            _ => Err(ENOTTY),
        }
    }
}

/// Returns the range to export. Fails with `EINVAL` if the version is unknown, a reserved field is
/// not 0, or the range is empty, wraps, or is not in whole pages.
fn parse(arg: &ib_peer_mem_export) -> Result<VaRange> {
    if arg.version != uapi::IB_PEER_MEM_EXPORT_VERSION
        || arg.flags != 0
        || arg.pad != 0
        || arg.reserved != [0; 3]
        || (arg.addr | arg.length) % PAGE_SIZE as u64 != 0
    {
        return Err(EINVAL);
    }
    VaRange::new(arg.addr, arg.length).ok_or(EINVAL)
}

/// `IB_PEER_MEM_IOC_EXPORT`. Fails as [`parse`] does, with `EFAULT` if no client claims the range,
/// with `EMFILE`, and with errors of the client's callbacks.
fn export(arg: usize) -> Result<isize> {
    let mut request: ib_peer_mem_export = uapi::read(arg)?;
    let range = parse(&request)?;
    let fd = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
    let export = dispatch::export_memory(range)?.ok_or_else(|| {
        pr_warn_limited!(
            "export: no client claims {} bytes; export memory of a registered client\n",
            range.len(),
        );
        EFAULT
    })?;
    // CAST: A file descriptor fits an int.
    request.fd = fd.reserved_fd() as i32;
    // If the write fails, the drop of `export` ends the dma-buf, which no process has seen.
    uapi::write(arg, &request)?;
    fd.fd_install(export.file());
    Ok(0)
}

#[kunit_tests(peer_mem_ioctl)]
mod tests {
    use super::*;

    const P: u64 = PAGE_SIZE as u64;

    fn arg(addr: u64, length: u64) -> ib_peer_mem_export {
        ib_peer_mem_export {
            version: uapi::IB_PEER_MEM_EXPORT_VERSION,
            addr,
            length,
            ..pin_init::zeroed()
        }
    }

    #[test]
    fn the_range_is_parsed() -> Result {
        let range = parse(&arg(0x7f12_3456 * P, 3 * P))?;
        // CAST: `usize` has 64 bits.
        let got = (range.addr() as u64, range.len() as u64);
        assert_eq!(got, (0x7f12_3456 * P, 3 * P));
        // An output field may hold anything.
        let mut any = arg(P, P);
        any.fd = -1;
        assert!(parse(&any).is_ok());
        Ok(())
    }

    #[test]
    fn bad_ranges_are_rejected() {
        for (addr, length) in [
            (P, 0),
            (P + 1, P),
            (P, P + 1),
            (u64::MAX - (P - 1), P),
            (P, u64::MAX - (P - 1)),
        ] {
            assert_eq!(parse(&arg(addr, length)).err(), Some(EINVAL));
        }
    }

    #[test]
    fn unknown_versions_and_reserved_fields_are_rejected() {
        let changes: [fn(&mut ib_peer_mem_export); 6] = [
            |arg| arg.version += 1,
            |arg| arg.flags = 1,
            |arg| arg.pad = 1,
            |arg| arg.reserved[0] = 1,
            |arg| arg.reserved[0] = 1 << 32,
            |arg| arg.reserved[2] = 1 << 32,
        ];
        for change in changes {
            let mut arg = arg(P, P);
            change(&mut arg);
            assert_eq!(parse(&arg).err(), Some(EINVAL));
        }
    }
}
