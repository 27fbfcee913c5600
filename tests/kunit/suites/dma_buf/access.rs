// SPDX-License-Identifier: GPL-2.0

//! How access flags, the user's file and the DMA handle reach the driver.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_access)]
mod tests {
    use super::super::*;
    use user::Verb;

    /// Returns the access flags passed to the driver.
    fn access(wanted: u32) -> Result<u32> {
        let (t, client) = with_client(Mode::Dynamic, Setup::SEED)?;
        let mr = t.pd.reg(client.at(0), PAGE, wanted)?;
        let (original, given) = (mr.state()?.original, t.dev().last_import().access);
        drop(mr);
        ensure!(!original);
        t.finish()?;
        Ok(given as u32)
    }

    #[test]
    fn access_reaches_the_driver() -> Result {
        for wanted in [
            user::LOCAL_WRITE,
            user::REMOTE_READ,
            USUAL | user::REMOTE_ATOMIC,
            USUAL | user::RELAXED,
        ] {
            ensure_eq!(access(wanted)?, wanted);
        }
        Ok(())
    }

    #[test]
    fn flags_for_host_pages_do_not_reach_the_driver() -> Result {
        ensure_eq!(access(USUAL | user::HUGETLB)?, USUAL);
        Ok(())
    }

    #[test]
    fn unknown_optional_flags_do_not_reach_the_driver() -> Result {
        ensure_eq!(access(USUAL | user::OPTIONAL_LAST)?, USUAL);
        Ok(())
    }

    #[test]
    fn memory_windows_are_refused() -> Result {
        let (t, client) = with_client(Mode::Dynamic, Setup::SEED)?;
        let mr = t.pd.reg(client.at(0), PAGE, USUAL | user::MW_BIND);
        ensure!(is_unsupported(&mr));
        ensure_eq!(t.calls(Point::Import)?, 0);
        ensure_eq!(t.calls(Point::Release)?, 1);
        t.finish()
    }

    #[test]
    fn on_demand_falls_through_to_the_driver() -> Result {
        common::on_demand_falls_through_to_the_driver(Mode::Dynamic)
    }

    #[test]
    fn a_kernel_caller_has_an_empty_bundle() -> Result {
        let (t, _, mr) = live(Mode::Dynamic, Setup::SEED)?;
        let import = t.dev().last_import();
        drop(mr);
        ensure_eq!((import.ufile, import.context, import.dmah), (0, 0, 0));
        ensure!(!import.attributes);
        t.finish()
    }

    #[test]
    fn a_users_file_and_dma_handle_but_no_attribute_reach_the_driver() -> Result {
        let (t, client) = with_client(Mode::Dynamic, Setup::SEED)?;
        let verb = Verb {
            ufile: 0x1110,
            context: 0x2220,
            dmah: 0x3330,
        };
        let mr = t.pd.reg_by_verb(client.at(0), PAGE, USUAL, &verb)?;
        let import = t.dev().last_import();
        ensure!(mr.is_valid());
        drop(mr);
        ensure_eq!((import.ufile, import.context), (0x1110, 0x2220));
        ensure_eq!(import.dmah, 0x3330);
        ensure!(!import.attributes);
        t.finish()
    }
}
