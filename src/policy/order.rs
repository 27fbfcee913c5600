// SPDX-License-Identifier: GPL-2.0

//! When the clients are asked for an MR: the module parameter `order`.
//!
//! [`Order`] is the value of the parameter. [`DISPATCH`] follows from the parameter and from the
//! registered clients: the registry sets [`DISPATCH`], and the interposed verbs read [`DISPATCH`] for
//! each registration. Context: any.

use crate::ext::{
    base::params,
    rdma::{
        Dispatch,
        DispatchCell, //
    }, //
};
use crate::prelude::*;

/// When the interposed verbs ask the hooks about an MR: as the registered clients need, and after
/// the driver while a process has names.
pub(crate) static DISPATCH: DispatchCell = DispatchCell::new(Dispatch::DriverOnly);

/// Whether the parameter is `clients_first`.
static CLIENTS_FIRST: Atomic<bool> = Atomic::new(false);

/// When the clients are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// After the driver could not pin the memory, except for clients whose memory the CPU can pin.
    HostFirst,
    /// Before the driver.
    ClientsFirst,
}

impl Order {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "host_first" => Ok(Self::HostFirst),
            "clients_first" => Ok(Self::ClientsFirst),
            _ => Err(EINVAL),
        }
    }

    /// Returns the order that the administrator wants.
    pub(crate) fn get() -> Self {
        if CLIENTS_FIRST.load(Relaxed) {
            Self::ClientsFirst
        } else {
            Self::HostFirst
        }
    }

    /// Reads the module parameter, which does not change after the module is loaded.
    pub(crate) fn read_parameter() -> Result {
        let text = params::string(c"order");
        let order = Self::parse(text).inspect_err(|_| {
            pr_err!("order={}: not host_first|clients_first\n", text);
        })?;
        CLIENTS_FIRST.store(order == Self::ClientsFirst, Relaxed);
        Ok(())
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
        assert_eq!(Order::parse(""), Ok(Order::HostFirst));
        assert_eq!(Order::parse("host_first"), Ok(Order::HostFirst));
        assert_eq!(Order::parse("clients_first"), Ok(Order::ClientsFirst));
        assert_eq!(Order::parse("clients"), Err(EINVAL));
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
