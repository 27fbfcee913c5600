// SPDX-License-Identifier: GPL-2.0

//! The registered clients, in the order in which they are asked.

use crate::{
    adapter::Adapter,
    attach::Refusal,
    callbacks::Acquired,
    client::Client,
    ext::{
        dma_buf::Export,
        rdma::{
            Device,
            Request,
            UserMr, //
        },
        snapshot::Snapshot,
        sysfs::Folder, //
    },
    pr_warn_limited,
    range::Range,
    region::Region,
    stats::Shown, //
};
use core::ptr;
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The clients as everybody reads them. Nobody locks anything to register host memory, and where
/// there is no client there is nothing to look at.
static CLIENTS: Snapshot<KVec<Arc<Client>>> = Snapshot::new();

/// The registry of the loaded module.
static REGISTRY: Snapshot<Registry> = Snapshot::new();

/// A client and its folder.
struct Entry {
    client: Arc<Client>,
    _folder: Folder<Shown>,
}

/// What registering and unregistering works on.
#[pin_data]
pub(crate) struct Registry {
    /// Serialises changes of the list. Held across sysfs calls, not across callbacks or the end
    /// of a client's regions.
    #[pin]
    entries: Mutex<KVec<Entry>>,
    /// The devices that serve peer memory.
    #[pin]
    adapters: Mutex<KVec<Arc<Adapter>>>,
    folder: Folder<()>,
}

/// The open registry: closes when dropped, at which time there must be no client (they hold a
/// reference to this module).
pub(crate) struct Open(());

impl Registry {
    /// Makes `/sys/kernel/mm/memory_peers` and begins to accept clients.
    pub(crate) fn open() -> Result<Open> {
        let folder = Folder::in_kernel_mm(c"memory_peers", ())?;
        let registry = Arc::pin_init(
            pin_init!(Self {
                entries <- new_mutex!(KVec::new(), "Registry::entries"),
                adapters <- new_mutex!(KVec::new(), "Registry::adapters"),
                folder,
            }),
            GFP_KERNEL,
        )?;
        REGISTRY.replace(Some(registry));
        Ok(Open(()))
    }

    /// The registry, while the module is loaded.
    pub(crate) fn get() -> Result<Arc<Self>> {
        REGISTRY.load().ok_or(ENODEV)
    }

    /// Adds a client at the end. May sleep. `EEXIST` where its name is taken.
    pub(crate) fn add(&self, client: Arc<Client>, version: CString) -> Result {
        let mut entries = self.entries.lock();
        if entries.iter().any(|e| e.client.c_name() == client.c_name()) {
            return Err(EEXIST);
        }
        entries.reserve(1, GFP_KERNEL)?;
        let list = Self::list(Iterator::chain(
            entries.iter().map(|e| &e.client),
            [&client],
        ))?;
        let shown = Shown {
            version,
            stats: client.stats().clone(),
        };
        let folder = Folder::inside(&self.folder, client.c_name(), shown)?;
        entries.push(
            Entry {
                client,
                _folder: folder,
            },
            GFP_KERNEL,
        )?;
        drop(CLIENTS.replace(Some(list)));
        Ok(())
    }

    /// Ends a client: takes its regions away and waits until the last `release` has returned.
    /// May sleep. `false` where that is done already, or being done.
    pub(crate) fn end(&self, client: &Arc<Client>) -> bool {
        if !client.close() {
            return false;
        }
        while let Some(region) = client.any_region() {
            region.revoke();
        }
        client.wait_unused();

        let mut entries = self.entries.lock();
        let mut gone = None;
        if let Some(i) = entries.iter().position(|e| Arc::ptr_eq(&e.client, client)) {
            gone = entries.remove(i).ok();
        }
        // With no memory for a shorter list the old one stays: the client lets nobody in.
        if entries.is_empty() {
            drop(CLIENTS.replace(None));
        } else if let Ok(list) = Self::list(entries.iter().map(|e| &e.client)) {
            drop(CLIENTS.replace(Some(list)));
        }
        drop(entries);
        drop(gone);
        true
    }

