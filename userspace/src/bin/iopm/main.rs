// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm(1): memory for RDMA on PCI devices, and why an adapter does not reach it.

mod bind;
mod candidates;
mod cdi;
mod cli;
mod doctor;
mod drain;
mod gpu;
mod list;
mod metrics;
mod modules;
mod pci;
mod print;
mod stack;
mod status;
mod stop;
mod sys;
mod test;
mod verbs;

/// What most commands need.
mod prelude {
    pub(crate) use crate::modules::{self, is_loaded};
    pub(crate) use crate::pci::{self, Function, Route, Way};
    pub(crate) use crate::print::{self, cells, complain, hint, progress, size, table, Out};
    pub(crate) use crate::sys::{self, cause, At, Release};
    pub(crate) use crate::{cli, gpu, stack::*, Status};
    pub(crate) use anyhow::{anyhow, bail, ensure, Context as _, Result};
    pub(crate) use serde::{Deserialize, Serialize};
    pub(crate) use serde_json::{json, Value};
    pub(crate) use std::ffi::{OsStr, OsString};
    pub(crate) use std::fmt::{self, Display};
    pub(crate) use std::fs::{self, File, OpenOptions};
    pub(crate) use std::io::{self, Read, Write};
    pub(crate) use std::path::{Path, PathBuf};
    pub(crate) use std::process::{Command, Stdio};
    pub(crate) use std::time::{Duration, Instant};
    pub(crate) use std::{collections::BTreeMap, env, iter, sync::OnceLock, thread};
}

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use cli::Command;
use prelude::{env, io, Out, Write};
use std::process::ExitCode;

/// The result of a command: its exit status.
type Status = anyhow::Result<u8>;

fn run(command: Command, out: Out<'_>) -> Status {
    match command {
        Command::Doctor(options) => doctor::doctor(&options, out),
        Command::List(options) => list::list(options.json, out),
        Command::Info { what } => list::info(&what, out),
        Command::Nearest { device } => list::nearest(&device, out),
        Command::Topology(options) => list::topology(options.json, out),
        Command::Status(options) => status::status(options.json, out),
        Command::Regions(options) => status::regions(options.json, out),
        Command::Metrics(options) => output(&options, metrics::text()?, out),
        Command::Cdi(options) => output(&options, cdi::text()?, out),
        Command::Test { device, file } => test::test(device, file, out),
        Command::Candidates => candidates::candidates(out),
        Command::Bind { bar, force, bdf } => bind::bind(&bdf, bar, force, out),
        Command::Unbind { bdf } => bind::unbind(&bdf, out),
        Command::Drain { timeout, end, what } => drain::drain(&what, timeout, end, out),
        Command::Stop { force } => stop::stop(force, out),
        Command::Start => stop::start(out),
        Command::Gpu { program } => gpu::gpu(&program),
        Command::Transfer { device, file } => test::transfer(&device, &file, out),
    }
}

fn output(options: &cli::Output, text: String, out: Out<'_>) -> Status {
    match &options.output {
        // Opened by its name, a file there would have its own offset.
        Some(file) if file.as_os_str() != "/dev/stdout" => sys::write_output(file, text.as_bytes())?,
        _ => out.write_all(text.as_bytes())?,
    }
    Ok(0)
}

/// Adds the usage of the command to an error of a value, as all other errors of the command line have it.
fn with_usage(mut error: clap::Error) -> clap::Error {
    let mut command = cli::Cli::command();
    command.build();
    let name = env::args().nth(1).unwrap_or_default();
    if let (ErrorKind::ValueValidation, Some(command)) = (error.kind(), command.find_subcommand_mut(name)) {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    }
    error
}

fn main() -> ExitCode {
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| with_usage(error).exit());
    if let Some(root) = cli.sysroot {
        sys::set_root(root);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let status = run(cli.command, &mut out);
    let flushed = out.flush().map_err(anyhow::Error::from);
    match status.and_then(|status| flushed.map(|()| status)) {
        Ok(status) => status.into(),
        Err(error) => {
            // A reader that has enough, as head(1), is no failure to report.
            let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if cause != Some(io::ErrorKind::BrokenPipe) {
                print::complain(error);
            }
            ExitCode::FAILURE
        }
    }
}
