// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm gpu: runs a program with the library that names the memory of GPUs.

use crate::prelude::*;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;

pub(crate) const LIBRARY: &str = "libiopm-gpu.so";

/// Finds the library: beside this program, where it was built, or in a directory of libraries of its prefix.
pub(crate) fn library() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let bin = program.parent()?;
    let lib = bin.parent()?.join("lib");
    let mut places = vec![bin.to_owned(), lib.join("iopm")];
    let multiarch = fs::read_dir(&lib).into_iter().flatten().flatten();
    places.extend(multiarch.map(|entry| entry.path().join("iopm")));
    places.into_iter().map(|place| place.join(LIBRARY)).find(|file| file.is_file())
}

/// Reads the mappings of a process, a line each; none if the caller may not look.
pub(crate) fn maps(pid: &str) -> impl Iterator<Item = Vec<u8>> {
    // The text of more mappings than a process has by the default limit.
    const MAPS: u64 = 16 << 20;
    let file = File::open(sys::path(format!("/proc/{pid}/maps"))).into_iter();
    file.flat_map(|file| BufReader::new(file.take(MAPS)).split(b'\n').map_while(io::Result::ok))
}

/// Lists the processes that run with a library, as far as the caller may look.
pub(crate) fn processes(library: &str) -> Vec<String> {
    let has_it = |pid: &String| maps(pid).any(|line| String::from_utf8_lossy(&line).contains(library));
    sys::processes().filter(has_it).collect()
}

/// Executes the program. Returns only if that fails.
pub(crate) fn gpu(program: &[OsString]) -> Status {
    let mut preload = library().with_context(|| format!("there is no {LIBRARY}"))?.into_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let (name, arguments) = program.split_first().context("no program")?;
    let error = Command::new(name).args(arguments).env("LD_PRELOAD", preload).exec();
    bail!("{}: {error}", name.to_string_lossy())
}
