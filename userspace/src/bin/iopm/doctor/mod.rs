// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm doctor: why does an RDMA device not reach device memory?
//!
//! A check is a function in [`CHECKS`]: from the facts of the [`Machine`] it adds what it has found, each with a
//! verdict and, unless all is well, what to do.

/// Adds a finding: `ok!(found, TEXT, ...)`, and the others with what to do, if anything, before the text.
macro_rules! ok {
    ($found:expr, $($text:tt)*) => { $found.add(Verdict::Ok, "", format!($($text)*)) };
}
macro_rules! unknown {
    ($found:expr, $fix:expr, $($text:tt)*) => { $found.add(Verdict::Unknown, $fix, format!($($text)*)) };
}
macro_rules! warn {
    ($found:expr, $fix:expr, $($text:tt)*) => { $found.add(Verdict::Warn, $fix, format!($($text)*)) };
}
macro_rules! fail {
    ($found:expr, $fix:expr, $($text:tt)*) => { $found.add(Verdict::Fail, $fix, format!($($text)*)) };
}

mod applications;
mod devices;
mod gpus;
mod headers;
mod kernel;
mod memory;
mod probes;

use crate::{prelude::*, print::coloured, test};

struct Machine {
    release: Release,
    adapters: Adapters,
    memories: Vec<Memory>,
}

type Check = fn(&Machine, &mut Findings<'_>);

/// The checks, in the order of the report, by their area: a heading in text, a member in JSON.
const CHECKS: &[(&str, &[Check])] = &[
    ("kernel", &[kernel::config, headers::headers, kernel::lockdown, kernel::iommu]),
    ("modules", &[kernel::uverbs, kernel::core, kernel::io_peer_mem, kernel::stack]),
    ("RDMA devices", &[devices::adapters]),
    ("clients", &[devices::clients]),
    ("GPUs", &[gpus::nvidia_dkms, gpus::nvidia, gpus::amd]),
    ("memory", &[memory::memory]),
    ("permissions", &[memory::verbs_nodes, memory::memory_nodes, memory::locked_memory]),
    ("routes", &[memory::routes]),
    ("rejections", &[devices::rejections]),
];

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// The caller lacks the permission to find out.
    Unknown,
    Warn,
    Fail,
}

/// A line of the report, and in words or as a command what to do, if anything.
#[derive(Serialize)]
struct Finding {
    area: String,
    #[serde(rename = "status")]
    verdict: Verdict,
    text: String,
    fix: Option<String>,
}

impl Finding {
    /// Prints it, the first one of an area below its heading.
    fn print(&self, is_first: bool, out: Out<'_>) -> io::Result<()> {
        let Self { area, verdict, text, fix } = self;
        if is_first {
            writeln!(out, "{area}")?;
        }
        let (word, colour) = [("ok  ", 32), ("?   ", 36), ("warn", 33), ("FAIL", 31)][*verdict as usize];
        writeln!(out, "  {}  {text}", coloured(word, colour))?;
        if let Some(fix) = fix {
            writeln!(out, "        fix: {fix}")?;
        }
        out.flush()
    }
}

/// What checks have found, the last ones in this area.
struct Findings<'a> {
    area: String,
    list: Vec<Finding>,
    /// As text the report is printed as it comes.
    out: Option<Out<'a>>,
}

impl Findings<'_> {
    /// Adds a finding. An empty fix is none.
    fn add(&mut self, verdict: Verdict, fix: impl Into<String>, text: String) {
        let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        let finding = Finding { area: self.area.clone(), verdict, text, fix };
        let is_first = self.list.last().is_none_or(|last| last.area != self.area);
        if let Some(out) = &mut self.out {
            // What cannot be written fails again at the end.
            let _ = finding.print(is_first, out);
        }
        self.list.push(finding);
    }
}

/// A transfer between each RDMA device and each memory that a file maps.
fn transfers(machine: &Machine, found: &mut Findings<'_>) {
    found.area = "transfers".into();
    for adapter in &machine.adapters.list {
        for memory in &machine.memories {
            let Some(path) = &memory.path else { continue };
            let pair = format!("{}, {}", adapter.name, memory.name);
            match test::run(&adapter.name, path) {
                Ok(text) => ok!(found, "{pair}: {text}"),
                Err(text) => fail!(found, "dmesg | grep peer_mem", "{pair}: {text}"),
            }
        }
    }
    if found.list.last().is_none_or(|last| last.area != found.area) {
        warn!(found, "", "nothing to test: no RDMA device, or no memory that a file maps");
    }
}

/// Checks the machine. The exit status is 1 if a check failed.
pub(crate) fn doctor(options: &cli::Doctor, out: Out<'_>) -> crate::Status {
    let mut adapters = Adapters::find();
    if let Some(device) = &options.device {
        // By its name, or the address of its function.
        let function = pci::find(device);
        let is = |of: &Adapter| of.name == *device || (function.is_some() && of.function == function);
        adapters.list.retain(is);
        ensure!(!adapters.list.is_empty(), "no RDMA device {device}");
    }
    let machine = Machine { release: Release::running(), adapters, memories: Memory::all() };
    let text: Option<Out<'_>> = if options.json { None } else { Some(&mut *out) };
    let mut found = Findings { area: String::new(), list: Vec::new(), out: text };
    if options.applications {
        applications::check(&machine, &mut found)?;
    }
    for (area, checks) in CHECKS.iter().filter(|_| !options.applications) {
        found.area = (*area).into();
        checks.iter().for_each(|check| check(&machine, &mut found));
    }
    if options.test {
        transfers(&machine, &mut found);
    }
    let list = found.list;
    let [ok, unknown, warn, fail] = [Verdict::Ok, Verdict::Unknown, Verdict::Warn, Verdict::Fail]
        .map(|verdict| list.iter().filter(|finding| finding.verdict == verdict).count());
    if options.json {
        print::json(out, &json!({"checks": list, "ok": ok, "unknown": unknown, "warn": warn, "fail": fail}))?;
    } else {
        writeln!(out, "{ok} ok, {unknown} not known, {warn} warnings, {fail} failures")?;
    }
    Ok((fail > 0).into())
}
