// SPDX-License-Identifier: GPL-2.0

//! When the clients are asked for an MR: the module parameter `order`.
//!
//! [`DISPATCH`] follows from the parameter and from the registered clients: the registry sets
//! [`DISPATCH`], and the interposed verbs read it for each registration. Context: any.

use crate::ext::rdma::DispatchCell;
use crate::prelude::*;

/// When the interposed verbs ask the hooks about an MR: as the registered clients need, and after
/// the driver while a process has names.
pub(crate) static DISPATCH: DispatchCell = DispatchCell::new(Dispatch::DriverOnly);

static CLIENTS_FIRST: Atomic<bool> = Atomic::new(false);

/// Returns whether the administrator wants all clients to be asked before the driver. Otherwise only
/// clients whose memory the CPU can pin are, and the others after the driver could not pin the memory.
pub(crate) fn clients_first() -> bool {
    CLIENTS_FIRST.load(Relaxed)
}

/// Reads the module parameter, which does not change after the module is loaded.
pub(crate) fn read_parameter() -> Result {
    let text = params::string(c"order");
    let clients_first = parse(text).inspect_err(|_| {
        pr_err!("order={}: not host_first|clients_first\n", text);
    })?;
    CLIENTS_FIRST.store(clients_first, Relaxed);
    Ok(())
}

fn parse(text: &str) -> Result<bool> {
    match text {
        "" | "host_first" => Ok(false),
        "clients_first" => Ok(true),
        _ => Err(EINVAL),
    }
}

#[kunit_tests(peer_mem_order)]
mod tests {
    use super::*;
    use crate::ext::base::{
        compat::{
            eopnotsupp,
            eremoteio, //
        },
        pinned::could_not_pin, //
    };

    #[test]
    fn the_default_is_host_first() {
        assert_eq!(parse(""), Ok(false));
        assert_eq!(parse("host_first"), Ok(false));
        assert_eq!(parse("clients_first"), Ok(true));
        assert_eq!(parse("clients"), Err(EINVAL));
    }

    #[test]
    fn errors_that_clients_are_asked_after() {
        for e in [EFAULT, ENOMEM, EPERM, EINVAL, eremoteio(), eopnotsupp()] {
            assert!(could_not_pin(e));
        }
        for e in [EINTR, EAGAIN, EBUSY, ENODEV, EIO] {
            assert!(!could_not_pin(e));
        }
    }
}
