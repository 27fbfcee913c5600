// SPDX-License-Identifier: GPL-2.0

//! Registering and unregistering a client.

use kernel::prelude::*;

#[kunit_tests(peer_mem_client)]
mod tests {
    use crate::{
        client::EX_SIZE,
        peer,
        suites::prelude::*, //
    };

    type Ex = peer::peer_memory_client_ex;

    /// A client with that change to its structure is refused, and leaves nothing behind.
    fn refused(change: impl FnOnce(&mut Ex)) -> Result {
        let client = Client::altered(0, "kunit_bad", Setup::SEED, change);
        ensure!(client.is_err());
        ensure!(!counters::exists(c"kunit_bad"));
        // The next good one is not hindered.
        Client::new(0, "kunit_bad", Setup::SEED)?.finish()
    }

    /// A client with that change is taken.
    fn taken(setup: Setup, change: impl FnOnce(&mut Ex)) -> Result {
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
        taken(Setup::BARE, |_| ())
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
    fn the_longest_name_is_taken() -> Result {
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
    fn the_names_of_this_and_the_parent_folder_are_refused() -> Result {
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
    fn no_structure_is_refused() -> Result {
        // SAFETY: NULL is what the function must bear.
        let handle = unsafe {
            peer::ib_register_peer_memory_client(core::ptr::null(), core::ptr::null_mut())
        };
        ensure!(handle.is_null());
        Ok(())
    }

    #[test]
    fn a_name_is_unique() -> Result {
        let first = Client::new(0, "kunit_one", Setup::SEED)?;
        ensure!(Client::new(1, "kunit_one", Setup::SEED).is_err());
        let other = Client::new(1, "kunit_two", Setup::SEED)?;
        first.finish()?;
        // It is free again.
        let again = Client::new(0, "kunit_one", Setup::SEED)?;
        again.finish()?;
        other.finish()
    }

    #[test]
    fn the_callback_is_set_only_where_it_is_asked_for() -> Result {
        let with = Client::new(0, "kunit_one", Setup::SEED)?;
        let without = Client::new(1, "kunit_two", Setup::PERSISTENT)?;
        ensure_eq!(with.invalidate(1)?, 0);
        ensure!(without.invalidate(1).is_err());
        with.finish()?;
        without.finish()
    }

    #[test]
    fn the_folder_shows_the_version() -> Result {
        let change = |ex: &mut Ex| ex.client.version[..4].copy_from_slice(b"2.1\0");
        let client = Client::altered(0, "kunit_one", Setup::SEED, change)?;
        ensure!(counters::reads(client.name(), c"version", "2.1\n")?);
        client.finish()
    }

    #[test]
    fn a_version_that_fills_its_field_is_cut() -> Result {
        let change = |ex: &mut Ex| {
            ex.client.version = [b'v'; 16];
            ex.ex_size = EX_SIZE;
        };
        let client = Client::altered(0, "kunit_one", Setup::SEED, change)?;
        ensure!(counters::reads(
            client.name(),
            c"version",
            "vvvvvvvvvvvvvvv\n"
        )?);
        client.finish()
    }

    #[test]
    fn an_extended_client_is_taken() -> Result {
        taken(Setup::UNMAPS, |_| ())
    }

    #[test]
    fn a_short_extended_client_has_no_flags() -> Result {
        taken(Setup::UNMAPS, |ex| {
            ex.ex_size = size_of::<peer::peer_memory_client>()
        })
    }

    #[test]
    fn a_handle_that_is_none_is_left_alone() -> Result {
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        for handle in [
            core::ptr::null_mut(),
            core::ptr::without_provenance_mut(0x10),
        ] {
            // SAFETY: The function must bear any handle.
            unsafe { peer::ib_unregister_peer_memory_client(handle) };
        }
        ensure!(counters::exists(client.name()));
        client.finish()
    }

    #[test]
    fn counters_begin_at_zero() -> Result {
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        for file in [
            c"num_alloc_mrs",
            c"num_dealloc_mrs",
            c"num_reg_pages",
            c"num_dereg_pages",
            c"num_reg_bytes",
            c"num_dereg_bytes",
            c"num_free_callbacks",
        ] {
            ensure_eq!(counters::get(client.name(), file)?, 0);
        }
        client.finish()
    }
}
