// SPDX-License-Identifier: GPL-2.0

//! Unregistration of a client with regions: after the return no callback runs any more.

#[kernel::prelude::kunit_tests(peer_mem_unregister)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn with_a_live_region_of_each_shape() -> Result {
        each(FENCED, |kind| {
            let ends = |setup| {
                let (t, client, mr) = live(kind, setup)?;
                client.finish()?;
                ensure!(!mr.is_valid());
                t.dereg_and_finish(&mr)
            };
            each(Setup::ALL_REVOCABLE, ends)?;
            ends(Setup::PERSISTENT)
        })
    }

    #[test]
    fn with_many_live_regions_waits_once_for_software() -> Result {
        let (t, client) = with_client(Kind::Virtual, Setup::SEED)?;
        let mut mrs = KVec::new();
        for i in 0..10 {
            mrs.push(t.reg_at(&client, i * PAGE, PAGE)?, GFP_KERNEL)?;
        }
        let waits = Waits::for_software()?;
        let leaving = t.held(Point::PutPages, || unregistration(&client))?;
        ensure!(!mrs.iter().any(|m| m.is_valid()));
        ensure_eq!(waits.count(), 1);
        leaving.join()??;
        ensure_eq!(waits.count(), 1);
        t.drop_and_finish(mrs)
    }

    #[test]
    fn an_mr_made_after_the_others_were_stopped_is_fenced() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        // A queue pair takes no further work request while a work request is held, so the second MR
        // is on another queue pair.
        let pd = Pd::new(t.registered())?;
        let other = pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
        let first = t.held(Point::PostInv, || unregistration(&client))?;
        let leaving = t.held(Point::PostInv, || Ok(first.let_go()))?;
        ensure!(!mr.is_valid());
        let new = mr.rereg(ACCESS, &t.pd, (0, 0), REMOTE_READ);
        leaving.join()??;
        let new = new?.ok_or(ENOENT)?;
        ensure!(!new.is_valid());
        drop(new);
        other.dereg()?;
        drop((other, pd));
        ensure_eq!(t.calls(Point::PutPages)?, 2);
        t.finish()
    }

    #[test]
    fn afterwards_nothing_comes_to_the_client() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let ticket = client.ticket()?;
        client.finish()?;
        ensure_eq!(client.invalidate(ticket)?, 0);
        // A revoked MR is deregistered by the driver alone.
        t.fail(Point::DeregMr, EBUSY)?;
        ensure_eq!(mr.dereg().err(), Some(EBUSY));
        mr.dereg()?;
        // The range gets the driver's error.
        ensure_eq!(t.reg(&client, PAGE).err(), Some(EFAULT));
        t.finish()
    }

    #[test]
    fn of_one_client_leaves_the_others() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let other = t.client(Setup::SEED)?;
        let other_mr = t.reg(&other, PAGE)?;
        client.finish()?;
        ensure!(other_mr.is_valid() && !mr.is_valid());
        mr.dereg()?;
        t.dereg_and_finish(&other_mr)
    }
}
