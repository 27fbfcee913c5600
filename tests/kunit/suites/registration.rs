// SPDX-License-Identifier: GPL-2.0

//! Registration and unregistration of clients without regions.

use kernel::prelude::*;

#[kunit_tests(peer_mem_registration)]
mod tests {
    use crate::{
        client::EX_SIZE,
        peer,
        suites::prelude::*, //
    };

    type Ex = peer::peer_memory_client_ex;

    /// Checks that a client with the change to the structure is rejected and leaves nothing behind.
    fn refused(change: impl FnOnce(&mut Ex)) -> Result {
        let client = Client::altered(0, "kunit_bad", Setup::SEED, change);
        ensure!(client.is_err());
        ensure!(!counters::exists(c"kunit_bad"));
        // The next registration is not affected.
        Client::new(0, "kunit_bad", Setup::SEED)?.finish()
    }

    /// Checks that a client with the change is accepted.
    fn accepted(setup: Setup, change: impl FnOnce(&mut Ex)) -> Result {
        let client = Client::altered(0, "kunit_good", setup, change)?;
        ensure!(counters::exists(c"kunit_good"));
        client.finish()?;
        ensure!(!counters::exists(c"kunit_good"));
        Ok(())
    }

    #[test]
    fn without_acquire_is_refused() -> Result {
        refused(|ex| ex.client.acquire = None)
    }

    #[test]
    fn without_get_pages_is_refused() -> Result {
        refused(|ex| ex.client.get_pages = None)
    }

    #[test]
    fn without_dma_map_is_refused() -> Result {
        refused(|ex| ex.client.dma_map = None)
    }

    #[test]
    fn without_dma_unmap_is_refused() -> Result {
        refused(|ex| ex.client.dma_unmap = None)
    }

    #[test]
    fn without_put_pages_is_refused() -> Result {
        refused(|ex| ex.client.put_pages = None)
    }

    #[test]
    fn release_and_get_page_size_may_be_missing() -> Result {
        accepted(Setup::BARE, |_| ())
    }

    #[test]
    fn an_empty_name_is_refused() -> Result {
        refused(|ex| ex.client.name = [0; 64])
    }

    #[test]
    fn a_name_without_end_is_refused() -> Result {
        refused(|ex| ex.client.name = [b'x'; 64])
    }

    #[test]
    fn the_longest_name_is_accepted() -> Result {
        let change = |ex: &mut Ex| {
            ex.client.name = [b'x'; 64];
            ex.client.name[63] = 0;
        };
        let client = Client::altered(0, "", Setup::SEED, change)?;
        ensure!(counters::exists(client.name()));
        client.finish()
    }

    #[test]
    fn a_name_with_a_slash_is_refused() -> Result {
        refused(|ex| ex.client.name[2] = b'/')
    }

    #[test]
    fn the_names_dot_and_dot_dot_are_refused() -> Result {
        for name in ["..", "."] {
            let change = |ex: &mut Ex| {
                ex.client.name = [0; 64];
                ex.client.name[..name.len()].copy_from_slice(name.as_bytes());
            };
            ensure!(Client::altered(0, "", Setup::SEED, change).is_err());
        }
        Ok(())
    }

    #[test]
    fn null_is_refused() -> Result {
        // SAFETY: The function accepts NULL.
        let handle = unsafe {
            peer::ib_register_peer_memory_client(core::ptr::null(), core::ptr::null_mut())
        };
        ensure!(handle.is_null());
        Ok(())
    }

    #[test]
    fn a_name_is_unique() -> Result {
        let first = Client::new(0, "kunit_first", Setup::SEED)?;
        ensure!(Client::new(1, "kunit_first", Setup::SEED).is_err());
        let other = Client::new(1, "kunit_second", Setup::SEED)?;
        first.finish()?;
        // The name is free again.
        let again = Client::new(0, "kunit_first", Setup::SEED)?;
        again.finish()?;
        other.finish()
    }

    #[test]
    fn the_invalidate_callback_is_set_only_on_request() -> Result {
        let with = Client::new(0, "kunit_first", Setup::SEED)?;
        let without = Client::new(1, "kunit_second", Setup::PERSISTENT)?;
        ensure_eq!(with.invalidate(1)?, 0);
        ensure!(without.invalidate(1).is_err());
        with.finish()?;
        without.finish()
    }

    #[test]
    fn the_directory_shows_the_version() -> Result {
        let change = |ex: &mut Ex| ex.client.version[..4].copy_from_slice(b"2.1\0");
        let client = Client::altered(0, "kunit_first", Setup::SEED, change)?;
        ensure!(counters::reads(client.name(), c"version", "2.1\n")?);
        client.finish()
    }

    #[test]
    fn a_version_that_fills_its_field_is_truncated() -> Result {
        let change = |ex: &mut Ex| {
            ex.client.version = [b'v'; 16];
            ex.ex_size = EX_SIZE;
        };
        let client = Client::altered(0, "kunit_first", Setup::SEED, change)?;
        ensure!(counters::reads(
            client.name(),
            c"version",
            "vvvvvvvvvvvvvvv\n"
        )?);
        client.finish()
    }

    #[test]
    fn an_extended_client_is_accepted() -> Result {
        accepted(Setup::UNMAPS, |_| ())
    }

    #[test]
    fn a_short_extended_client_has_no_flags() -> Result {
        accepted(Setup::UNMAPS, |ex| {
            ex.ex_size = size_of::<peer::peer_memory_client>()
        })
    }

    #[test]
    fn an_invalid_handle_is_ignored() -> Result {
        let client = Client::new(0, "kunit_first", Setup::SEED)?;
        for handle in [
            core::ptr::null_mut(),
            core::ptr::without_provenance_mut(0x10),
        ] {
            // SAFETY: The function accepts any handle.
            unsafe { peer::ib_unregister_peer_memory_client(handle) };
        }
        ensure!(counters::exists(client.name()));
        client.finish()
    }

    #[test]
    fn counters_begin_at_zero() -> Result {
        let client = Client::new(0, "kunit_first", Setup::SEED)?;
        for file in counters::ALL {
            ensure_eq!(counters::get(client.name(), file)?, 0);
        }
        client.finish()
    }
}
