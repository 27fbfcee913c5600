// SPDX-License-Identifier: GPL-2.0

//! [`crate::ext::base::unmap_watch`]: the order of a look-up and an unmapping, and who waits for whom.

#[kernel::prelude::kunit_tests(peer_mem_unmap_watch)]
mod tests {
    use crate::{
        ext::base::unmap_watch::{
            Limit,
            OnUnmap,
            QueuesOwner,
            Watched, //
        },
        suites::prelude::*, //
    };
    use kernel::page::PAGE_SIZE;

    /// The calls of the notifier.
    #[pin_data]
    struct Calls {
        unmapped: Atomic<u32>,
        late: Atomic<bool>,
        /// `unmapped` waits for it.
        held: Option<Arc<Event>>,
        /// `unmapped` drops it.
        #[pin]
        watch: Mutex<Option<Watched<User>>>,
    }

    impl Calls {
        fn new(held: Option<Arc<Event>>) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    unmapped: Atomic::new(0),
                    late: Atomic::new(false),
                    held,
                    watch <- new_mutex!(None, "kunit::Calls"),
                }),
                GFP_KERNEL,
            )
        }

        fn count(&self) -> u32 {
            self.unmapped.load(Relaxed)
        }
    }

    struct User(Arc<Calls>);

    impl OnUnmap for User {
        fn unmapped(&self) {
            if let Some(held) = &self.0.held {
                let _ = held.wait();
            }
            self.0.unmapped.fetch_add(1, Relaxed);
            let watch = self.0.watch.lock().take();
            drop(watch);
        }

        fn limit(&self) -> Limit {
            if self.0.held.is_none() {
                Limit::Usual(40_000)
            } else if self.0.late.load(Relaxed) {
                Limit::Short(1)
            } else {
                Limit::Usual(50)
            }
        }

        fn set_late(&self, late: bool) {
            self.0.late.store(late, Relaxed);
        }

        fn log_late(&self) {}
    }

    /// Three pages of the task, and the queues.
    struct Memory {
        start: usize,
        owner: QueuesOwner,
    }

    impl Memory {
        fn new() -> Result<Self> {
            // SAFETY: The function has no requirements.
            match unsafe { helpers::kt_user_pages(3) } {
                0 => Err(ENOMEM),
                start => Ok(Self {
                    start,
                    owner: QueuesOwner::new(c"unmap_watch_test")?,
                }),
            }
        }

        /// Returns the addresses of some of the three pages.
        fn pages(&self, pages: Range<usize>) -> Range<usize> {
            self.start + pages.start * PAGE_SIZE..self.start + pages.end * PAGE_SIZE
        }

        /// Watches the first two pages.
        fn watch(&self, calls: &Arc<Calls>) -> Result<Watched<User>> {
            let task = current!();
            let mm = task.mm().ok_or(EFAULT)?;
            let user = User(calls.clone());
            Watched::new(mm, self.pages(0..2), self.owner.queues(), user)
        }

        /// Watches the first two pages, and arms the watch.
        fn armed(&self, calls: &Arc<Calls>) -> Result<Watched<User>> {
            let watch = self.watch(calls)?;
            watch.arm(watch.begin())?;
            Ok(watch)
        }

        fn unmap(&self, pages: Range<usize>) -> Result {
            let range = self.pages(pages);
            // SAFETY: The pages are the test's own.
            to_result(unsafe { bindings::vm_munmap(range.start, range.len()) })
        }
    }

    #[test]
    fn an_unmapping_of_a_part_waits_for_the_end_of_the_use() -> Result {
        let (memory, calls) = (Memory::new()?, Calls::new(None)?);
        let watch = memory.armed(&calls)?;
        memory.unmap(2..3)?;
        ensure_eq!(calls.count(), 0);
        memory.unmap(1..2)?;
        ensure_eq!(calls.count(), 1);
        memory.unmap(0..1)?;
        drop(watch);
        ensure_eq!(calls.count(), 1);
        Ok(())
    }

    #[test]
    fn an_unmapping_during_the_look_up_fails_it() -> Result {
        let (memory, calls) = (Memory::new()?, Calls::new(None)?);
        let watch = memory.watch(&calls)?;
        let sequence = watch.begin();
        memory.unmap(2..3)?;
        watch.arm(sequence)?;
        drop(watch);
        let watch = memory.watch(&calls)?;
        let sequence = watch.begin();
        memory.unmap(0..1)?;
        ensure_eq!(watch.arm(sequence), Err(EAGAIN));
        // The look-up begins again.
        watch.arm(watch.begin())?;
        drop(watch);
        memory.unmap(1..2)?;
        ensure_eq!(calls.count(), 0);
        Ok(())
    }

    #[test]
    fn the_use_may_drop_the_watch() -> Result {
        let (memory, calls) = (Memory::new()?, Calls::new(None)?);
        *calls.watch.lock() = Some(memory.armed(&calls)?);
        memory.unmap(0..1)?;
        ensure_eq!(calls.count(), 1);
        ensure_eq!(calls.watch.lock().is_none(), true);
        // The owner of the queues waits for the removal.
        drop(memory);
        Ok(())
    }

    #[test]
    fn an_unmapping_does_not_wait_for_ever() -> Result {
        let (held, memory) = (Event::new()?, Memory::new()?);
        let calls = Calls::new(Some(held.clone()))?;
        let other = Calls::new(None)?;
        *calls.watch.lock() = Some(memory.armed(&calls)?);
        let second = memory.armed(&other)?;
        memory.unmap(0..1)?;
        ensure_eq!((calls.count(), calls.late.load(Relaxed)), (0, true));
        // The other user is waited for.
        ensure_eq!(other.count(), 1);
        // The first one is not waited for as long again.
        memory.unmap(1..2)?;
        ensure_eq!(calls.count(), 0);
        held.fire();
        until(|| calls.count() == 1 && !calls.late.load(Relaxed))?;
        drop(second);
        Ok(())
    }
}
