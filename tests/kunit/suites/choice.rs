// SPDX-License-Identifier: GPL-2.0

//! Which devices fast registration serves.

use kernel::prelude::*;

#[kunit_tests(peer_mem_choice)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn hardware_is_served_by_fast_registration_only_on_request() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        // The parameter `backend` does not name the device. The device has everything needed for
        // fast registration.
        let dev = Registered::new(c"kunit_other_hw", Kind::Dma)?;
        let pd = Pd::new(&dev)?;
        let mr = pd.reg(client.at(0), PAGE, USUAL).map(drop);
        let allocated = dev.fake().script.calls(Point::AllocMr);
        drop(pd);
        ensure_eq!(mr.err(), Some(EFAULT));
        ensure_eq!(allocated, 0);
        // The same on the device named by the parameter.
        drop(t.reg(&client, PAGE)?);
        ensure_eq!(t.calls(Point::AllocMr)?, 1);
        t.finish()
    }

    /// Returns whether a device named by the parameter `backend` is served, if the device fails as
    /// `prepare` demands.
    fn is_served(prepare: impl FnOnce(&FakeDevice)) -> Result<bool> {
        let dev = Registered::prepared(c"kunit_own_hw", Kind::Dma, prepare)?;
        let served = !dev.is_bare();
        ensure_eq!(dev.fake().objects(), (0, 0, 0));
        Ok(served)
    }

    #[test]
    fn a_device_must_pass_the_self_test() -> Result {
        ensure!(is_served(|_| ())?);
        for point in [Point::AllocMr, Point::PostReg, Point::PostInv] {
            // Fast registration must work more than once.
            for n in [1, 2] {
                ensure!(!is_served(|dev| dev.script.fail_at(point, n, EINVAL))?);
            }
        }
        ensure!(!is_served(|dev| dev.set(|d| d.fails_work_request = true))?);
        Ok(())
    }
}
