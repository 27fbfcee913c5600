// SPDX-License-Identifier: GPL-2.0

//! The address vector of a datagram, and the header that the receiver finds in front of it.

use crate::bits::{be16, be32, put};
use crate::port::Gid;

/// The address vector, short and long.
const SHORT: usize = 16;
const LONG: usize = 48;
const EXTENDED: u32 = 0x8000_0000;
/// The header in front of what is received.
pub const GRH: usize = 40;

/// The address vector of a work request.
pub struct Address {
    pub key: u32,
    pub qpn: u32,
    pub lid: u16,
    pub grh: bool,
    pub gid: [u8; 16],
    /// The index of the source GID.
    pub source: usize,
    traffic_class: u8,
    hop_limit: u8,
    pub len: usize,
}

impl Address {
    /// Reads the address vector at the start of `segment`.
    pub fn new(segment: &[u8], infiniband: bool) -> Self {
        let qpn = be32(segment, 8);
        let extended = qpn & EXTENDED != 0;
        let flow = if extended { be32(segment, 28) } else { 0 };
        let mut gid = [0; 16];
        if extended {
            put(&mut gid, 0, segment.get(32..48).unwrap_or_default());
        }
        Self {
            key: be32(segment, 0),
            qpn: qpn & 0xff_ffff,
            lid: be16(segment, 14),
            grh: !infiniband || flow >> 30 & 1 == 1,
            gid,
            source: (flow >> 20 & 0xff) as usize,
            traffic_class: segment.get(26).copied().unwrap_or(0),
            hop_limit: segment.get(27).copied().unwrap_or(0),
            len: if extended { LONG } else { SHORT },
        }
    }
}

/// Returns the header that the receiver at `to` finds in front of a message of `len` bytes.
pub fn header(from: &Gid, to: &[u8; 16], how: &Address, len: usize) -> [u8; GRH] {
    let mut grh = [0; GRH];
    let mapped = |gid: &[u8; 16]| gid[..10] == [0; 10] && gid[10..12] == [0xff; 2];
    if from.version == 2 && mapped(&from.gid) {
        // Version 2 over IPv4: its header is at the end.
        let total = 20 + 8 + 12 + 8 + len + 4;
        grh[20] = 0x45;
        grh[21] = how.traffic_class;
        put(&mut grh, 22, &(total as u16).to_be_bytes());
        grh[26] = 0x40;
        grh[28] = how.hop_limit.max(1);
        grh[29] = 17;
        put(&mut grh, 32, &from.gid[12..]);
        put(&mut grh, 36, &to[12..]);
        let sum = checksum(&grh[20..]);
        put(&mut grh, 30, &sum.to_be_bytes());
        return grh;
    }
    // Version 1 and InfiniBand: the global route header, which looks like IPv6.
    put(
        &mut grh,
        0,
        &(6 << 28 | u32::from(how.traffic_class) << 20).to_be_bytes(),
    );
    put(&mut grh, 4, &((12 + 8 + len + 4) as u16).to_be_bytes());
    grh[6] = if from.version == 2 { 17 } else { 0x1b };
    grh[7] = how.hop_limit;
    put(&mut grh, 8, &from.gid);
    put(&mut grh, 24, to);
    grh
}

/// Returns the checksum of an IPv4 header.
fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks(2).map(|word| u32::from(be16(word, 0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_ipv4_has_a_right_checksum() {
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
        let from = Gid {
            gid,
            version: 2,
            ..Gid::default()
        };
        let mut segment = [0; LONG];
        put(&mut segment, 8, &(EXTENDED | 0x123).to_be_bytes());
        put(&mut segment, 32, &gid);
        let address = Address::new(&segment, false);
        let grh = header(&from, &address.gid, &address, 100);
        assert_eq!(checksum(&grh[20..]), 0);
        assert_eq!(grh[32..36], [192, 0, 2, 1]);
    }
}
