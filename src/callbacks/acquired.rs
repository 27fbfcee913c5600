// SPDX-License-Identifier: GPL-2.0

//! `acquire` and `release`.

use super::{
    ClientPages,
    Context, //
};
use crate::{
    client::Use,
    hint::Hint,
    range::VaRange, //
};
use core::ptr;
use kernel::prelude::*;

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

    /// Returns the pages of the range, which are not pinned yet. The owner must drop them before this
    /// object.
    pub(crate) fn pages(&self, range: VaRange) -> ClientPages {
        ClientPages::new(self.context, &self.client, range)
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
