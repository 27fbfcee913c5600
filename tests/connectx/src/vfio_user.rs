// SPDX-License-Identifier: GPL-2.0

//! The vfio-user protocol, as far as a server needs it for a PCI function without migration.
//! QEMU is the client; each message is answered before the next one is read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::dma::Permission;
use crate::prelude::*;
use crate::sys;

/// Regions as VFIO numbers them.
pub const REGION_BAR0: u32 = 0;
pub const REGION_CONFIG: u32 = 7;
const REGIONS: u32 = 9;
const IRQS: u32 = 5;
const IRQ_MSIX: u32 = 2;

const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const DMA_UNMAP: u16 = 3;
const DEVICE_GET_INFO: u16 = 4;
const DEVICE_GET_REGION_INFO: u16 = 5;
const DEVICE_GET_IRQ_INFO: u16 = 7;
const DEVICE_SET_IRQS: u16 = 8;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const DEVICE_RESET: u16 = 13;

const HEADER: usize = 16;
const FLAG_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 0x10;
const FLAG_ERROR: u32 = 0x20;
const EINVAL: u32 = 22;
const ENOTSUP: u32 = 95;
/// No message is longer; QEMU writes at most this much in one.
const LONGEST: usize = 2 << 20;

fn u32_at(data: &[u8], at: usize) -> u32 {
    be32(data, at).swap_bytes()
}

fn u64_at(data: &[u8], at: usize) -> u64 {
    u64::from(u32_at(data, at)) | u64::from(u32_at(data, at + 4)) << 32
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Reads one message and answers it. Fails if the connection is over.
pub fn serve(stream: &mut UnixStream, device: &mut Function) -> io::Result<()> {
    let mut header = [0; HEADER];
    let mut fds = Vec::new();
    let got = sys::receive(stream, &mut header, &mut fds)?;
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    stream.read_exact(&mut header[got..])?;
    let id = [header[0], header[1]];
    let command = u16::from_le_bytes([header[2], header[3]]);
    let size = u32_at(&header, 4) as usize;
    let flags = u32_at(&header, 8);
    if !(HEADER..=LONGEST).contains(&size) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; size - HEADER];
    stream.read_exact(&mut body)?;
    if flags & 0xf == FLAG_REPLY {
        return Ok(());
    }
    let answer = answer(command, &body, fds, device);
    if flags & FLAG_NO_REPLY != 0 {
        return Ok(());
    }
    let (body, flags, errno) = match answer {
        Ok(body) => (body, FLAG_REPLY, 0),
        Err(errno) => {
            error!("vfio-user: command {command} is answered with errno {errno}");
            (Vec::new(), FLAG_REPLY | FLAG_ERROR, errno)
        }
    };
    let mut reply = Vec::with_capacity(HEADER + body.len());
    reply.extend(id);
    reply.extend(command.to_le_bytes());
    reply.extend(words(&[(HEADER + body.len()) as u32, flags, errno]));
    reply.extend(body);
    stream.write_all(&reply)
}

fn answer(
    command: u16,
    body: &[u8],
    fds: Vec<OwnedFd>,
    device: &mut Function,
) -> Result<Vec<u8>, u32> {
    let mut files = fds.into_iter().map(File::from);
    match command {
        VERSION => {
            let capabilities = r#"{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}}"#;
            Ok(format!("\0\0\0\0{capabilities}\0").into())
        }
        DMA_MAP => {
            let (at, len) = (u64_at(body, 16), u64_at(body, 24));
            let flags = u32_at(body, 4);
            let permission = Permission {
                read: flags & 1 != 0,
                write: flags & 2 != 0,
            };
            trace!(2, device, "DMA map {at:#x}, {len:#x} bytes");
            // Else QEMU cannot share it.
            if let Some(file) = files.next() {
                device.dma.map(at, len, &file, u64_at(body, 8), permission);
            }
            Ok(Vec::new())
        }
        DMA_UNMAP => {
            device.dma_unmap(u64_at(body, 8), u64_at(body, 16), u32_at(body, 4) & 2 != 0);
            Ok(body.to_vec())
        }
        // Can be reset, is a PCI function.
        DEVICE_GET_INFO => Ok(words(&[16, 1 | 2, REGIONS, IRQS])),
        DEVICE_GET_REGION_INFO => {
            let region = u32_at(body, 8);
            let size = device.region_size(region);
            let access = if size > 0 { 1 | 2 } else { 0 };
            Ok(words(&[32, access, region, 0, size as u32, 0, 0, 0]))
        }
        DEVICE_GET_IRQ_INFO => {
            let index = u32_at(body, 8);
            let count = if index == IRQ_MSIX { VECTORS } else { 0 };
            // Signalled by an eventfd; it may be set vector by vector.
            Ok(words(&[16, 1, index, count]))
        }
        DEVICE_SET_IRQS => set_irqs(body, files, device),
        REGION_READ => {
            let count = u32_at(body, 12) as usize;
            if count > LONGEST {
                return Err(EINVAL);
            }
            let mut reply = body.get(..16).ok_or(EINVAL)?.to_vec();
            reply.resize(16 + count, 0);
            device.read(u32_at(body, 8), u64_at(body, 0), &mut reply[16..]);
            Ok(reply)
        }
        REGION_WRITE => {
            let count = u32_at(body, 12) as usize;
            let data = body.get(16..16 + count).ok_or(EINVAL)?;
            device.write(u32_at(body, 8), u64_at(body, 0), data);
            Ok(body[..16].to_vec())
        }
        DEVICE_RESET => {
            device.reset();
            Ok(Vec::new())
        }
        _ => Err(ENOTSUP),
    }
}

fn set_irqs(
    body: &[u8],
    mut files: impl Iterator<Item = File>,
    device: &mut Function,
) -> Result<Vec<u8>, u32> {
    const DATA_NONE: u32 = 1;
    const DATA_EVENTFD: u32 = 4;
    const ACTION_TRIGGER: u32 = 32;
    let (flags, index) = (u32_at(body, 4), u32_at(body, 8));
    let (start, count) = (u32_at(body, 12), u32_at(body, 16));
    if index != IRQ_MSIX {
        return Ok(Vec::new());
    }
    let end = start.checked_add(count).ok_or(EINVAL)?;
    if end > VECTORS {
        return Err(EINVAL);
    }
    if flags & (DATA_NONE | ACTION_TRIGGER) == DATA_NONE | ACTION_TRIGGER && count == 0 {
        for vector in 0..VECTORS {
            device.set_vector(vector, None);
        }
    } else if flags & DATA_EVENTFD != 0 {
        // As many as there are descriptors; without one the vector has no event.
        for vector in start..end {
            device.set_vector(vector, files.next());
        }
    }
    Ok(Vec::new())
}
