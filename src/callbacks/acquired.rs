// SPDX-License-Identifier: GPL-2.0

//! `acquire` and `release`: [`Acquired`], a range that a client has claimed.
//!
//! The dispatch asks clients by [`Acquired::ask`]; from then on a region owns the object.

use super::{
    ClientPages,
    Context,
    Direction, //
};
use crate::{
    client::{
        Client,
        ClientRef, //
    },
    data::{
        hint::Hint,
        range::VaRange, //
    }, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A range that a client has claimed. Dropping the object calls `release`, which may sleep.
pub(crate) struct Acquired {
    context: Context,
    client: ClientRef,
}

impl Acquired {
    /// Asks `client` whether `range` of the calling process is memory of the client. Returns `None`
    /// if the client does not claim the range, or is being unregistered. Context: process context;
    /// may sleep.
    pub(crate) fn ask(client: &Arc<Client>, range: VaRange, hint: Option<&Hint>) -> Option<Self> {
        let client = client.get_ref()?;
        let acquire = client.callbacks().acquire?;
        let mut context = ptr::null_mut();
        let name = hint.and_then(|h| h.name.as_deref());
        // SAFETY:
        // - `client` keeps the client registered, so the callbacks may be called;
        // - the C ABI lets both halves of a hint be NULL; `hint` keeps the name alive, and the
        //   client only reads the name;
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
        // Not then_some(): an object would be created and dropped, and `release` called, even if
        // the client does not claim the range.
        (ret > 0).then(|| Self {
            context: Context(context),
            client,
        })
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &ClientRef {
        &self.client
    }

    /// Has the client pin `range`, see [`ClientPages::pin`]. The owner must drop the pages before this
    /// object.
    pub(crate) fn pin(
        &self,
        range: VaRange,
        direction: Direction,
        ticket: u32,
    ) -> impl Init<ClientPages, Error> + use<'_> {
        ClientPages::pin(self.context, &self.client, range, direction, ticket)
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        if let Some(release) = self.client.callbacks().release {
            // SAFETY:
            // - `client` keeps the client registered, so the callbacks may be called;
            // - the context came from `acquire` of the client, and `self`, the only owner of the
            //   context, is being dropped.
            unsafe { release(self.context.0) };
        }
    }
}
