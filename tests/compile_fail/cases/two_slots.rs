// SPDX-License-Identifier: GPL-2.0
//
// A client has one slot: the callbacks could not tell two registrations apart.
//
// expect: error[E0119]: conflicting implementations of trait `Slotted` for type `Mine`

client!(Mine);
peer_client_slot!(Mine);
peer_client_slot!(Mine);
