// SPDX-License-Identifier: GPL-2.0

//! Taking memory away from devices that let go of a dma-buf when they are told to.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_revoke)]
mod tests {
    use super::super::*;
    use crate::{
        device::Late,
        sync::Event, //
    };
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    /// Revokes a region of a client of that shape, then deregisters it.
    fn revokes(setup: Setup) -> Result {
        for kind in FENCED {
            let (bench, client, mr) = live(kind, setup)?;
            client.invalidate_it()?;
            ensure!(!mr.is_valid());
            ensure_eq!(client.stage()?, Stage::Acquired);
            let script = client.script()?;
            let ours = u32::from(!setup.unmaps);
            ensure_eq!(script.calls(Point::PutPages), ours);
            ensure_eq!(script.calls(Point::Release), 0);
            mr.dereg()?;
            ensure_eq!(bench.dev().script.calls(Point::Invalidate), 1);
            ensure_eq!(script.calls(Point::DmaUnmap), ours);
            ensure_eq!(script.calls(Point::PutPages), ours);
            ensure_eq!(script.calls(Point::Release), u32::from(!setup.bare));
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn seed_style() -> Result {
        revokes(Setup::SEED)
    }

    #[test]
    fn page_less() -> Result {
        revokes(Setup::GPU)
    }

    #[test]
    fn a_table_of_the_clients_own() -> Result {
        revokes(Setup::OWN_TABLE)
    }

    #[test]
    fn self_aligning_in_2_mib() -> Result {
        revokes(Setup::HUGE)
    }

    #[test]
    fn without_release_and_get_page_size() -> Result {
        revokes(Setup::BARE)
    }

    #[test]
    fn under_the_mutex_of_its_own_callbacks() -> Result {
        revokes(Setup::LOCKED)
    }

    #[test]
    fn the_client_that_unmaps_itself() -> Result {
        revokes(Setup::UNMAPS)
    }

    #[test]
    fn a_page_fault_maps_again_before_it() -> Result {
        let (bench, client, mr) = live(Kind::Dynamic, Setup::SEED)?;
        let result = bench.dev().page_fault(mr.key());
        let valid = mr.is_valid();
        mr.dereg()?;
        result?;
        ensure!(valid);
        bench.finish(&[&client])
    }

    #[test]
    fn a_page_fault_after_it_gets_nothing() -> Result {
        for setup in [Setup::SEED, Setup::GPU, Setup::UNMAPS] {
            for kind in FENCED {
                let (bench, client, mr) = live(kind, setup)?;
                client.invalidate_it()?;
                let result = bench.dev().page_fault(mr.key());
                let valid = mr.is_valid();
                mr.dereg()?;
                ensure!(result.is_err());
                ensure!(!valid);
                bench.finish(&[&client])?;
            }
        }
        Ok(())
    }

    #[test]
    fn a_page_fault_after_the_client_has_gone_gets_nothing() -> Result {
        let (bench, client, mr) = live(Kind::Dynamic, Setup::SEED)?;
        client.finish()?;
        let result = bench.dev().page_fault(mr.key());
        let valid = mr.is_valid();
        mr.dereg()?;
        ensure_eq!(result.err(), Some(ENODEV));
        ensure!(!valid);
        bench.finish(&[])
    }

    #[test]
    fn page_faults_race_it() -> Result {
        for _ in 0..20 {
            let (bench, client, mr) = live(Kind::Dynamic, Setup::SEED)?;
            bench.dev().script.slow(Point::Invalidate, 1);
            let (dev, key) = (bench.dev().clone(), mr.key());
            let (enough, stop) = (Event::new()?, Event::new()?);
            let (begun, stopped) = (enough.clone(), stop.clone());
            let touching = Task::spawn(move || {
                while !stopped.happened() {
                    let _ = dev.page_fault(key);
                    begun.fire();
                }
            })?;
            enough.wait()?;
            let result = client.invalidate_it();
            // After it too.
            fsleep(Delta::from_millis(2));
            stop.fire();
            touching.join()?;
            let valid = mr.is_valid();
            mr.dereg()?;
            result?;
            ensure!(!valid);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn twice() -> Result {
        for kind in FENCED {
            let (bench, client, mr) = live(kind, Setup::SEED)?;
            client.invalidate_it()?;
            client.invalidate_it()?;
            ensure_eq!(bench.dev().script.calls(Point::Invalidate), 1);
            mr.dereg()?;
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn from_two_threads() -> Result {
        for kind in FENCED {
            let (bench, client, mr) = live(kind, Setup::SEED)?;
            let gate = bench.dev().script.hold(Point::Invalidate)?;
            let first = invalidation(&client)?;
            let reached = gate.reached();
            let second = invalidation(&client)?;
            let waited = first.is_waiting() && second.is_waiting();
            gate.open();
            first.join()??;
            second.join()??;
            reached?;
            ensure!(waited);
            ensure_eq!(bench.dev().script.calls(Point::Invalidate), 1);
            mr.dereg()?;
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn of_one_region_leaves_the_others() -> Result {
        for kind in FENCED {
            let (bench, client, mr) = live(kind, Setup::SEED)?;
            let other = bench.pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
            client.invalidate_it()?;
            let valid = (mr.is_valid(), other.is_valid());
            mr.dereg()?;
            other.dereg()?;
            ensure_eq!(valid, (true, false));
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    /// An adapter that is late: the memory stays until it has stopped.
    fn waits_for(late: Late) -> Result {
        for setup in [Setup::SEED, Setup::GPU] {
            let (bench, client, mr) = live(Kind::Dynamic, setup)?;
            bench.dev().be_late(late);
            let task = invalidation(&client)?;
            let waited = task.is_waiting();
            let stage = client.stage()?;
            bench.dev().catch_up();
            task.join()??;
            ensure!(waited);
            ensure_eq!(stage, Stage::Mapped);
            mr.dereg()?;
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn waits_until_the_mapping_is_given_back() -> Result {
        waits_for(Late::Unmap)
    }

    #[test]
    fn waits_until_the_fence_is_signalled() -> Result {
        waits_for(Late::Fence)
    }

    #[test]
    fn a_second_one_waits_for_a_late_adapter_as_well() -> Result {
        for late in [Late::Unmap, Late::Fence] {
            let (bench, client, mr) = live(Kind::Dynamic, Setup::SEED)?;
            bench.dev().be_late(late);
            let (one, two) = (invalidation(&client)?, invalidation(&client)?);
            let waited = one.is_waiting() && two.is_waiting();
            bench.dev().catch_up();
            one.join()??;
            two.join()??;
            mr.dereg()?;
            ensure!(waited);
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn a_late_adapter_holds_up_the_end_of_the_client() -> Result {
        for late in [Late::Unmap, Late::Fence] {
            let (bench, client, mr) = live(Kind::Dynamic, Setup::SEED)?;
            bench.dev().be_late(late);
            let leaving = unregistration(&client)?;
            let waited = leaving.is_waiting();
            bench.dev().catch_up();
            let result = leaving.join()?;
            mr.dereg()?;
            result?;
            ensure!(waited);
            undone_once(&client)?;
            bench.finish(&[])?;
        }
        Ok(())
    }

    #[test]
    fn by_the_end_of_the_client() -> Result {
        for setup in [
            Setup::SEED,
            Setup::GPU,
            Setup::OWN_TABLE,
            Setup::BARE,
            Setup::UNMAPS,
            Setup::PERSISTENT,
        ] {
            for kind in FENCED {
                let (bench, client, mr) = live(kind, setup)?;
                let result = client.finish();
                let valid = mr.is_valid();
                mr.dereg()?;
                result?;
                ensure!(!valid);
                bench.finish(&[&client])?;
            }
        }
        Ok(())
    }
}
