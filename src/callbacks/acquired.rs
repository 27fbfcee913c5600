// SPDX-License-Identifier: GPL-2.0

//! `acquire`, `get_pages` and `release`.

use super::{
    ClientPages,
    Context,
    Intent, //
};
use crate::{
    client::Use,
    ext::sg::ForeignTable,
    hint::Hint,
    range::VaRange, //
};
use core::ptr;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// A range that a client has claimed. Dropping it calls `release`.
pub(crate) struct Acquired {
    context: Context,
    client: Use,
}

impl Acquired {
    /// Asks a client whether `range` of the calling process is its memory. Context: may sleep.
    pub(crate) fn ask(client: Use, range: VaRange, hint: Option<&Hint>) -> Option<Self> {
        let acquire = client.callbacks().acquire?;
        let mut context = ptr::null_mut();
        let name = hint.and_then(|h| h.name.as_deref());
        // SAFETY:
        // - `client` keeps the client registered, so its callbacks may be called;
        // - the C ABI lets both halves of a hint be NULL, and the client only reads the name, which
        //   `hint` keeps alive;
        // - `context` is valid for a write.
        let ret = unsafe {
            acquire(
                range.addr(),
                range.len(),
                ptr::without_provenance_mut(hint.map_or(0, |h| h.private_data)),
                name.map_or(ptr::null(), |n| n.as_char_ptr()).cast_mut(),
                &mut context,
            )
        };
        // Not then_some(), which would create and drop an object, and so call `release`, even if
        // the client does not claim the range.
        (ret > 0).then(|| Self {
            context: Context(context),
            client,
        })
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &Use {
        &self.client
    }

    /// Has the client pin the range. Context: may sleep.
    pub(crate) fn get_pages(
        &self,
        range: VaRange,
        intent: Intent,
        ticket: u32,
    ) -> Result<ClientPages> {
        let get_pages = self.client.callbacks().get_pages.ok_or(EINVAL)?;
        let table = ForeignTable::new()?;
        let force = intent == Intent::Write;
        // SAFETY:
        // - `client` keeps the client registered, so its callbacks may be called;
        // - the context came from its `acquire` and is not released before `self` is dropped;
        // - `table` is an empty sg_table, which by the C ABI the client leaves alone or fills as
        //   sg_alloc_table() does.
        to_result(unsafe {
            get_pages(
                range.addr(),
                range.len(),
                1,
                force.into(),
                table.as_raw(),
                self.context.0,
                ticket.into(),
            )
        })?;
        // `get_pages` has succeeded, and the owner drops the pages before `self`.
        Ok(ClientPages::new(
            self.context,
            self.client.clone(),
            range,
            table,
        ))
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        if let Some(release) = self.client.callbacks().release {
            // SAFETY:
            // - `client` keeps the client registered, so its callbacks may be called;
            // - the context came from its `acquire`, and `self`, its only owner, is being dropped.
            unsafe { release(self.context.0) };
        }
    }
}
