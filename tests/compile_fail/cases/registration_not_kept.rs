// SPDX-License-Identifier: GPL-2.0
//
// A client is registered as long as its registration is kept.
//
// expect: error: unused `peer_client::Registration` that must be used

client!(Mine);
peer_client_slot!(Mine);

/// Registers the client and unregisters it at once.
pub fn register_nothing() -> Result {
    register()?;
    Ok(())
}
