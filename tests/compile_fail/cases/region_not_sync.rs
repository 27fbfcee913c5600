// SPDX-License-Identifier: GPL-2.0
//
// Callbacks of one region may run concurrently: changes need a lock.
//
// expect: error[E0277]: `Cell<u32>` cannot be shared between threads safely

client!(Mine, Region = Cell<u32>);
peer_client_slot!(Mine);
