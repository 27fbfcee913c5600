// SPDX-License-Identifier: GPL-2.0
//
// The core has 64 bytes for a name.
//
// expect: error[E0080]: evaluation of `

client!(
    Mine,
    NAME = c"a name that is much too long for the array it has to fit into, sixty-four bytes"
);
peer_client_slot!(Mine);
