// SPDX-License-Identifier: GPL-2.0

//! The last rejections: why memory was not registered or exported.
//!
//! The dispatch records a [`Rejection`] in a ring, and debugfs prints the ring.
//! Context: may sleep. The lock, `rejections::LOG`, is a leaf.

use crate::{
    ext::{
        dma_buf::{
            Buffer,
            Seam, //
        },
        task::Comm, //
    },
    prelude::*,
    records::recent::{
        Age,
        Log,
        Name, //
    }, //
};

/// The rejections of the loaded module. The lock is a leaf, held while a rejection is added, and
/// while debugfs prints the rejections.
pub(crate) static LOG: Log<Entry> = Log::new();

pub(crate) struct Rejection<'a> {
    /// The memory, in the calling process.
    pub(crate) range: VaRange,
    /// The name of the device that the memory is for, if known.
    pub(crate) device: Option<&'a str>,
    /// The name of the client that claimed the memory.
    pub(crate) client: Option<&'a str>,
    /// The error that the caller gets, unless another client serves the memory.
    pub(crate) error: Option<Error>,
    pub(crate) cause: &'static str,
    /// Where the memory ceases to be a part of one dma-buf, if that is the cause.
    pub(crate) seam: Option<&'a Seam<Buffer>>,
}

/// The identity of a dma-buf, which a record does not keep: exporter and number.
pub(crate) struct Id(Option<(Name, u64)>);

impl Id {
    pub(crate) fn of(buffer: Option<&Buffer>) -> Self {
        Self(buffer.map(|buffer| (Name::new(Some(buffer.exporter())), buffer.number())))
    }
}

/// For the macros of `kernel`, such as `pr_warn!`.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// For the macros of `core`, such as `write!`.
impl core::fmt::Display for Id {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.0 {
            Some((exporter, number)) => write!(f, "{} {number}", exporter.as_str()),
            None => f.write_str("none"),
        }
    }
}

pub(crate) struct Entry {
    time: Instant<Monotonic>,
    pid: i32,
    comm: Comm,
    range: VaRange,
    device: Name,
    client: Name,
    error: Option<Error>,
    cause: &'static str,
    /// The address of the seam, and the dma-bufs before and after the seam.
    seam: Option<(usize, Id, Id)>,
}

impl Entry {
    /// Creates the entry of a rejection of the calling process, now.
    fn new(rejection: Rejection<'_>) -> Self {
        Self {
            time: Instant::now(),
            pid: current!().group_leader().pid(),
            comm: Comm::current(),
            range: rejection.range,
            device: Name::new(rejection.device),
            client: Name::new(rejection.client),
            error: rejection.error,
            cause: rejection.cause,
            seam: rejection.seam.map(|seam| {
                let id = |buffer: &Option<Buffer>| Id::of(buffer.as_ref());
                (seam.at, id(&seam.before), id(&seam.after))
            }),
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\t{}\t{}\t{:#x}\t{}\t{}\t{}\t",
            Age(self.time),
            self.pid,
            self.comm,
            self.range.addr(),
            self.range.len(),
            self.device.as_str(),
            self.client.as_str(),
        )?;
        match self.error {
            Some(e) => write!(f, "{e:?}\t{}", self.cause)?,
            None => write!(f, "-\t{}", self.cause)?,
        }
        match &self.seam {
            Some((at, before, after)) => {
                writeln!(
                    f,
                    ": dma-buf {before} before {at:#x}, {after} from there on"
                )
            }
            None => writeln!(f),
        }
    }
}

/// Records a rejection of the calling process. Context: may sleep.
pub(crate) fn record(rejection: Rejection<'_>) {
    Point::Reject.record(&Event {
        client: rejection.client,
        device: rejection.device,
        lkey: 0,
        addr: rejection.range.addr() as u64,
        length: rejection.range.len() as u64,
        pid: current!().group_leader().pid(),
        result: rejection.error.map_or(Ok(()), Err),
        cause: rejection.cause,
    });
    LOG.with(|ring| ring.add(Entry::new(rejection)));
}

/// Prints the file `rejections`: a line for each rejection, the oldest first, with tabs between the
/// columns. Context: may sleep.
pub(crate) fn print(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let heading = "seconds ago\tpid\tprocess\taddress\tlength\tdevice\tclient\terror\tcause";
    LOG.print(f, heading, Entry::print)
}