    /// A device has come. May sleep.
    pub(crate) fn add_adapter(&self, adapter: &Arc<Adapter>) -> Result {
        self.adapters.lock().push(adapter.clone(), GFP_KERNEL)?;
        Ok(())
    }

    /// A device goes. May sleep.
    pub(crate) fn remove_adapter(&self, adapter: &Adapter) {
        let mut gone = None;
        let mut adapters = self.adapters.lock();
        if let Some(i) = adapters.iter().position(|a| ptr::eq(&**a, adapter)) {
            gone = adapters.remove(i).ok();
        }
        drop(adapters);
        drop(gone);
    }

    /// Calls `f` for each device that is served, until it fails. May sleep.
    pub(crate) fn each_adapter<E>(
        &self,
        f: impl FnMut(&Arc<Adapter>) -> core::result::Result<(), E>,
    ) -> core::result::Result<(), E> {
        self.adapters.lock().iter().try_for_each(f)
    }

    /// The adapter of a device. May sleep. `ENODEV` where it is not one that we serve.
    pub(crate) fn adapter(&self, dev: &Device) -> Result<Arc<Adapter>> {
        let adapters = self.adapters.lock();
        let found = adapters.iter().find(|a| a.device().is(dev));
        found.cloned().ok_or(ENODEV)
    }

    /// A list of clients for everybody to read.
    fn list<'a>(clients: impl Iterator<Item = &'a Arc<Client>>) -> Result<Arc<KVec<Arc<Client>>>> {
        let mut list = KVec::new();
        for client in clients {
            list.push(client.clone(), GFP_KERNEL)?;
        }
        Ok(Arc::new(list, GFP_KERNEL)?)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(CLIENTS.replace(None));
        drop(REGISTRY.replace(None));
    }
}

/// The client that is at this address, if there is one: a handle is only ever compared.
pub(crate) fn find(handle: usize) -> Option<Arc<Client>> {
    let clients = CLIENTS.load()?;
    clients
        .iter()
        .find(|c| Arc::as_ptr(c).addr() == handle)
        .cloned()
}

/// Registers memory with the client whose it is; `None` where it is nobody's. Asks in the order
/// of registration. May sleep.
pub(crate) fn register_memory(adapter: &Arc<Adapter>, req: &Request<'_>) -> Result<Option<UserMr>> {
    let Some(clients) = CLIENTS.load() else {
        return Ok(None);
    };
    // What is empty or wraps is not worth asking about; the driver has the errno.
    let Some(range) = Range::new(req.start, req.length) else {
        return Ok(None);
    };
    let hint = adapter.hints().get(req.ucontext());
    for client in clients.iter() {
        if client.requires_invalidation() && !adapter.backend().can_fence() {
            continue;
        }
        let Some(using) = client.enter() else {
            continue;
        };
        let Some(acquired) = Acquired::ask(using, range, hint.as_deref()) else {
            continue;
        };
        match Region::register(acquired, adapter, req, range) {
            Ok(mr) => return Ok(Some(mr)),
            Err(Refusal::Error(e)) => return Err(e),
            Err(Refusal::Skip(why)) => pr_warn_limited!(
                "client {} cannot serve {}: {}\n",
                client.name(),
                adapter.device().name(),
                why
            ),
        }
    }
    Ok(None)
}

/// Makes a dma-buf of memory of the calling process, with the client whose it is; `None` where it
/// is nobody's. As [`register_memory`], but which devices it can serve shows when they import it.
/// May sleep.
pub(crate) fn export_memory(range: Range) -> Result<Option<Export>> {
    let Some(clients) = CLIENTS.load() else {
        return Ok(None);
    };
    for client in clients.iter() {
        let acquired = client
            .enter()
            .and_then(|using| Acquired::ask(using, range, None));
        match acquired.map(|acquired| Region::export(acquired, range)) {
            Some(Ok(offer)) => return Ok(Some(offer)),
            Some(Err(Refusal::Error(e))) => return Err(e),
            Some(Err(Refusal::Skip(_))) | None => {}
        }
    }
    Ok(None)
}
