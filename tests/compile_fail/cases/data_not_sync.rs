// SPDX-License-Identifier: GPL-2.0
//
// Callbacks of different regions run concurrently: shared data must be Sync.
//
// expect: error[E0277]: `Cell<u32>` cannot be shared between threads safely

client!(Mine, Data = Cell<u32>);
peer_client_slot!(Mine);
