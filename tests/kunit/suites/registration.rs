// SPDX-License-Identifier: GPL-2.0

//! Registration and unregistration of clients without regions.

#[kernel::prelude::kunit_tests(peer_mem_registration)]
mod tests {
    use crate::suites::prelude::*;

    type Ex = peer::peer_memory_client_ex;

    #[test]
    fn without_a_mandatory_callback_is_refused() -> Result {
        let changes: [fn(&mut Ex); 5] = [
            |ex| ex.client.acquire = None,
            |ex| ex.client.get_pages = None,
            |ex| ex.client.dma_map = None,
            |ex| ex.client.dma_unmap = None,
            |ex| ex.client.put_pages = None,
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let client = Client::altered(0, "kunit_bad", Setup::SEED, change);
            if client.is_ok() || counters::exists(c"kunit_bad") {
                diagnostic!("callback {}", i);
                return Err(EINVAL);
            }
            // The next registration is not affected.
            Client::new(0, "kunit_bad", Setup::SEED)?.finish()?;
        }
        Ok(())
    }

    #[test]
    fn a_name_is_checked() -> Result {
        // Without a place for the zero byte.
        const LONG: &str = "a_name_of_sixty_four_characters_which_is_longer_than_any_may_be!";
        for name in ["", ".", "..", "a/b", LONG] {
            ensure!(Client::new(0, name, Setup::SEED).is_err());
        }
        let client = Client::new(0, &LONG[..63], Setup::SEED)?;
        ensure!(counters::exists(client.name()));
        client.finish()?;
        // SAFETY: The function accepts NULL.
        let handle = unsafe { peer::ib_register_peer_memory_client(ptr::null(), ptr::null_mut()) };
        ensure!(handle.is_null());
        Ok(())
    }

    /// Optional callbacks are missing, and structures with flags or too short for flags.
    #[test]
    fn each_structure_is_accepted() -> Result {
        let short = size_of::<peer::peer_memory_client>();
        for (setup, size) in [
            (Setup::BARE, None),
            (Setup::UNMAPS, None),
            (Setup::UNMAPS, Some(short)),
        ] {
            let change = |ex: &mut Ex| ex.ex_size = size.unwrap_or(ex.ex_size);
            let client = Client::altered(0, "kunit_good", setup, change)?;
            ensure!(counters::exists(c"kunit_good"));
            for file in counters::ALL {
                ensure_eq!(counters::get(client.name(), file)?, 0);
            }
            client.finish()?;
            ensure!(!counters::exists(c"kunit_good"));
        }
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
        // The second one fills its field, and is truncated.
        for (version, shown) in [
            (*b"2.1\0\0\0\0\0\0\0\0\0\0\0\0\0", "2.1\n"),
            ([b'v'; 16], "vvvvvvvvvvvvvvv\n"),
        ] {
            let change = |ex: &mut Ex| {
                ex.client.version = version;
                ex.ex_size = EX_SIZE;
            };
            let client = Client::altered(0, "kunit_first", Setup::SEED, change)?;
            ensure!(counters::reads(client.name(), c"version", shown)?);
            client.finish()?;
        }
        Ok(())
    }

    #[test]
    fn an_invalid_handle_is_ignored() -> Result {
        let client = Client::new(0, "kunit_first", Setup::SEED)?;
        for handle in [ptr::null_mut(), ptr::without_provenance_mut(0x10)] {
            // SAFETY: The function accepts any handle.
            unsafe { peer::ib_unregister_peer_memory_client(handle) };
        }
        ensure!(counters::exists(client.name()));
        client.finish()
    }
}
