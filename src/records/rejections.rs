// SPDX-License-Identifier: GPL-2.0

//! The last rejections: why memory was not registered or exported.
//!
//! The dispatch records a [`Rejection`] in a ring, and debugfs prints the ring.
//! Context: may sleep. The lock, `rejections::LOG`, is a leaf.

use crate::{
    data::range::VaRange,
    ext::task::{
        trace::{
            Event,
            Point, //
        },
        Comm, //
    },
    records::recent::{
        self,
        Age,
        Log,
        Name, //
    }, //
};
use kernel::{
    current, fmt,
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    },
};

/// The rejections of the loaded module. The lock is a leaf, held while a rejection is added, and
/// while debugfs prints the rejections.
static LOG: Log<Entry> = Log::new();

/// The facts of a rejection.
pub(crate) struct Rejection<'a> {
    /// The memory, in the calling process.
    pub(crate) range: VaRange,
    /// The name of the device that the memory is for, if known.
    pub(crate) device: Option<&'a str>,
    /// The name of the client that claimed the memory.
    pub(crate) client: Option<&'a str>,
    /// The error that the caller gets, unless another client serves the memory.
    pub(crate) error: Option<Error>,
    /// The cause, in words.
    pub(crate) cause: &'static str,
}

/// A kept rejection.
pub(crate) struct Entry {
    time: Instant<Monotonic>,
    pid: i32,
    comm: Comm,
    range: VaRange,
    device: Name,
    client: Name,
    error: Option<Error>,
    cause: &'static str,
}

/// The open list. Dropping the list discards the rejections.
pub(crate) type Open = recent::Open<Entry>;

/// Starts to keep rejections. Context: may sleep.
pub(crate) fn open() -> Result<Open> {
    LOG.open()
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
        }
    }

    /// Prints the entry as a line.
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
            Some(e) => writeln!(f, "{e:?}\t{}", self.cause),
            None => writeln!(f, "-\t{}", self.cause),
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

#[kunit_tests(peer_mem_rejections)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_names() -> Result {
        let entry = Entry::new(Rejection {
            range: VaRange::new(0x1000, 1).ok_or(EINVAL)?,
            device: Some("mlx5_0"),
            client: None,
            error: Some(EFAULT),
            cause: "test",
        });
        assert_eq!(entry.device.as_str(), "mlx5_0");
        assert_eq!(entry.client.as_str(), "-");
        assert!(entry.comm == Comm::current());
        Ok(())
    }
}
