// SPDX-License-Identifier: GPL-2.0
//
// `get_pages` has no device to map for.
//
// expect: error[E0061]: this method takes 1 argument but 0 arguments were supplied

client!(
    Mine,
    get_pages = |_region| {
        let mut pages = pin()?;
        pages.map()?;
        Ok(pages)
    }
);
peer_client_slot!(Mine);
