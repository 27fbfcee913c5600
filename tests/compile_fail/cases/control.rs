// SPDX-License-Identifier: GPL-2.0
//
// A correct client.
//
// expect: compiles

client!(Mine);
peer_client_slot!(Mine);
