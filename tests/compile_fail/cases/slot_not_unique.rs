// SPDX-License-Identifier: GPL-2.0
//
// Safe code cannot implement `Slotted`, which must return one slot.
//
// expect: error[E0200]: the trait `Slotted` requires an `unsafe impl` declaration

client!(Mine);

impl Slotted for Mine {
    fn slot() -> &'static Slot<Self> {
        static ONE: Slot<Mine> = Slot::new();
        static OTHER: Slot<Mine> = Slot::new();
        if current!().pid() % 2 == 0 {
            &ONE
        } else {
            &OTHER
        }
    }
}
