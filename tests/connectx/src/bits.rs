// SPDX-License-Identifier: GPL-2.0

//! Access to the fields of commands and contexts, whose layouts the build generates from the
//! kernel's `mlx5_ifc.h`.

/// A field: its first bit, counted from the most significant one of the first byte, and its width.
#[derive(Clone, Copy)]
pub struct Field {
    offset: usize,
    width: usize,
}

impl Field {
    pub const fn new(offset: usize, width: usize) -> Self {
        Self { offset, width }
    }

    /// Returns a field of the struct that this field is.
    pub const fn with(self, inner: Self) -> Self {
        Self::new(self.offset + inner.offset, inner.width)
    }

    pub const fn byte(self) -> usize {
        self.offset / 8
    }

    /// Returns the value. Bytes past the end of `data` read as 0, as the device pads input.
    pub fn get(self, data: &[u8]) -> u64 {
        let last = self.offset + self.width - 1;
        let byte = |at| u128::from(data.get(at).copied().unwrap_or(0));
        let value = (self.byte()..=last / 8).fold(0, |value, at| value << 8 | byte(at));
        (value >> (7 - last % 8)) as u64 & u64::MAX >> (64 - self.width)
    }

    pub fn get32(self, data: &[u8]) -> u32 {
        self.get(data) as u32
    }

    pub fn is_set(self, data: &[u8]) -> bool {
        self.get(data) != 0
    }

    /// Stores the value; the part of it past the end of `data` is dropped.
    pub fn set(self, data: &mut [u8], value: u64) {
        for bit in 0..self.width {
            let at = self.offset + bit;
            let Some(byte) = data.get_mut(at / 8) else {
                return;
            };
            let set = (value >> (self.width - 1 - bit) & 1) as u8;
            *byte = *byte & !(0x80 >> (at % 8)) | set << (7 - at % 8);
        }
    }

    /// Returns the bytes of a field that is a struct; what is past the end of `data` is missing.
    pub fn slice(self, data: &[u8]) -> &[u8] {
        let from = self.byte().min(data.len());
        let to = (from + self.width / 8).min(data.len());
        &data[from..to]
    }

    pub fn rest(self, data: &[u8]) -> &[u8] {
        &data[self.byte().min(data.len())..]
    }

    pub fn rest_mut(self, data: &mut [u8]) -> &mut [u8] {
        let from = self.byte().min(data.len());
        &mut data[from..]
    }
}

/// Returns the big endian number at `at`; bytes past the end read as 0.
pub fn be16(data: &[u8], at: usize) -> u16 {
    Field::new(at * 8, 16).get(data) as u16
}

pub fn be32(data: &[u8], at: usize) -> u32 {
    Field::new(at * 8, 32).get(data) as u32
}

pub fn be64(data: &[u8], at: usize) -> u64 {
    Field::new(at * 8, 64).get(data)
}

pub fn set(data: &mut [u8], values: &[(Field, u64)]) {
    for (field, value) in values {
        field.set(data, *value);
    }
}

/// Stores bytes at `at`; what does not fit is dropped.
pub fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in data.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_reads_as_zero() {
        assert_eq!(be32(&[0x12, 0x34], 0), 0x1234_0000);
        let mut short = [0u8; 2];
        Field::new(0, 32).set(&mut short, 0x1234_5678);
        assert_eq!(short, [0x12, 0x34]);
    }
}
