// SPDX-License-Identifier: GPL-2.0

//! Dispatch: finds the client that claims a range.

use crate::{
    adapter::Adapter,
    backend::Refusal,
    callbacks::Acquired,
    ext::{
        dma_buf::Export,
        rdma::{
            Request,
            UserMr, //
        }, //
    },
    pr_warn_limited,
    range::VaRange,
    region::Region,
    registry, //
};
use kernel::prelude::*;

/// Registers memory with the first client that claims it, in the order of registration. Returns
/// `None` if no client claims it. Context: may sleep.
pub(crate) fn register_memory(adapter: &Adapter, req: &Request<'_>) -> Result<Option<UserMr>> {
    let Some(clients) = registry::clients() else {
        return Ok(None);
    };
    // The driver has the errno for a range that is empty or wraps.
    let Some(range) = VaRange::new(req.start, req.length) else {
        return Ok(None);
    };
    let hint = adapter.hints().get(req.ucontext());
    for client in clients.iter() {
        if client.traits().requires_invalidation && !adapter.backend().can_fence() {
            continue;
        }
        let Some(entered) = client.enter() else {
            continue;
        };
        let Some(acquired) = Acquired::ask(entered, range, hint.as_deref()) else {
            continue;
        };
        match Region::register(acquired, adapter.backend(), adapter.mrs(), req, range) {
            Ok(mr) => return Ok(Some(mr)),
            Err(Refusal::Error(e)) => return Err(e),
            Err(Refusal::Skip(cause)) => pr_warn_limited!(
                "client {}: cannot serve {}: {}\n",
                client.name(),
                adapter.device().name(),
                cause
            ),
        }
    }
    Ok(None)
}

/// Exports memory of the calling process as a dma-buf, with the first client that claims it.
/// Returns `None` if no client claims it. Which devices can import the dma-buf shows when they do.
/// Context: may sleep.
pub(crate) fn export_memory(range: VaRange) -> Result<Option<Export>> {
    let Some(clients) = registry::clients() else {
        return Ok(None);
    };
    for client in clients.iter() {
        let acquired = client
            .enter()
            .and_then(|entered| Acquired::ask(entered, range, None));
        match acquired.map(|acquired| Region::export(acquired, range)) {
            Some(Ok(export)) => return Ok(Some(export)),
            Some(Err(Refusal::Error(e))) => return Err(e),
            Some(Err(Refusal::Skip(_))) | None => {}
        }
    }
    Ok(None)
}
