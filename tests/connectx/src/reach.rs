// SPDX-License-Identifier: GPL-2.0

//! Which memory the device can still reach by its keys, for tests of a revocation.

use crate::dma::Place;
use crate::prelude::*;

impl Function {
    /// Fails if a memory key or a umem in use translates to the memory `name`, which is that of a file (a
    /// BAR), or to an address at which nothing is mapped, where a key has no business either. The
    /// translations are followed as they are now: behind an IOMMU by its mappings.
    pub fn reaches(&self, name: &str) -> Result<(), String> {
        for (who, at, len) in self.translated() {
            for place in self.dma.places(at, len) {
                match place {
                    Place::In(memory, offset) if memory == name => {
                        return Err(format!("{who} reaches {memory} at {offset:#x}"));
                    }
                    Place::In(..) => {}
                    Place::Nothing(at) => {
                        return Err(format!("{who} reaches {at:#x}, where nothing is mapped"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Memory is about to be unmapped: nothing may translate to it any more. That nothing uses such
    /// a translation is no excuse, the other end may at any time.
    pub fn check_unmap(&self, at: u64, len: u64) {
        if !self.dma.master.get() {
            return;
        }
        let end = at.saturating_add(len);
        let in_range = |(_, start, len): &(String, u64, u64)| *start < end && start + len > at;
        if let Some((who, start, _)) = self.translated().find(in_range) {
            error!(
                self,
                "{at:#x} is unmapped, {len:#x} bytes, and {who} translates to {start:#x}"
            );
        }
    }

    /// Returns all that keys and umems in use translate to: of whom, the DMA address, the length.
    fn translated(&self) -> impl Iterator<Item = (String, u64, u64)> + '_ {
        let keys = self.hca.mkeys.used().flat_map(|(index, mkey)| {
            let key = index << 8 | u32::from(mkey.variant());
            let ranges = mkey.reach().into_iter();
            ranges.map(move |(at, len)| (format!("mkey {key:#x}"), at, len))
        });
        let umems = self.hca.umems.iter().flat_map(|(id, umem)| {
            let pages = umem.buffer.pages();
            pages.map(move |at| (format!("umem {id:#x}"), at, 1))
        });
        keys.chain(umems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma::tests::{add_file, ALL};
    use crate::function::tests::function;
    use crate::mkey::tests::mkey;

    const BAR: u64 = 0x20000;

    /// Returns a function with memory at 0x10000 and a BAR, and the index of a key of 0x1800 bytes
    /// at offset 0x800 of its pages.
    fn setup(table: &[u64]) -> (Function, u32) {
        let mut function = function(0x10000, 0x2000);
        add_file(&function.dma, BAR, 0x2000, "bar", ALL);
        let index = function.hca.mkeys.add(mkey(0x7f00_0800, 0x1800, 12, table));
        (function, index)
    }

    fn bar(function: &Function) -> String {
        match &function.dma.places(BAR, 1)[..] {
            [Place::In(name, 0)] => name.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_with_a_present_entry_reaches_the_memory() {
        let (mut function, index) = setup(&[0x10003, BAR | 0x1003, BAR | 3]);
        let bar = bar(&function);
        let key = index << 8 | 0x42;
        assert_eq!(
            function.reaches(&bar),
            Err(format!("mkey {key:#x} reaches {bar} at 0x1000"))
        );
        let change = |function: &mut Function, change: fn(&mut Mkey)| {
            change(function.hca.mkeys.all.get_mut(&index).unwrap());
        };
        // A free key cannot be used.
        change(&mut function, |mkey| mkey.set(mkc::free, 1));
        assert_eq!(function.reaches(&bar), Ok(()));
        change(&mut function, |mkey| mkey.set(mkc::free, 0));
        // The range of the key ends before, whatever the table has there from earlier.
        change(&mut function, |mkey| mkey.set(mkc::len, 0x800));
        assert_eq!(function.reaches(&bar), Ok(()));
        change(&mut function, |mkey| mkey.set(mkc::len, 0x801));
        assert!(function.reaches(&bar).is_err());
        // A permission to read alone is one too many.
        change(&mut function, |mkey| mkey.table[15] = 1);
        assert!(function.reaches(&bar).is_err());
        change(&mut function, |mkey| mkey.table[8..].fill(0));
        assert_eq!(function.reaches(&bar), Ok(()));
    }

    #[test]
    fn the_mapping_says_what_an_address_is() {
        // As behind an IOMMU: the address is not that of the BAR.
        let (mut function, _) = setup(&[0x10003, 0x11003]);
        let bar = bar(&function);
        assert_eq!(function.reaches(&bar), Ok(()));
        function.dma_unmap(0x11000, 0x1000, false);
        assert!(function.reaches(&bar).is_err());
    }

    #[test]
    fn what_is_unmapped_has_no_translation_left() {
        let (mut function, index) = setup(&[BAR | 3, 0x10003]);
        let before = log::errors();
        function.check_unmap(BAR + 0x2000, 0x1000);
        // The key begins in the middle of the page.
        function.check_unmap(BAR, 0x800);
        function.dma.master.set(false);
        function.check_unmap(BAR, 0x2000);
        function.dma.master.set(true);
        function.check_unmap(BAR, 0x801);
        assert!(log::errors() > before);
        let mkey = function.hca.mkeys.all.get_mut(&index).unwrap();
        mkey.table[..8].fill(0);
        function.dma_unmap(BAR, 0x2000, false);
    }
}
