// SPDX-License-Identifier: GPL-2.0

//! The resources of a region, until its teardown.

use super::Region;
use crate::{
    backend::Attachment,
    callbacks::ClientPages,
    stats::CountedMr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The access to the memory through one MR, or through an exported dma-buf.
pub(super) struct Attached {
    /// The number of the MR, 0 for an exported dma-buf.
    pub(super) mr: usize,
    /// The adapter's side of it.
    pub(super) attachment: Attachment,
}

/// The resources of a region, until its teardown. Dropped in field order.
///
/// One access is usual. There are two from a re-registration until the driver has deregistered the
/// MR that was replaced, and none if the registration has failed or the device was detached.
pub(super) struct Resources {
    attached: [Option<Attached>; 2],
    pages: ClientPages,
    _counted: Option<CountedMr>,
    /// All devices were stopped by [`Self::prepare`].
    prepared: bool,
}

impl Resources {
    /// Returns the resources of a registration.
    pub(super) fn new(pages: ClientPages) -> impl Init<Self> {
        init!(Self {
            attached: [None, None],
            pages,
            _counted: None,
            prepared: false,
        })
    }

    /// Completes a registration: `attached` has access to the memory.
    pub(super) fn set_live(&mut self, attached: Attached, counted: CountedMr) {
        self.attached = [Some(attached), None];
        self._counted = Some(counted);
    }

    /// Returns the pinned memory.
    pub(super) fn pages(&mut self) -> &mut ClientPages {
        &mut self.pages
    }

    /// Has `make` give a device another access. Fails with `EBUSY` if there are two already.
    pub(super) fn add<T, E: From<Error>>(
        &mut self,
        make: impl FnOnce(&mut ClientPages) -> Result<(T, Attached), E>,
    ) -> Result<T, E> {
        let Some(free) = self.attached.iter_mut().find(|a| a.is_none()) else {
            return Err(EBUSY.into());
        };
        let (made, attached) = make(&mut self.pages)?;
        *free = Some(attached);
        self.prepared = false;
        Ok(made)
    }

    /// Takes the access through an MR that the driver has deregistered, if there is another one.
    pub(super) fn take_replaced(&mut self, mr: usize) -> Option<Attached> {
        let [Some(_), Some(_)] = &self.attached else {
            return None;
        };
        let of_mr = |a: &&mut Option<Attached>| a.as_ref().is_some_and(|a| a.mr == mr);
        self.attached.iter_mut().find(of_mr)?.take()
    }

    /// Returns the attachments.
    fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.attached.iter().flatten().map(|a| &a.attachment)
    }

    /// Returns whether the device can be fenced without deregistering an MR.
    pub(super) fn can_fence(&self) -> bool {
        self.attachments().all(Attachment::can_fence)
    }

    /// Returns whether a device is attached whose driver deregisters the MR later.
    pub(super) fn is_attached(&self) -> bool {
        self.attachments().any(Attachment::is_attached)
    }

    /// Has the device begin no new access, where that is a step of its own. Context: may sleep.
    pub(super) fn stop(&mut self) -> Result {
        let mut attached = self.attached.iter_mut().flatten();
        attached.try_for_each(|a| a.attachment.stop())
    }

    /// Returns whether the device begins no new access.
    pub(super) fn is_stopped(&self) -> bool {
        self.attachments().all(Attachment::is_stopped)
    }

    /// Stops the devices, as [`Self::stop`], because the client is unregistered. Returns whether
    /// they have stopped. Context: may sleep.
    pub(super) fn prepare(&mut self) -> Result<bool> {
        self.stop()?;
        self.prepared = self.is_stopped();
        Ok(self.prepared)
    }

    /// Returns whether [`Self::prepare`] has stopped all devices that have access.
    pub(super) fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Fences the device. Context: may sleep.
    pub(super) fn fence(&mut self) -> Result {
        let mut attached = self.attached.iter_mut().flatten();
        attached.try_for_each(|a| a.attachment.fence())
    }

    /// Has `region` notified when the driver deregisters the MR.
    pub(super) fn defer_to_dereg(&self, region: &Arc<Region>) {
        for attachment in self.attachments() {
            attachment.defer_to_dereg(region.clone());
        }
    }

    /// Leaves a device that does not answer. The memory stays pinned. `region` is notified if the
    /// driver deregisters the MR later. Context: may sleep.
    pub(super) fn leave(&mut self, region: &Arc<Region>) {
        for slot in &mut self.attached {
            if let Some(Attached { mr, attachment }) = slot.take() {
                let attachment = attachment.leave(region.clone());
                *slot = attachment.map(|attachment| Attached { mr, attachment });
            }
        }
    }

    /// Has all torn down but the client's mapping and pages, which the client itself unmaps and puts.
    pub(super) fn leave_to_client(&mut self) {
        self.pages.leave_to_client();
    }
}
