// SPDX-License-Identifier: GPL-2.0

use super::{Mkey, PRESENT, READ};
use crate::prelude::*;

impl Function {
    pub fn create_mkey(&mut self, input: &[u8], out: &mut [u8]) -> Answer {
        let context = create_mkey_in::memory_key_mkey_entry.slice(input);
        let mut mkey = Mkey::new(context)?;
        self.check_mkey(&mkey)?;
        if create_mkey_in::mkey_umem_valid.is_set(input) {
            // The header has no names for these two.
            let (id, offset) = (be32(input, 100), be64(input, 104));
            mkey.umem = Some(id);
            let count = mkey.len().div_ceil(mkey.page_size());
            let pages = self.umem_translations(id, offset, (count, mkey.log_page()))?;
            let writable = self.umem_writable(id);
            let permission = if writable { PRESENT } else { READ };
            let entry = |page: &u64| (page | permission).to_be_bytes();
            mkey.table = pages.iter().flat_map(entry).collect();
        } else {
            let given = create_mkey_in::translations_octword_actual_size.get(input) as usize * 16;
            let list = create_mkey_in::klm_pas_mtt.rest(input);
            if given > list.len() || given > mkey.table_size() {
                fail!(BAD_PARAM, "more translations than there is room for");
            }
            mkey.table = list[..given].to_vec();
        }
        let (variant, free) = (mkey.variant(), mkey.free());
        let index = self.hca.mkeys.add(mkey);
        create_mkey_out::mkey_index.set(out, u64::from(index));
        if !free {
            self.log_mkey("created", index << 8 | u32::from(variant));
        }
        Ok(())
    }

    pub fn destroy_mkey(&mut self, input: &[u8]) -> Answer {
        let index = destroy_mkey_in::mkey_index.get32(input);
        if self.hca.mkeys.all.remove(&index).is_none() {
            error!(self, "mkey index {index:#x} is destroyed, and is not there");
            fail!(BAD_RES, "no mkey index {index:#x}");
        }
        trace!(2, self, "mkey index {index:#x} is destroyed");
        Ok(())
    }

    pub fn log_mkey(&mut self, what: &str, key: u32) {
        if let Some(mkey) = self.hca.mkeys.all.get_mut(&(key >> 8)) {
            trace!(2, self, "mkey {key:#x} {what}: {}", mkey.describe(None));
        }
    }
}
