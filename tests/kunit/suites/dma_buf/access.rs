// SPDX-License-Identifier: GPL-2.0

//! What the driver gets of what the user has asked for beside the range.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_access)]
mod tests {
    use super::super::*;
    use user::Verb;

    /// The access flags that the driver gets for these.
    fn access(wanted: u32) -> Result<u32> {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, wanted)?;
        let (original, given) = (mr.state()?.original, bench.dev().last_import().access);
        drop(mr);
        ensure!(!original);
        bench.finish(&[&client])?;
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
    fn what_is_said_of_host_pages_does_not() -> Result {
        ensure_eq!(access(USUAL | user::HUGETLB)?, USUAL);
        Ok(())
    }

    #[test]
    fn memory_windows_are_refused() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL | user::MW_BIND);
        ensure!(is_unsupported(&mr));
        ensure_eq!(bench.dev().script.calls(Point::Import), 0);
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn on_demand_goes_to_the_driver() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL | user::ON_DEMAND)?;
        let original = mr.state()?.original;
        drop(mr);
        ensure!(original);
        ensure_eq!(client.script()?.calls(Point::Acquire), 0);
        bench.finish(&[&client])
    }

    #[test]
    fn a_kernel_caller_has_an_empty_bundle() -> Result {
        let (bench, client, mr) = live(Kind::Dynamic, Setup::SEED)?;
        let import = bench.dev().last_import();
        drop(mr);
        ensure_eq!((import.ufile, import.context, import.dmah), (0, 0, 0));
        ensure!(!import.attributes);
        bench.finish(&[&client])
    }

    #[test]
    fn a_users_file_and_dma_handle_but_no_attribute_reach_the_driver() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let verb = Verb {
            ufile: 0x1110,
            context: 0x2220,
            dmah: 0x3330,
        };
        let mr = bench.pd.reg_by_verb(client.at(0), PAGE, USUAL, &verb)?;
        let import = bench.dev().last_import();
        let valid = mr.is_valid();
        drop(mr);
        ensure!(valid);
        ensure_eq!((import.ufile, import.context), (0x1110, 0x2220));
        ensure_eq!(import.dmah, 0x3330);
        ensure!(!import.attributes);
        bench.finish(&[&client])
    }
}
