// SPDX-License-Identifier: GPL-2.0

//! What a kernel crate may lack. `rust/probe` compiles this file against the metadata of the crate:
//! the crate has the features whose functions compile. A function needs no import, so that the
//! others do not depend on it.

// `Atomic` takes pointers: from 7.1 on.
fn atomic_ptr() {
    kernel::sync::atomic::Atomic::<*mut u8>::new(core::ptr::null_mut());
}

// The data of a PCI driver is a type of its own, with a lifetime, and is dropped before devres:
// from 7.2 on.
fn pci_driver_data() {
    let _: Option<&kernel::pci::Device<kernel::device::Core<'static>>> = None;
}

// Tables of PCI ids without data: from 7.3 on.
fn pci_ids_without_data() {
    kernel::pci_device_table!(TABLE, @none, [kernel::pci::DeviceId::from_id(kernel::pci::Vendor::REDHAT, 0)]);
}

// `pci::DevresBar`: from 7.3 on.
fn pci_devres_bar() {
    let _: Option<kernel::pci::DevresBar<1>> = None;
}

// A faux registration has a `faux::Device`: from 7.3 on.
fn faux_device() {
    let _: fn(&kernel::faux::Registration) -> &kernel::faux::Device<kernel::device::Bound> =
        AsRef::as_ref;
}
