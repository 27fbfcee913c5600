// SPDX-License-Identifier: GPL-2.0

//! The registry: the registered clients, in the order of registration.
//!
//! [`Registry`] has the clients and their directories in sysfs. The C ABI calls [`add`], [`find`]
//! and [`end`]; the dispatch reads the list by [`clients`], without a lock. Changes may sleep, and
//! hold `Registry::entries` across sysfs calls, never across a callback.

use crate::{
    client::Client,
    ext::base::{
        module::ThisModuleRef,
        sysfs::Directory, //
    },
    policy::order::{
        clients_first,
        DISPATCH, //
    },
    prelude::*,
    records::stats::ClientDir,
    region, //
};

/// The clients in the order of registration; `None` without a client. Readers take no lock.
static CLIENTS: Snapshot<KVec<Arc<Client>>> = Snapshot::new();

/// Returns when the hooks must be asked for `clients`: always, if some clients come before the
/// driver.
fn dispatch_of(clients: &[Arc<Client>]) -> Dispatch {
    let all_first = clients_first();
    if clients.is_empty() {
        Dispatch::DriverOnly
    } else if all_first || clients.iter().any(|client| client.flags().pinnable) {
        Dispatch::ClientsFirst
    } else {
        Dispatch::DriverFirst
    }
}

static REGISTRY: Snapshot<Registry> = Snapshot::new();

/// A client, the directory of the client in sysfs, and the reference to this module on behalf of the
/// client, whose unregistration calls the module, whether or not the client's module depends on it.
struct Entry {
    client: Arc<Client>,
    _dir: Directory<ClientDir>,
    module: ThisModuleRef,
}

#[pin_data]
pub(crate) struct Registry {
    /// Serializes changes of the list. Held across sysfs calls, not across callbacks or while
    /// regions are revoked.
    #[pin]
    entries: Mutex<KVec<Entry>>,
    dir: Directory<()>,
}

/// The open registry. Dropping the registry closes it. No client is registered then: each entry
/// holds a reference to this module.
pub(crate) type Open = Published<Registry>;

/// Creates `/sys/kernel/mm/memory_peers` and starts to accept clients. Context: may sleep.
pub(crate) fn open() -> Result<Open> {
    let dir = Directory::in_kernel_mm(c"memory_peers", ())?;
    let registry = Arc::pin_init(
        pin_init!(Registry {
            entries <- new_mutex!(KVec::new(), "Registry::entries"),
            dir,
        }),
        GFP_KERNEL,
    )?;
    Ok(REGISTRY.publish(registry))
}

/// Replaces the list of clients, and updates [`DISPATCH`]. A concurrent registration sees the old or
/// the new value. Context: may sleep.
fn publish(list: Option<Arc<KVec<Arc<Client>>>>) {
    DISPATCH.set(
        list.as_ref()
            .map_or(Dispatch::DriverOnly, |list| dispatch_of(list)),
    );
    drop(CLIENTS.replace(list));
}

/// Returns the clients in the order of registration, or `None` without a client. Context: any.
pub(crate) fn clients() -> Option<Arc<KVec<Arc<Client>>>> {
    CLIENTS.load()
}

/// Returns the client with the handle `handle`, the address of the client. The handle is compared,
/// never dereferenced. Context: any.
pub(crate) fn find(handle: usize) -> Option<Arc<Client>> {
    let clients = CLIENTS.load()?;
    clients
        .iter()
        .find(|c| Arc::as_ptr(c).addr() == handle)
        .cloned()
}

/// Adds a client at the end of the list. Fails with `EEXIST` if the name is taken, and with `ENODEV`
/// if the module is being unloaded. Context: may sleep.
pub(crate) fn add(client: Arc<Client>, version: CString) -> Result {
    REGISTRY.load().ok_or(ENODEV)?.add(client, version)
}

/// Ends a client: revokes all regions, and waits until the last `release` has returned. Returns the
/// client's reference to this module, or `None` if another call has ended the client. Context: may
/// sleep.
pub(crate) fn end(client: &Arc<Client>) -> Option<ThisModuleRef> {
    if !client.close() {
        return None;
    }
    region::prepare_all(client);
    while let Some((_, region)) = client.region_from(0) {
        region.revoke();
    }
    client.wait_unused();
    REGISTRY.load()?.remove(client)
}

impl Registry {
    fn add(&self, client: Arc<Client>, version: CString) -> Result {
        let module = ThisModuleRef::get().ok_or(ENODEV)?;
        let mut entries = self.entries.lock();
        if entries.iter().any(|e| e.client.c_name() == client.c_name()) {
            return Err(EEXIST);
        }
        entries.reserve(1, GFP_KERNEL)?;
        let list = Self::list(Iterator::chain(
            entries.iter().map(|e| &e.client),
            [&client],
        ))?;
        let contents = ClientDir {
            version,
            stats: client.stats().clone(),
        };
        let dir = Directory::inside(&self.dir, client.c_name(), contents)?;
        let entry = Entry {
            client,
            _dir: dir,
            module,
        };
        entries.push(entry, GFP_KERNEL)?;
        publish(Some(list));
        Ok(())
    }

    /// Removes a client that has been ended. Returns the client's reference to this module.
    fn remove(&self, client: &Arc<Client>) -> Option<ThisModuleRef> {
        let mut entries = self.entries.lock();
        let removed = match entries.iter().position(|e| Arc::ptr_eq(&e.client, client)) {
            Some(i) => entries.remove(i).ok(),
            None => None,
        };
        // Without memory for a shorter list the old list stays: a closed client cannot be entered.
        if entries.is_empty() {
            publish(None);
        } else if let Ok(list) = Self::list(entries.iter().map(|e| &e.client)) {
            publish(Some(list));
        }
        drop(entries);
        removed.map(|entry| entry.module)
    }

    fn list<'a>(clients: impl Iterator<Item = &'a Arc<Client>>) -> Result<Arc<KVec<Arc<Client>>>> {
        let mut list = KVec::new();
        for client in clients {
            list.push(client.clone(), GFP_KERNEL)?;
        }
        Ok(Arc::new(list, GFP_KERNEL)?)
    }
}
