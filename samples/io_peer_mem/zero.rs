// SPDX-License-Identifier: GPL-2.0

//! When the memory of a BAR is cleared: the parameter `zero`, which gives each BAR a [`Policy`].

use crate::ext::base::pci::BARS;
use kernel::macros::kunit_tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Policy {
    /// Never: a user can read data of earlier users, and of other drivers that had the memory.
    Never,
    /// On allocation and on free: other drivers cannot read the data of users either.
    OnFree,
    #[default]
    OnAllocation,
}

pub(crate) type Policies = [Policy; BARS as usize];

/// Parses a list of `POLICY`, for all BARs, or `BAR:POLICY`. A later item overrides an earlier
/// item.
pub(crate) fn parse(list: &[u8]) -> Option<Policies> {
    let mut policies = Policies::default();
    for item in list.split(|&c| c == b',') {
        match item {
            [bar @ b'0'..=b'9', b':', name @ ..] => {
                *policies.get_mut(usize::from(bar - b'0'))? = policy(name)?;
            }
            name => policies = [policy(name)?; BARS as usize],
        }
    }
    Some(policies)
}

fn policy(name: &[u8]) -> Option<Policy> {
    match name {
        b"never" => Some(Policy::Never),
        b"free" => Some(Policy::OnFree),
        b"alloc" => Some(Policy::OnAllocation),
        _ => None,
    }
}

#[kunit_tests(io_peer_mem_zero)]
mod tests {
    use super::*;
    use Policy::{
        Never,
        OnAllocation,
        OnFree, //
    };

    #[test]
    fn lists() {
        assert_eq!(Policies::default(), [OnAllocation; 6]);
        assert_eq!(parse(b"never"), Some([Never; 6]));
        assert_eq!(parse(b"alloc"), Some([OnAllocation; 6]));
        assert_eq!(parse(b"free"), Some([OnFree; 6]));
        let mut want = [OnAllocation; 6];
        want[2] = OnFree;
        assert_eq!(parse(b"2:free"), Some(want));
        want[5] = Never;
        assert_eq!(parse(b"5:never,2:free"), Some(want));
        let mut want = [OnAllocation; 6];
        want[0] = Never;
        assert_eq!(parse(b"alloc,0:never"), Some(want));
        assert_eq!(parse(b"0:never,alloc"), Some([OnAllocation; 6]));
        for wrong in "|always|2|2:|6:free|free,|2:free:free|22:free| free".split('|') {
            assert_eq!(parse(wrong.as_bytes()), None);
        }
    }
}
