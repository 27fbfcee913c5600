// SPDX-License-Identifier: GPL-2.0

//! The rows of the debugfs file `regions`: the live regions and imports.
//!
//! [`Origin`] is kept with each region and import: the process, and the time of the registration. A
//! [`Row`] has the facts of one MR or export at the time of the print. The name of the process is a
//! copy: the process may have ended while another one still has the MR or the dma-buf, and pids are
//! reused. Context: any.

use crate::{
    ext::task::Comm,
    prelude::*,
    records::recent::Age, //
};

/// Who has registered or exported memory, and when.
#[derive(Clone)]
pub(crate) struct Origin {
    /// The process, by its number in the initial namespace.
    pid: i32,
    comm: Comm,
    start: Instant<Monotonic>,
}

impl Origin {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the name of the registering thread at that time.
    pub(crate) fn comm(&self) -> Comm {
        self.comm
    }

    /// Whether both are of one process, as far as number and name tell.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        self.pid == other.pid && self.comm == other.comm
    }

    pub(crate) fn start(&self) -> Instant<Monotonic> {
        self.start
    }

    /// Returns the calling process, and the time of the call. Context: process context.
    pub(crate) fn current() -> Self {
        Self {
            pid: current!().group_leader().pid(),
            comm: Comm::current(),
            start: Instant::now(),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// An MR on memory of a client, or a region whose MR does not exist yet or any more.
    Mr,
    /// Memory of a client that `/dev/ib_peer_mem` has exported as a dma-buf.
    Export,
    /// Memory of a client that a driver has pinned by `ib_umem_get_desc()`.
    Umem,
    /// An MR on a dma-buf of another exporter.
    Import,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Mr => "mr",
            Self::Export => "export",
            Self::Umem => "umem",
            Self::Import => "import",
        }
    }
}

pub(crate) struct Row<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) kind: Kind,
    /// The client, or the exporter of an import.
    pub(crate) owner: &'a str,
    /// The RDMA device. `None` before an export is imported, and after the device is removed.
    pub(crate) device: Option<Name>,
    pub(crate) lkey: Option<u32>,
    pub(crate) range: VaRange,
    pub(crate) state: &'static str,
}

impl Row<'_> {
    pub(crate) fn print_heading(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "pid\tprocess\tkind\tclient\tdevice\tlkey\taddress\tlength\tage\tstate"
        )
    }

    /// Prints the row as a line, with tabs between the columns.
    pub(crate) fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\t{}\t{}\t{}\t{}\t",
            self.origin.pid,
            self.origin.comm,
            self.kind.word(),
            self.owner,
            self.device.as_deref().unwrap_or("-"),
        )?;
        match self.lkey {
            Some(lkey) => write!(f, "{lkey:#x}")?,
            None => write!(f, "-")?,
        }
        writeln!(
            f,
            "\t{:#x}\t{}\t{}\t{}",
            self.range.addr(),
            self.range.len(),
            Age(self.origin.start),
            self.state,
        )
    }
}

#[kunit_tests(peer_mem_listing)]
mod tests {
    use super::*;

    /// Prints a row by its method.
    struct Line<'a>(Row<'a>);

    impl fmt::Display for Line<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.print(f)
        }
    }

    #[test]
    fn a_row_has_ten_columns() -> Result {
        let origin = Origin::current();
        for (lkey, key) in [(Some(0x1f00), "0x1f00"), (None, "-")] {
            let row = Row {
                origin: &origin,
                kind: Kind::Mr,
                owner: "client",
                device: None,
                lkey,
                range: VaRange::new(0x1000, 4096).ok_or(EINVAL)?,
                state: "live",
            };
            let line = CString::try_from_fmt(fmt!("{}", Line(row)))?;
            let mut columns = line.to_str().map_err(|_| EINVAL)?.trim_end().split('\t');
            assert_eq!(
                columns.next().and_then(|c| c.parse().ok()),
                Some(origin.pid)
            );
            assert!(columns.next().is_some_and(|comm| !comm.is_empty()));
            for column in ["mr", "client", "-", key, "0x1000", "4096"] {
                assert_eq!(columns.next(), Some(column));
            }
            assert!(columns.next().is_some_and(|age| age.contains('.')));
            assert_eq!((columns.next(), columns.next()), (Some("live"), None));
        }
        Ok(())
    }

    #[test]
    fn a_process_of_the_same_name_is_another() -> Result {
        let origin = Origin::current();
        assert!(origin.is_same_process(&Origin::current()));
        let mut other = origin.clone();
        other.pid += 1;
        assert!(!origin.is_same_process(&other));
        Ok(())
    }
}
