// SPDX-License-Identifier: GPL-2.0

//! The resources of a region.
//!
//! [`Resources`] has the access of devices to the memory, and the pages. The task that has taken
//! the resources out of the [`Lifecycle`](crate::data::lifecycle::Lifecycle) of a region calls the
//! methods, so no lock is needed.

use super::Region;
use crate::{
    backend::{
        Attachment,
        Distrust, //
    },
    callbacks::Acquired,
    prelude::*,
    records::stats::CountedMr, //
};

/// The access to the memory through one MR, or through an exported dma-buf.
pub(super) struct Attached {
    /// The number of the MR; 0 for an exported dma-buf and for a failed import.
    pub(super) mr: usize,
    pub(super) attachment: Attachment,
}

/// Has `region` notified when the driver detaches. If the driver has detached already, notes the
/// detach at once.
fn defer(attachment: &Attachment, region: &Arc<Region>) {
    if !attachment.defer_to_dereg(region.clone()) {
        region.note_detached();
    }
}

/// The resources of a region. [`Self::tear_down`] leaves the acquired range, which the drop releases.
///
/// Usually there is one access. There are two accesses from a re-registration until the driver has
/// deregistered the replaced MR, and no access if the registration has failed or the device was
/// detached. A failed import is an access until the driver has undone the import.
pub(super) struct Resources {
    attached: [Option<Attached>; 2],
    pages: Acquired,
    _counted: Option<CountedMr>,
    /// [`Self::prepare`] has stopped all devices, and only a drain is needed to fence them.
    prepared: bool,
}

impl Resources {
    /// Creates the resources of a region without an access. Context: may sleep.
    pub(super) fn new(pages: Acquired) -> Result<KBox<Self>> {
        // In place: a move of the object would cost more than its allocation.
        let resources = init!(Self {
            attached: [None, None],
            pages,
            _counted: None,
            prepared: false,
        });
        KBox::init(resources, GFP_KERNEL_ACCOUNT)
    }

    pub(super) fn set_counted(&mut self, counted: CountedMr) {
        self._counted = Some(counted);
    }

    pub(super) fn pages(&mut self) -> &mut Acquired {
        &mut self.pages
    }

    /// Ends the access of devices, and then puts the pages. Context: may sleep.
    pub(super) fn tear_down(&mut self) {
        self.attached = [None, None];
        self.pages.put();
        self._counted = None;
    }

    pub(super) fn has_room(&self) -> bool {
        self.attached.iter().any(Option::is_none)
    }

    /// Adds an access. There must be [room](Self::has_room).
    pub(super) fn add(&mut self, attached: Attached) {
        if let Some(free) = self.attached.iter_mut().find(|a| a.is_none()) {
            *free = Some(attached);
        }
        self.prepared = false;
    }

    /// Adds an import that a driver has failed to undo. `region` is notified as by
    /// [`Self::defer_to_dereg`].
    pub(super) fn add_left(&mut self, attachment: Attachment, region: &Arc<Region>) {
        defer(&attachment, region);
        self.add(Attached { mr: 0, attachment });
    }

    /// Takes out the access through `mr`, which the driver has deregistered, if there is another
    /// access.
    pub(super) fn take_replaced(&mut self, mr: usize) -> Option<Attached> {
        let [Some(_), Some(_)] = &self.attached else {
            return None;
        };
        let of_mr = |a: &&mut Option<Attached>| a.as_ref().is_some_and(|a| a.mr == mr);
        self.attached.iter_mut().find(of_mr)?.take()
    }

    fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.attached.iter().flatten().map(|a| &a.attachment)
    }

    /// Returns whether all devices can be fenced without deregistering an MR.
    pub(super) fn can_fence(&self) -> bool {
        self.attachments().all(|a| a.can_fence())
    }

    /// Returns whether a driver is still to detach, after [`Self::defer_to_dereg`].
    pub(super) fn is_attached(&self) -> bool {
        self.attachments().any(|a| a.is_attached())
    }

    /// Returns why a device is not trusted to be fenced.
    pub(super) fn distrust(&self) -> Option<Distrust> {
        self.attachments().find_map(|a| a.distrust())
    }

    /// First step of a fence: stops new accesses of all devices, as [`DeviceAccess::stop`](crate::backend::DeviceAccess::stop). Context:
    /// may sleep.
    pub(super) fn stop(&mut self) -> Result {
        let mut attached = self.attached.iter_mut().flatten();
        attached.try_for_each(|a| a.attachment.stop())
    }

    /// Returns whether all devices are stopped, so that a drain completes the fence.
    pub(super) fn is_stopped(&self) -> bool {
        self.attachments().all(|a| a.is_stopped())
    }

    /// Stops all devices at the unregistration of the client, as [`Self::stop`]. Returns whether a
    /// drain completes the fence. Context: may sleep.
    pub(super) fn prepare(&mut self) -> Result<bool> {
        self.stop()?;
        self.prepared = self.is_stopped();
        Ok(self.prepared)
    }

    /// Returns whether [`Self::prepare`] has stopped all devices that have access.
    pub(super) fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Fences all devices. `fences`: see [`DeviceAccess::fence`](crate::backend::DeviceAccess::fence). Context: may sleep.
    pub(super) fn fence(&mut self, fences: &FenceBudget) -> Result {
        let mut attached = self.attached.iter_mut().flatten();
        attached.try_for_each(|a| a.attachment.fence(fences))
    }

    /// Has `region` notified when the driver deregisters the MR. The caller calls
    /// [`Region::end_if_detached`] once the region is live again.
    pub(super) fn defer_to_dereg(&self, region: &Arc<Region>) {
        self.attachments().for_each(|a| defer(a, region));
    }

    /// Stops waiting for the fences of unresponsive devices. The memory stays pinned. `region` is
    /// notified as by [`Self::defer_to_dereg`]. Context: may sleep.
    pub(super) fn defer_unanswered(&mut self, region: &Arc<Region>) {
        for slot in &mut self.attached {
            if let Some(Attached { mr, attachment }) = slot.take() {
                let attachment = attachment.into_deferred();
                *slot = attachment.map(|attachment| Attached { mr, attachment });
            }
        }
        self.defer_to_dereg(region);
    }

    /// Excludes the client's mapping and the pages from the teardown: the client unmaps and puts
    /// the pages itself.
    pub(super) fn leave_to_client(&mut self) {
        self.pages.leave_to_client();
    }
}
