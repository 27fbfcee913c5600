// SPDX-License-Identifier: GPL-2.0
//
// A table has one owner, which frees it.
//
// expect: error[E0382]: use of moved value: `table`

client!(
    Mine,
    get_pages = |_region| {
        let table = pin()?;
        drop(table);
        drop(table);
        pin()
    }
);
peer_client_slot!(Mine);
