// SPDX-License-Identifier: GPL-2.0

//! The structures of the device memory ioctls, `struct io_peer_mem_dm_*`, as words of 64 bits.
//!
//! The first word of each has the version and the flags. What must be 0 is looked at: it may mean
//! something one day, and must not be taken for nothing then.

use kernel::{
    ioctl::{
        _IOW,
        _IOWR, //
    },
    macros::kunit_tests,
    prelude::*, //
};

/// `struct io_peer_mem_dm_alloc`, `_info` and `_capacity`.
pub(crate) type Arg = [u64; 8];

/// `struct io_peer_mem_dm_free`.
pub(crate) type FreeArg = [u64; 4];

/// `IO_PEER_MEM_IOC_DM_ALLOC`.
pub(crate) const IOC_ALLOC: u32 = _IOWR::<Arg>(0xB7, 0x10);

/// `IO_PEER_MEM_IOC_DM_CAPACITY`.
pub(crate) const IOC_CAPACITY: u32 = _IOWR::<Arg>(0xB7, 0x11);

/// `IO_PEER_MEM_IOC_DM_INFO`.
pub(crate) const IOC_INFO: u32 = _IOWR::<Arg>(0xB7, 0x12);

/// `IO_PEER_MEM_IOC_DM_FREE`.
pub(crate) const IOC_FREE: u32 = _IOW::<FreeArg>(0xB7, 0x13);

/// `IO_PEER_MEM_DM_VERSION`.
const VERSION: u32 = 1;

/// Two fields of 32 bits.
fn join(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// The first of two fields of 32 bits.
fn first(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// `EINVAL` where the version is another one, a flag is set, or one of `reserved` is not 0.
pub(crate) fn check(head: u64, reserved: &[u64]) -> Result {
    if head != join(VERSION, 0) || reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    Ok(())
}

/// What is asked for: bytes, and what their address shall be a multiple of.
pub(crate) fn parse_alloc(arg: &Arg) -> Result<(u64, u64)> {
    let [head, length, align, _, reserved @ ..] = arg;
    check(*head, reserved)?;
    let align = 1u64.checked_shl(first(*align)).ok_or(EINVAL)?;
    if *length == 0 {
        return Err(EINVAL);
    }
    Ok((*length, align))
}

/// The answer to `question`: the file descriptor, and where in the BAR it is.
pub(crate) fn answer_alloc(question: &Arg, fd: u32, bar_offset: u64) -> Arg {
    let [head, length, align, ..] = *question;
    let align = join(first(align), fd);
    [head, length, align, bar_offset, 0, 0, 0, 0]
}

/// What an allocation is.
pub(crate) struct Info {
    /// As it was asked for.
    pub(crate) length: u64,
    /// In whole pages.
    pub(crate) size: u64,
    /// Where in the BAR it is.
    pub(crate) bar_offset: u64,
    /// The function: domain, bus, slot and function.
    pub(crate) function: (u32, u8, u8),
    /// The BAR's number.
    pub(crate) bar: u32,
}

/// Only what is written has no rule.
pub(crate) fn check_info(arg: &Arg) -> Result {
    let [head, _, _, _, _, _, reserved @ ..] = arg;
    check(*head, reserved)
}

/// The answer.
pub(crate) fn answer_info(info: &Info) -> Arg {
    let (domain, bus, slot) = info.function;
    let address = u32::from(bus) << 8 | u32::from(slot);
    [
        join(VERSION, 0),
        info.length,
        info.size,
        info.bar_offset,
        join(domain, address),
        join(info.bar, 0),
        0,
        0,
    ]
}

/// Only what is written has no rule.
pub(crate) fn check_capacity(arg: &Arg) -> Result {
    let [head, _, _, _, _, reserved @ ..] = arg;
    check(*head, reserved)
}

/// The answer, in bytes.
pub(crate) fn answer_capacity(total: u64, free: u64, largest: u64, page: u64) -> Arg {
    [join(VERSION, 0), total, free, largest, page, 0, 0, 0]
}

/// The words of the structures.
#[kunit_tests(io_peer_mem_dm)]
mod tests {
    use super::*;

    /// A question.
    fn ask(length: u64, log_align: u32) -> Arg {
        [
            join(VERSION, 0),
            length,
            join(log_align, u32::MAX),
            7,
            0,
            0,
            0,
            0,
        ]
    }

    /// The sizes that user space was promised, and the numbers.
    #[test]
    fn abi() {
        assert_eq!(core::mem::size_of::<Arg>(), 64);
        assert_eq!(core::mem::size_of::<FreeArg>(), 32);
        assert_eq!(IOC_ALLOC, 0xc040_b710);
        assert_eq!(IOC_CAPACITY, 0xc040_b711);
        assert_eq!(IOC_INFO, 0xc040_b712);
        assert_eq!(IOC_FREE, 0x4020_b713);
    }

    /// What is allocated, and what is refused.
    #[test]
    fn allocations() {
        assert!(parse_alloc(&ask(1, 0)) == Ok((1, 1)));
        assert!(parse_alloc(&ask(u64::MAX, 63)) == Ok((u64::MAX, 1 << 63)));
        assert!(parse_alloc(&ask(0, 0)) == Err(EINVAL));
        assert!(parse_alloc(&ask(1, 64)) == Err(EINVAL));
        assert!(parse_alloc(&ask(1, u32::MAX)) == Err(EINVAL));
        for word in [0, 4, 5, 6, 7] {
            for bit in [0, 31, 32, 63] {
                let mut arg = ask(1, 0);
                arg[word] ^= 1 << bit;
                assert!(parse_alloc(&arg) == Err(EINVAL));
            }
        }
    }

    /// The answer keeps what was asked.
    #[test]
    fn answers() {
        let arg = answer_alloc(&ask(5, 12), 3, 4096);
        assert_eq!(arg, [join(1, 0), 5, join(12, 3), 4096, 0, 0, 0, 0]);
        let arg = answer_info(&Info {
            length: 5,
            size: 4096,
            bar_offset: 8192,
            function: (1, 2, 3),
            bar: 4,
        });
        assert_eq!(
            arg,
            [join(1, 0), 5, 4096, 8192, join(1, 0x203), join(4, 0), 0, 0]
        );
        assert!(check_info(&arg).is_ok());
        let arg = answer_capacity(4, 3, 2, 1);
        assert_eq!(arg, [join(1, 0), 4, 3, 2, 1, 0, 0, 0]);
        assert!(check_capacity(&arg).is_ok());
    }
}
