// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::subnet::{gid, Member};

/// A subnet of two ports, of which the first one has the LID 1.
pub fn subnet() -> Subnet {
    let port = |lid| Member {
        gid: gid(0x1000 + u64::from(lid)),
        lid,
    };
    Subnet::new(vec![port(1), port(2)])
}

/// A request with this method and attribute, and nothing in it.
fn request(method: u64, attribute: u64) -> [u8; MAD] {
    let mut mad = [0; MAD];
    for (field, value) in [
        (header::BASE_VERSION, BASE_VERSION),
        (header::CLASS, SUBNET_ADMINISTRATION),
        (header::CLASS_VERSION, VERSION),
        (header::METHOD, method),
        (header::TRANSACTION, 0x1234_5678_9abc_def0),
        (header::ATTRIBUTE, attribute),
    ] {
        field.set(&mut mad, value);
    }
    mad
}

fn answer_of(request: &[u8]) -> Result<Answer, &'static str> {
    answer(&subnet(), request)
}

/// The status of the answer, which is one to this request.
fn status_of(request: &[u8; MAD]) -> u16 {
    let Answer { mad, refused } = answer_of(request).unwrap();
    for field in [
        header::CLASS,
        header::TRANSACTION,
        header::ATTRIBUTE,
        header::COMPONENTS,
    ] {
        assert_eq!(field.get(&mad), field.get(request));
    }
    assert_eq!(
        header::METHOD.get(&mad),
        header::METHOD.get(request) | method::RESPONSE
    );
    let status = header::STATUS.get(&mad) as u16;
    assert_eq!(status, refused.map_or(0, |refused| refused.status));
    status
}

#[test]
fn the_class_is_described() {
    let request = request(method::GET, attribute::CLASS_PORT_INFO);
    assert_eq!(status_of(&request), 0);
    let mad = answer_of(&request).unwrap().mad;
    let info = header::DATA.rest(&mad);
    // Versions; no capabilities; the time of an answer.
    assert_eq!(info[..8], [1, 2, 0, 0, 0, 0, 0, 18]);
    assert!(info[8..].iter().all(|byte| *byte == 0));
}

#[test]
fn what_is_not_served_is_refused_with_its_status() {
    const INFORM_INFO: u64 = 0x03;
    const SERVICE_RECORD: u64 = 0x31;
    const MC_MEMBER_RECORD: u64 = 0x38;
    use status::{BAD_ATTRIBUTE, BAD_METHOD};
    for (method, attribute, status) in [
        (method::SET, MC_MEMBER_RECORD, BAD_ATTRIBUTE),
        (method::SET, INFORM_INFO, BAD_ATTRIBUTE),
        (method::GET_TABLE, SERVICE_RECORD, BAD_ATTRIBUTE),
        (method::GET_TABLE, attribute::PATH_RECORD, BAD_ATTRIBUTE),
        (method::SET, attribute::PATH_RECORD, BAD_ATTRIBUTE),
        (method::GET, 0xffff, BAD_ATTRIBUTE),
        (0x03, attribute::PATH_RECORD, BAD_METHOD),
        (0x7f, attribute::CLASS_PORT_INFO, BAD_METHOD),
    ] {
        assert_eq!(
            status_of(&request(method, attribute)),
            status,
            "method {method:#x}, attribute {attribute:#x}"
        );
    }
    for version in [header::BASE_VERSION, header::CLASS_VERSION] {
        let mut request = request(method::GET, attribute::CLASS_PORT_INFO);
        version.set(&mut request, 0x80);
        assert_eq!(status_of(&request), status::BAD_VERSION);
    }
}

#[test]
fn a_refusal_has_the_attribute_of_its_request() {
    let mut request = request(method::GET, attribute::PATH_RECORD);
    header::DATA.rest_mut(&mut request).fill(0x5a);
    assert_eq!(status_of(&request), status::TOO_FEW_COMPONENTS);
    let mad = answer_of(&request).unwrap().mad;
    assert_eq!(header::DATA.rest(&mad), header::DATA.rest(&request));
}

#[test]
fn what_is_no_request_gets_no_answer() {
    let good = request(method::GET, attribute::CLASS_PORT_INFO);
    assert!(answer_of(&good[..MAD - 1]).is_err());
    assert!(answer_of(&[&good[..], &[0]].concat()).is_err());
    for (field, value) in [
        // The connection manager's.
        (header::CLASS, 7),
        (header::METHOD, method::GET | method::RESPONSE),
        (header::RMPP_FLAGS, RMPP_ACTIVE),
        (header::SM_KEY, 1),
    ] {
        let mut bad = good;
        field.set(&mut bad, value);
        assert!(answer_of(&bad).is_err());
    }
}
