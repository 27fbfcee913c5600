// SPDX-License-Identifier: GPL-2.0

//! Another module replaces operations of a device after this one.

use kernel::prelude::*;

#[kunit_tests(peer_mem_interposers)]
mod tests {
    use crate::{
        device::OtherModule,
        ext::rdma::{
            Change,
            Code,
            Device,
            Driver,
            Hooks,
            Mr,
            Original,
            Registration,
            Request,
            UcontextId,
            UserMr, //
        },
        suites::prelude::*, //
    };

    /// Hooks of an interposer in this module, which let the driver do everything.
    struct Pass;

    impl Hooks for Pass {
        fn add(_: &Device) -> Result<Arc<Self>> {
            Ok(Arc::new(Self, GFP_KERNEL)?)
        }

        fn remove(&self) {}

        fn reg_user_mr(self: &Arc<Self>, req: &Request<'_>, driver: Driver<'_>) -> Result<UserMr> {
            driver.reg_user_mr(req)
        }

        fn rereg_user_mr(
            self: &Arc<Self>,
            _: &Mr,
            _: Change,
            _: &Request<'_>,
            driver: Driver<'_>,
        ) -> Result<Option<UserMr>> {
            driver.rereg_user_mr()
        }

        fn dereg_mr(&self, _: &Mr, original: Original<'_>) -> Result {
            original.call()
        }

        fn dealloc_ucontext(&self, _: UcontextId) {}
    }

    #[test]
    fn the_removal_of_a_device_leaves_the_functions_of_another_module() -> Result {
        let (t, client, mr) = live_on(Fixture::temporary(Kind::Dma)?, Setup::SEED)?;
        let other = OtherModule::install(t.registered())?;
        removal(&t)?.join()?;
        let (installed, before) = (other.is_installed(), other.calls());
        let revoked = !mr.is_valid();
        // Through the other module and this one to the driver.
        mr.dereg()?;
        let called = other.calls() - before;
        let left = t.dev().objects();
        drop(other);
        ensure!(installed && revoked);
        ensure_eq!((called, left), (1, (0, 0, 0)));
        undone_once(&client)?;
        t.finish()
    }

    #[test]
    fn the_code_stays_while_another_module_calls_it() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let client = t.client(Setup::SEED)?;
        let registration = Registration::<Pass>::new(c"kunit_pass", Code::new()?);
        let registration = KBox::pin_init(registration, GFP_KERNEL)?;
        let mr = t.reg(&client, PAGE)?;
        let other = OtherModule::install(t.registered())?;
        let leaving = Task::spawn(move || drop(registration))?;
        let waited = leaving.is_waiting_or_held();
        let installed = other.is_installed();
        // Both MRs through the other module, this one and the core.
        let late = t.reg_at(&client, 8 * PAGE, PAGE)?;
        let served = late.state()?;
        late.dereg()?;
        mr.dereg()?;
        drop(other);
        leaving.join()?;
        let after = t.reg(&client, PAGE)?;
        let still_served = after.state()?;
        after.dereg()?;
        ensure!(waited && installed);
        ensure!(served.valid && !served.original);
        ensure!(still_served.valid && !still_served.original);
        t.finish()
    }

    #[test]
    fn modules_that_leave_in_the_reverse_order_restore_all() -> Result {
        let t = Fixture::temporary(Kind::Dma)?;
        let client = t.client(Setup::SEED)?;
        for _ in 0..2 {
            let registration = Registration::<Pass>::new(c"kunit_pass", Code::new()?);
            let registration = KBox::pin_init(registration, GFP_KERNEL)?;
            let mr = t.reg(&client, PAGE)?;
            Task::spawn(move || drop(registration))?.join()?;
            ensure!(mr.is_valid());
            mr.dereg()?;
        }
        removal(&t)?.join()?;
        ensure!(t.registered().is_bare());
        t.finish()
    }
}
