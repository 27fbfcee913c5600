// SPDX-License-Identifier: GPL-2.0

//! An MR on a dma-buf of another exporter, registered by address.
//!
//! The dispatch calls [`Imports::register`], and the hooks find the MR as a [`Registered`]. The
//! driver imports the dma-buf as for `ibv_reg_dmabuf_mr()`, and follows the exporter. So the core
//! has nothing to pin, to fence or to revoke, and the driver's MR holds the dma-buf. The core keeps
//! a record of the MR for re-registrations and for the counters.

use crate::{
    backend::Backend,
    data::index::Reservation,
    policy::named::Watched,
    prelude::*,
    records::{
        listing::{
            Kind,
            Origin,
            Row, //
        },
        stats::{
            CountedMr,
            Stats, //
        }, //
    },
    registered::{
        Arguments,
        Deadline,
        MrIndex,
        Registered, //
    }, //
};

#[derive(Clone)]
pub(crate) struct Imports {
    /// All MRs that the core has made on the device.
    mrs: Arc<MrIndex>,
    stats: Arc<Stats>,
}

impl Imports {
    /// Creates the imports of a device whose MRs are in `mrs`. Context: may sleep.
    pub(crate) fn new(mrs: Arc<MrIndex>) -> Result<Self> {
        let stats = Arc::new(Stats::new(), GFP_KERNEL)?;
        Ok(Self { mrs, stats })
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Has the driver make an MR on `part`, the memory at `range` of the calling process, by its `name` if
    /// the range has one.
    ///
    /// Fails with `EACCES` if the MR is to be writable and the part is read-only, with `EOPNOTSUPP`
    /// if the backend imports no dma-bufs, and with errors of the driver and of the exporter.
    ///
    /// Context: may sleep.
    pub(crate) fn register(
        &self,
        part: Part,
        name: Option<Watched>,
        range: VaRange,
        backend: &Backend,
        req: &Request<'_>,
    ) -> Result<UserMr> {
        part.permits(req.access.is_writable())?;
        // Allocate first: once the MR exists, nothing may fail before the entry in the index.
        let reservation = Reservation::new()?;
        let imported = Imported {
            origin: Origin::current(),
            device: req.pd.device().name(),
            part,
            name,
            range,
            access: req.access,
            iova: req.iova,
            imports: self.clone(),
            lkey: Atomic::new(0),
            id: Atomic::new(0),
            counted: SetOnce::new(),
        };
        let imported = Arc::new(imported, GFP_KERNEL_ACCOUNT)?;
        let made = backend.import(req, &imported.part)?;
        let mr = made.as_mr();
        imported.lkey.store(mr.lkey(), Relaxed);
        imported.id.store(mr.id(), Relaxed);
        let (pages, bytes) = (range.pages() as u64, range.len() as u64);
        let counted = CountedMr::new(self.stats.clone(), pages, bytes);
        imported.counted.populate(counted);
        // A former MR with the key is gone from the device, or the driver would not have issued the
        // key again.
        let timer = Timer::since(Point::Register, imported.origin.start());
        imported.trace(timer, mr.lkey(), Ok(()));
        self.mrs.insert(reservation, mr.lkey(), imported);
        Ok(made)
    }
}

struct Imported {
    origin: Origin,
    device: Name,
    part: Part,
    /// The name by which the memory was found, if by a name.
    name: Option<Watched>,
    range: VaRange,
    access: Access,
    iova: u64,
    imports: Imports,
    lkey: Atomic<u32>,
    /// The number of the MR ([`Mr::id`]). 0 before the MR is made, and while the driver deregisters
    /// the MR.
    id: Atomic<usize>,
    /// Set once the MR is made.
    counted: SetOnce<CountedMr>,
}

impl Imported {
    fn trace(&self, timer: Timer, lkey: u32, result: Result) {
        timer.end(&Event {
            client: Some(self.part.buffer.exporter()),
            device: Some(&self.device),
            lkey,
            addr: self.range.addr() as u64,
            length: self.range.len() as u64,
            pid: self.origin.pid(),
            result,
            cause: "",
        });
    }

    fn withdraw(&self) {
        let lkey = self.lkey.load(Relaxed);
        self.imports
            .mrs
            .remove_if(lkey, |found| ptr::addr_eq(found, self));
    }
}

impl Registered for Imported {
    fn is_of(&self, mr: &Mr) -> bool {
        self.id.load(Relaxed) == mr.id()
    }

    fn begin_dereg(&self, mr: &Mr) -> bool {
        self.id.cmpxchg(mr.id(), 0, Full).is_ok()
    }

    fn deregister(&self, mr: &Mr, original: &Original<'_>) -> Result {
        let timer = Timer::start(Point::Deregister);
        let id = mr.id();
        let lkey = mr.lkey();
        let result = original.call();
        match result {
            Ok(()) => self.withdraw(),
            Err(_) => self.id.store(id, Relaxed),
        }
        self.trace(timer, lkey, result);
        result
    }

    fn arguments(&self) -> Option<Arguments> {
        Some(Arguments {
            range: self.range,
            access: self.access,
            iova: self.iova,
        })
    }

    fn replace_mr(self: Arc<Self>, backend: &Backend, req: &Request<'_>) -> Result<UserMr> {
        let (part, name) = (self.part.clone(), self.name.clone());
        self.imports.register(part, name, self.range, backend, req)
    }

    fn stop(&self) -> Result<bool> {
        Ok(false)
    }

    fn disassociate(self: Arc<Self>, _: &Deadline) {
        self.withdraw();
    }

    fn print_import(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = Row {
            origin: &self.origin,
            kind: Kind::Import,
            owner: self.part.buffer.exporter(),
            device: Some(self.device),
            lkey: Some(self.lkey.load(Relaxed)),
            range: self.range,
            state: match self.id.load(Relaxed) {
                0 => "deregistering",
                _ if self.name.as_ref().is_some_and(|name| !name.is_named()) => "unnamed",
                _ => "live",
            },
        };
        row.print(f)
    }
}
