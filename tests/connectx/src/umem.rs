// SPDX-License-Identifier: GPL-2.0

//! Memory that an application registers with the device for queues and doorbell records.

use crate::buffer::Buffer;
use crate::command::{Refusal, Reply, BAD_PARAM, BAD_RES};
use crate::function::Function;
use crate::ifc::{create_umem_in, create_umem_out, destroy_umem_in, umem};
use crate::objects::Kind;
use crate::trace;

/// The first page list entry, after the head of the umem.
const LIST: usize = 32;

/// One umem.
pub struct Umem {
    /// The memory.
    pub buffer: Buffer,
    uid: u32,
}

impl Function {
    /// CREATE_UMEM.
    pub fn create_umem(&mut self, input: &[u8], out: &mut Reply) -> Result<(), Refusal> {
        let context = create_umem_in::umem.rest(input);
        let count = umem::num_of_mtt.get(context) as usize;
        let list = context
            .get(LIST..)
            .and_then(|rest| rest.get(..count.saturating_mul(8)));
        let list = list.ok_or(Refusal::new(BAD_PARAM, "fewer pages than announced"))?;
        let log_page = umem::log_page_size.get32(context) + 12;
        let new = Umem {
            buffer: Buffer::new(list, log_page, umem::page_offset.get(context)),
            uid: create_umem_in::uid.get32(input),
        };
        let number = self.hca.objects.number(Kind::Umem);
        trace!(
            2,
            "fn{}: umem {number:#x}: {count} pages of {:#x}",
            self.id,
            1u64 << log_page
        );
        self.hca.umems.insert(number, new);
        out.set(create_umem_out::umem_id, u64::from(number));
        Ok(())
    }

    /// DESTROY_UMEM.
    pub fn destroy_umem(&mut self, input: &[u8]) -> Result<(), Refusal> {
        let number = destroy_umem_in::umem_id.get32(input);
        Refusal::unless_owner(self.umem(number)?.uid, destroy_umem_in::uid.get32(input))?;
        let hca = &self.hca;
        if hca.cqs.values().any(|cq| cq.uses_umem(number))
            || hca.qps.values().any(|qp| qp.uses_umem(number))
            || hca.mkeys.used().any(|(_, mkey)| mkey.umem == Some(number))
        {
            return Err(Refusal::busy(format!("umem {number:#x} is in use")));
        }
        self.hca.umems.remove(&number);
        Ok(())
    }

    /// Returns a umem.
    pub fn umem(&self, number: u32) -> Result<&Umem, Refusal> {
        self.hca
            .umems
            .get(&number)
            .ok_or_else(|| Refusal::new(BAD_RES, format!("no umem {number:#x}")))
    }
}
