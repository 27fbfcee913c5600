// SPDX-License-Identifier: GPL-2.0
//
// A registration is unique and cannot be copied.
//
// expect: error[E0382]: use of moved value: `registration`

client!(Mine);
peer_client_slot!(Mine);

/// Unregisters the client twice.
pub fn unregister(registration: Registration<Mine>) {
    drop(registration);
    drop(registration);
}
