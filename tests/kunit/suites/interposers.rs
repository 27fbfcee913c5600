// SPDX-License-Identifier: GPL-2.0

//! Another module replaces operations of a device after the core.

#[kernel::prelude::kunit_tests(peer_mem_interposers)]
mod tests {
    use crate::{
        ext::{
            rdma::{
                key_filter::KeyFilter,
                Change,
                Device,
                Dispatch,
                DispatchCell,
                Driver,
                Hooks,
                Mr,
                Original,
                Registration,
                Request,
                UcontextId,
                UserMr, //
            },
            task::TextRef, //
        },
        suites::prelude::*, //
    };

    /// When the hooks of [`Pass`] are asked.
    static DISPATCH: DispatchCell = DispatchCell::new(Dispatch::DriverOnly);

    /// Number of calls of the hooks: registration, failed registration, deregistration.
    static CALLS: [Atomic<usize>; 3] = [const { Atomic::new(0) }; 3];

    fn called() -> [usize; 3] {
        CALLS.each_ref().map(|calls| calls.load(Relaxed))
    }

    /// Hooks of an interposer in this module. The hooks leave everything to the driver. MRs
    /// registered through the hooks belong to the hooks.
    struct Pass {
        keys: KeyFilter,
    }

    fn add(_: &Device) -> Result<Arc<dyn Hooks>> {
        let keys = KeyFilter::new()?;
        Ok(Arc::new(Pass { keys }, GFP_KERNEL)?)
    }

    impl Hooks for Pass {
        fn remove(&self) {}

        fn fatal(&self) {}

        fn dispatch(&self) -> &'static DispatchCell {
            &DISPATCH
        }

        fn keys(&self) -> &KeyFilter {
            &self.keys
        }

        fn reg_user_mr(&self, req: &Request<'_>, driver: Driver<'_>) -> Result<UserMr> {
            CALLS[0].add(1, Relaxed);
            driver
                .reg_user_mr(req)
                .inspect(|mr| self.keys.insert(mr.as_mr().lkey()))
        }

        fn reg_failed(&self, _: &Request<'_>, error: Error) -> Result<UserMr> {
            CALLS[1].add(1, Relaxed);
            Err(error)
        }

        fn rereg_user_mr(
            &self,
            _: &Mr,
            _: Change,
            _: &Request<'_>,
            driver: Driver<'_>,
        ) -> Result<Option<UserMr>> {
            driver.rereg_user_mr()
        }

        fn dereg_mr(&self, mr: &Mr, original: Original<'_>) -> Result {
            CALLS[2].add(1, Relaxed);
            let key = mr.lkey();
            let own = self.keys.may_contain(key);
            original.call().inspect(|()| {
                if own {
                    self.keys.remove(key);
                }
            })
        }

        fn dealloc_ucontext(&self, _: UcontextId) {}
    }

    /// Interposes [`Pass`]. The hooks are not asked at first.
    fn pass() -> Result<Pin<KBox<Registration>>> {
        DISPATCH.set(Dispatch::DriverOnly);
        KBox::pin_init(
            Registration::new(c"kunit_pass", TextRef::new()?, add),
            GFP_KERNEL,
        )
    }

    #[test]
    fn only_their_mrs_come_to_the_hooks() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let registration = pass()?;
        let before = called();
        let since = |now: [usize; 3]| [now[0] - before[0], now[1] - before[1], now[2] - before[2]];

        t.pd.reg(0x5000, PAGE, USUAL)?.dereg()?;
        ensure_eq!(since(called()), [0, 0, 0]);
        t.fail(Point::RegUserMr, EBUSY)?;
        ensure_eq!(t.pd.reg(0x5000, PAGE, USUAL).err(), Some(EBUSY));
        ensure_eq!(since(called()), [0, 1, 0]);

        // An MR of the hooks, between other MRs. The keys differ in the upper bits.
        let before_own = t.pd.reg(0x5000, PAGE, USUAL)?;
        DISPATCH.set(Dispatch::ClientsFirst);
        let own = t.pd.reg(0x5000, PAGE, USUAL)?;
        ensure_eq!(since(called()), [1, 1, 0]);
        DISPATCH.set(Dispatch::DriverOnly);
        let after_own = t.pd.reg(0x5000, PAGE, USUAL)?;
        before_own.dereg()?;
        after_own.dereg()?;
        ensure_eq!(since(called()), [1, 1, 0]);
        own.dereg()?;
        ensure_eq!(since(called()), [1, 1, 1]);
        Task::spawn(move || drop(registration))?.join()?;
        t.finish()
    }

    #[test]
    fn the_removal_of_a_device_leaves_the_functions_of_another_module() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        let other = OtherModule::install(t.registered())?;
        removal(&t)?.join()??;
        let (installed, before) = (other.is_installed(), other.calls());
        let revoked = !mr.is_valid();
        // Through the other module and the core to the driver.
        mr.dereg()?;
        let called = other.calls() - before;
        let left = t.dev().objects();
        drop(other);
        ensure!(installed && revoked);
        ensure_eq!((called, left), (1, (0, 0, 0)));
        t.finish_undone(&client)
    }

    #[test]
    fn the_code_stays_while_another_module_calls_it() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let registration = pass()?;
        let mr = t.reg(&client, PAGE)?;
        let other = OtherModule::install(t.registered())?;
        let leaving = Task::spawn(move || drop(registration))?;
        let waited = leaving.waits_for(Wait::OtherModule);
        let installed = other.is_installed();
        // Both MRs went through the other module, the interposer of this module, and the core.
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
            let registration = pass()?;
            let mr = t.reg(&client, PAGE)?;
            Task::spawn(move || drop(registration))?.join()?;
            ensure!(mr.is_valid());
            mr.dereg()?;
        }
        removal(&t)?.join()??;
        ensure!(t.registered().is_bare());
        t.finish()
    }
}
