// SPDX-License-Identifier: GPL-2.0

//! `/dev/dmabuf_reg`: the protocol with which libfabric's hook provider `dmabuf_peer_mem` names
//! memory.
//!
//! [`Protocol`] is the device, which exists if the parameter `dmabuf_reg` is set. [`named`] keeps
//! the names, with the names given by `/dev/ib_peer_mem`. Context: process context; may sleep.

use crate::{
    ext::base::{
        chardev::control::{
            Control,
            Registration, //
        },
        pinned::untagged, //
    },
    policy::named,
    prelude::*,
    uapi::{
        self,
        dmabuf_reg_request as Request, //
    }, //
};

/// The number of the ioctl, without a type or a size.
const IOCTL: u32 = 1;

/// Values of `op` in a [`Request`].
mod op {
    pub(super) const ADD: u32 = 0;
    /// Remove a reference of the name around `base`.
    pub(super) const REMOVE_ADDR: u32 = 1;
    /// Remove a reference of each name that was given with the number `fd`.
    pub(super) const REMOVE_FD: u32 = 2;
    /// Return the named range around a range.
    pub(super) const QUERY: u32 = 3;
}

pub(crate) struct Protocol;

/// The registered device, if the administrator wants it.
pub(crate) type Open = Option<Pin<KBox<Registration<Protocol>>>>;

/// Returns whether the parameter is set. Fails with `EINVAL` if the parameter is malformed.
pub(crate) fn read_parameter() -> Result<bool> {
    match params::string(c"dmabuf_reg") {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        text => {
            pr_err!("dmabuf_reg={}: not 0|1\n", text);
            Err(EINVAL)
        }
    }
}

/// Registers the device if it is wanted. Context: may sleep.
pub(crate) fn open(wanted: bool) -> Result<Open> {
    let register = || KBox::pin_init(Registration::new(), GFP_KERNEL);
    wanted.then(register).transpose()
}

impl Control for Protocol {
    const NAME: &'static CStr = c"dmabuf_reg";
    /// The mode of `/dev/ib_peer_mem`: a process names only its own memory, with its own dma-bufs.
    const MODE: u16 = 0o666;

    fn ioctl(cmd: u32, arg: usize) -> Result<isize> {
        if cmd != IOCTL {
            return Err(ENOTTY);
        }
        let mut request: Request = uapi::read(arg)?;
        let result = request.execute();
        if request.op == op::QUERY && result.is_ok() {
            uapi::write(arg, &request)?;
        }
        result.map(|()| 0)
    }
}

/// Returns the error of the protocol: `EINVAL` for an entry that is not there.
fn no_entry(e: Error) -> Error {
    if e == ENOENT {
        EINVAL
    } else {
        e
    }
}

impl Request {
    /// Returns the range. Fails with `EINVAL` if the range is empty or wraps.
    fn range(&self) -> Result<VaRange> {
        VaRange::new(untagged(self.base), self.size).ok_or(EINVAL)
    }

    /// Executes the request. Context: process context; may sleep.
    fn execute(&mut self) -> Result {
        match self.op {
            op::ADD => named::add(self.range()?, self.fd, 0, false).map_err(|e| {
                if e == EEXIST {
                    EINVAL
                } else {
                    e
                }
            }),
            op::REMOVE_ADDR => {
                let at = usize::try_from(untagged(self.base)).map_err(|_| EINVAL)?;
                named::remove_at(at).map_err(no_entry)
            }
            op::REMOVE_FD => named::remove_fd(self.fd).map_err(no_entry),
            op::QUERY => self.query(),
            _ => Err(EINVAL),
        }
    }

    /// Widens the request to the whole named range. Fails with `ENOENT` if no part of the range has a
    /// name, and with `EINVAL` if the first named range has only a part of it.
    fn query(&mut self) -> Result {
        let range = self.range()?;
        let found = named::query(range)?;
        // CAST: An address has 64 bits.
        self.base = found.range.addr() as u64;
        // CAST: A length has 64 bits.
        self.size = found.range.len() as u64;
        self.fd = found.fd;
        let skip = range.addr().checked_sub(found.range.addr());
        let end = skip.and_then(|skip| skip.checked_add(range.len()));
        match end {
            Some(end) if end <= found.range.len() => Ok(()),
            _ => Err(EINVAL),
        }
    }
}
