// SPDX-License-Identifier: GPL-2.0

//! connectx - a ConnectX for the stock mlx5 driver, emulated
//!
//! A process beside QEMU is the adapter: each socket is one PCI function, which QEMU's device
//! vfio-user-pci puts into a guest. See README.rst.

#![feature(unix_socket_ancillary_data)]

#[macro_use]
mod log;

mod bits;
mod buffer;
mod caps;
mod command;
mod config;
mod control;
mod cq;
mod datagram;
mod dma;
mod eq;
mod ether;
mod fabric;
mod fault;
mod function;
mod init_segment;
mod mkey;
mod objects;
mod port;
mod qp;
mod reach;
mod receive;
mod srq;
mod sys;
mod transport;
mod umem;
mod umr;
mod vfio_user;
mod wqe;

/// What most modules use.
mod prelude {
    pub(crate) use crate::bits::{be16, be32, be64, put, set, Field};
    pub(crate) use crate::buffer::Buffer;
    pub(crate) use crate::caps::Features;
    pub(crate) use crate::command::{
        user, Answer, Refusal, BAD_PARAM, BAD_QP_STATE, BAD_RES, BAD_RES_STATE,
    };
    pub(crate) use crate::config::VECTORS;
    pub(crate) use crate::cq::{completion, Cqe};
    pub(crate) use crate::dma::{copy, gather, scatter, swap, total, Dma, Spans, Unmapped};
    pub(crate) use crate::eq::event;
    pub(crate) use crate::fabric::{no_opcode, syndrome, Ended, Fabric, Outcome};
    pub(crate) use crate::fault::Missing;
    pub(crate) use crate::function::{is_application, Function, FIRST_UAR};
    pub(crate) use crate::ifc::*;
    pub(crate) use crate::init_segment::TIMER_KHZ;
    pub(crate) use crate::log;
    pub(crate) use crate::mkey::{
        Access, AccessError, Mkey, Mkeys, Request, Requester, MAX_INDIRECTION,
    };
    pub(crate) use crate::objects::{find, Kind, Uses};
    pub(crate) use crate::port::{Gid, FULL_MEMBER};
    pub(crate) use crate::qp::{Qp, Service, State};
    pub(crate) use crate::transport::Message;
    pub(crate) use crate::umem::{QueueMemory, QueuePlace};
    pub(crate) use crate::wqe::{opcode, pointed, remote, Next, Wqe};
    pub(crate) use std::collections::BTreeMap;
    pub(crate) use std::ops::Range;
    pub(crate) use std::time::{Duration, Instant};
}

/// The layouts of commands and contexts: generated, see `layouts.sh`.
#[allow(dead_code, non_upper_case_globals, clippy::all)]
mod ifc {
    pub use crate::bits::Field;
    include!(env!("CONNECTX_LAYOUTS"));
}

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

use caps::Features;
use fabric::Fabric;
use function::Function;

const USAGE: &str = "usage: connectx [OPTION...] SOCKET...
Serves one PCI function on each socket, until all of them were connected and are closed.
  --infiniband     the ports are of InfiniBand, not of Ethernet
  --no-odp         on-demand paging is not announced
  --control PATH   takes requests from the pipe PATH.in, answers on PATH.out
  --verbose LEVEL  0 refusals, 1 commands (default), 2 memory keys, 3 work requests
Exits with 1 if an error was logged: something that hardware does not forgive.
";

struct Control {
    requests: File,
    answers: File,
    /// A request that has not come to its end yet.
    begun: String,
}

impl Control {
    fn open(path: &str) -> io::Result<Self> {
        // For reading and writing, so that the end of a writer is not the end of the pipe.
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let open = |end: &str| options.open(format!("{path}.{end}"));
        Ok(Self {
            requests: open("in")?,
            answers: open("out")?,
            begun: String::new(),
        })
    }

    fn serve(&mut self, fabric: &mut Fabric) -> io::Result<()> {
        let mut buf = [0; 4096];
        let n = self.requests.read(&mut buf)?;
        self.begun += &String::from_utf8_lossy(&buf[..n]);
        while let Some((line, rest)) = self.begun.split_once('\n') {
            say!("request: {line}");
            let answer = control::execute(fabric, line);
            self.begun = rest.to_string();
            self.answers.write_all(answer.as_bytes())?;
        }
        Ok(())
    }
}

enum Socket {
    Listens(UnixListener),
    Connected(UnixStream),
    Closed,
}

impl Socket {
    /// Returns the descriptor to wait for; poll ignores negative ones.
    fn fd(&self) -> i32 {
        match self {
            Self::Listens(listener) => listener.as_raw_fd(),
            Self::Connected(stream) => stream.as_raw_fd(),
            Self::Closed => -1,
        }
    }

    fn serve(&mut self, function: &mut Function) {
        match self {
            Self::Listens(listener) => match listener.accept() {
                Ok((stream, _)) => *self = Self::Connected(stream),
                Err(e) => error!(function, "{e}"),
            },
            Self::Connected(stream) => {
                use io::ErrorKind::{ConnectionReset, UnexpectedEof};
                if let Err(e) = vfio_user::serve(stream, function) {
                    if !matches!(e.kind(), UnexpectedEof | ConnectionReset) {
                        error!(function, "{e}");
                    }
                    say!(function, "QEMU has closed the connection");
                    *self = Self::Closed;
                }
            }
            Self::Closed => {}
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (mut features, mut control) = (Features::default(), None);
    let (mut functions, mut sockets) = (Vec::new(), Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(USAGE);
        match arg.as_str() {
            "--infiniband" => features.infiniband = true,
            "--no-odp" => features.no_odp = true,
            "--control" => control = Some(Control::open(&value()?)?),
            "--verbose" => log::LEVEL.set(value()?.parse()?),
            other if other.starts_with('-') => return Err(USAGE.into()),
            path => {
                functions.push(Function::new(functions.len(), features));
                sockets.push(Socket::Listens(UnixListener::bind(path)?));
            }
        }
    }
    say!("listening on {} sockets", sockets.len());
    let mut fabric = Fabric { functions };
    let mut busy = false;
    loop {
        let mut fds: Vec<_> = sockets.iter().map(Socket::fd).collect();
        if fds.iter().all(|fd| *fd < 0) {
            break;
        }
        fds.push(control.as_ref().map_or(-1, |c| c.requests.as_raw_fd()));
        let timeout = match fabric.idle() {
            _ if busy => 0,
            Some(time) => time.as_micros().div_ceil(1000).min(1000) as i32,
            None => -1,
        };
        let ready = sys::wait(&fds, timeout);
        for (n, socket) in sockets.iter_mut().enumerate() {
            if ready[n] {
                socket.serve(&mut fabric.functions[n]);
            }
        }
        if let (Some(control), Some(true)) = (&mut control, ready.last()) {
            control.serve(&mut fabric)?;
        }
        fabric.tick();
        busy = fabric.work();
    }
    for function in &fabric.functions {
        function.dma.report();
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Err(e) = run() {
        error!("{e}");
    }
    say!("{} errors", log::errors());
    ExitCode::from(u8::from(log::errors() > 0))
}
