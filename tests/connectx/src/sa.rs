// SPDX-License-Identifier: GPL-2.0

//! Subnet administration: what the ports of an InfiniBand subnet ask its subnet manager, by
//! management datagrams (MADs) to its queue pair 1.
//!
//! `rdma_cm` asks for the path to a GID, the kernel for what the class can do. Everything else is refused with the status that the InfiniBand architecture has
//! for it (volume 1, 13.4.7 and 15.2.3).

mod path;

use crate::bits::Field;
use crate::subnet::Subnet;

/// The length of a MAD.
pub const MAD: usize = 256;

/// The header of a MAD of this class: the common one, that of RMPP, that of the class.
mod header {
    use super::Field;

    pub const BASE_VERSION: Field = Field::new(0, 8);
    pub const CLASS: Field = Field::new(8, 8);
    pub const CLASS_VERSION: Field = Field::new(16, 8);
    pub const METHOD: Field = Field::new(24, 8);
    pub const STATUS: Field = Field::new(32, 16);
    pub const TRANSACTION: Field = Field::new(64, 64);
    pub const ATTRIBUTE: Field = Field::new(128, 16);
    pub const MODIFIER: Field = Field::new(160, 32);
    pub const RMPP_FLAGS: Field = Field::new(208, 8);
    pub const SM_KEY: Field = Field::new(288, 64);
    pub const COMPONENTS: Field = Field::new(384, 64);
    /// The attribute.
    pub const DATA: Field = Field::new(448, 1600);
}

/// The class, and its version.
const SUBNET_ADMINISTRATION: u64 = 3;
const VERSION: u64 = 2;
const BASE_VERSION: u64 = 1;
/// Part of a transfer of several packets.
const RMPP_ACTIVE: u64 = 1;

mod method {
    pub const GET: u64 = 0x01;
    pub const SET: u64 = 0x02;
    pub const GET_TABLE: u64 = 0x12;
    pub const GET_TRACE_TABLE: u64 = 0x13;
    pub const GET_MULTI: u64 = 0x14;
    pub const DELETE: u64 = 0x15;
    /// The bit of answers.
    pub const RESPONSE: u64 = 0x80;
}

mod attribute {
    pub const CLASS_PORT_INFO: u64 = 0x01;
    pub const PATH_RECORD: u64 = 0x35;
}

/// What an answer says of its request; 0 is success.
pub mod status {
    pub const BAD_VERSION: u16 = 0x0004;
    pub const BAD_METHOD: u16 = 0x0008;
    pub const BAD_ATTRIBUTE: u16 = 0x000c;
    pub const INVALID: u16 = 0x0200;
    pub const NO_RECORDS: u16 = 0x0300;
    pub const INVALID_GID: u16 = 0x0500;
    pub const TOO_FEW_COMPONENTS: u16 = 0x0600;
}

/// A request that is answered with a status, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub why: &'static str,
}

impl Refused {
    const fn new(status: u16, why: &'static str) -> Self {
        Self { status, why }
    }
}

/// An answer, with the reason if it is a refusal.
#[derive(Debug)]
pub struct Answer {
    pub mad: [u8; MAD],
    pub refused: Option<Refused>,
}

/// Answers the MAD of a port. Fails with a reason if it gets no answer.
pub fn answer(subnet: &Subnet, request: &[u8]) -> Result<Answer, &'static str> {
    let mut mad: [u8; MAD] = request
        .try_into()
        .map_err(|_| "a MAD does not have this length")?;
    if header::CLASS.get(request) != SUBNET_ADMINISTRATION {
        return Err("the subnet manager serves no such class");
    }
    let method = header::METHOD.get(request);
    if method & method::RESPONSE != 0 {
        return Err("it is an answer, and nothing was asked");
    }
    if header::RMPP_FLAGS.get(request) & RMPP_ACTIVE != 0 {
        return Err("requests have one packet");
    }
    if header::SM_KEY.is_set(request) {
        return Err("another key of the subnet manager");
    }
    let record = record(subnet, request);
    header::METHOD.set(&mut mad, method | method::RESPONSE);
    // A refusal has the attribute of its request.
    let refused = match record {
        Ok(record) => {
            let data = header::DATA.rest_mut(&mut mad);
            data.fill(0);
            data[..record.len()].copy_from_slice(&record);
            None
        }
        Err(refused) => Some(refused),
    };
    let status = refused.as_ref().map_or(0, |refused| refused.status);
    header::STATUS.set(&mut mad, status.into());
    Ok(Answer { mad, refused })
}

/// Returns the attribute that is asked for.
fn record(subnet: &Subnet, request: &[u8]) -> Result<Vec<u8>, Refused> {
    use attribute::*;
    use method::*;

    let versions = [header::BASE_VERSION, header::CLASS_VERSION].map(|field| field.get(request));
    if versions != [BASE_VERSION, VERSION] {
        return Err(Refused::new(status::BAD_VERSION, "another version"));
    }
    let given = header::COMPONENTS.get(request);
    let data = header::DATA.rest(request);
    match (header::METHOD.get(request), header::ATTRIBUTE.get(request)) {
        (GET, CLASS_PORT_INFO) => Ok(class_port_info()),
        (GET, PATH_RECORD) => path::record(subnet, given, data),
        (GET | SET | GET_TABLE | GET_TRACE_TABLE | GET_MULTI | DELETE, _) => Err(Refused::new(
            status::BAD_ATTRIBUTE,
            "no such method of the attribute",
        )),
        _ => Err(Refused::new(status::BAD_METHOD, "no such method")),
    }
}

/// What the class can do: nothing that is optional. An answer takes up to a second.
fn class_port_info() -> Vec<u8> {
    const ANSWER_TIME: Field = Field::new(59, 5);
    let mut info = vec![0; 72];
    header::BASE_VERSION.set(&mut info, BASE_VERSION);
    Field::new(8, 8).set(&mut info, VERSION);
    ANSWER_TIME.set(&mut info, 18);
    info
}

/// Describes a MAD, for the log.
pub fn describe(mad: &[u8]) -> String {
    format!(
        "class {:#x}, method {:#x}, attribute {:#x}, modifier {:#x}, transaction {:#x}",
        header::CLASS.get(mad),
        header::METHOD.get(mad),
        header::ATTRIBUTE.get(mad),
        header::MODIFIER.get(mad),
        header::TRANSACTION.get(mad)
    )
}

#[cfg(test)]
mod tests;
