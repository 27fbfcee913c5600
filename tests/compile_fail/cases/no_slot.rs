// SPDX-License-Identifier: GPL-2.0
//
// A client needs a slot.
//
// expect: error[E0277]: the trait bound `Mine: Slotted` is not satisfied

client!(Mine);
