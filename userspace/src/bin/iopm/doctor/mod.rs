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

/// What the checks look at.
struct Machine {
    release: Release,
    adapters: Adapters,
    memories: Vec<Memory>,
}

/// A check.
type Check = fn(&Machine, &mut Findings);

/// The checks, in the order of the report, each with its area: a heading in text, a member in JSON.
const CHECKS: &[(&str, Check)] = &[
    ("kernel", kernel::config),
    ("kernel", headers::headers),
    ("kernel", kernel::lockdown),
    ("kernel", kernel::iommu),
    ("modules", kernel::uverbs),
    ("modules", kernel::core),
    ("modules", kernel::io_peer_mem),
    ("modules", kernel::stack),
    ("RDMA devices", devices::adapters),
    ("clients", devices::clients),
    ("GPUs", gpus::nvidia_dkms),
    ("GPUs", gpus::nvidia),
    ("GPUs", gpus::amd),
    ("memory", memory::memory),
    ("permissions", memory::verbs_nodes),
    ("permissions", memory::memory_nodes),
    ("permissions", memory::locked_memory),
    ("routes", memory::routes),
    ("rejections", devices::rejections),
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

/// What checks have found, the last ones in this area.
#[derive(Default)]
struct Findings {
    area: String,
    list: Vec<Finding>,
    printed: usize,
}

impl Findings {
    /// Adds a finding. An empty fix is none.
    fn add(&mut self, verdict: Verdict, fix: impl Into<String>, text: String) {
        let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        self.list.push(Finding { area: self.area.clone(), verdict, text, fix });
    }

    /// Prints what is not printed yet, under its area.
    fn print(&mut self, out: Out<'_>) -> Result<()> {
        let mut above = self.printed.checked_sub(1).map(|last| &self.list[last].area);
        for Finding { area, verdict, text, fix } in &self.list[self.printed..] {
            if above.replace(area) != Some(area) {
                writeln!(out, "{area}")?;
            }
            let (word, colour) = match verdict {
                Verdict::Ok => ("ok  ", 32),
                Verdict::Unknown => ("?   ", 36),
                Verdict::Warn => ("warn", 33),
                Verdict::Fail => ("FAIL", 31),
            };
            writeln!(out, "  {}  {text}", coloured(word, colour))?;
            if let Some(fix) = fix {
                writeln!(out, "        fix: {fix}")?;
            }
        }
        self.printed = self.list.len();
        Ok(out.flush()?)
    }
}

/// A transfer between each RDMA device and each memory that a file maps. `each` comes after each of them.
fn transfers(
    machine: &Machine,
    found: &mut Findings,
    mut each: impl FnMut(&mut Findings) -> Result<()>,
) -> Result<()> {
    found.area = "transfers".into();
    let before = found.list.len();
    for adapter in &machine.adapters.list {
        for memory in &machine.memories {
            let Some(path) = &memory.path else { continue };
            let pair = format!("{}, {}", adapter.name, memory.name);
            match test::run(&adapter.name, path) {
                Ok(text) => ok!(found, "{pair}: {text}"),
                Err(text) => fail!(found, "dmesg | grep peer_mem", "{pair}: {text}"),
            }
            each(found)?;
        }
    }
    if found.list.len() == before {
        warn!(found, "", "nothing to test: no RDMA device, or no memory that a file maps");
    }
    each(found)
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
    let mut found = Findings::default();
    // As text the report is printed as it comes.
    let mut print = |found: &mut Findings| if options.json { Ok(()) } else { found.print(out) };
    if options.applications {
        applications::check(&machine, &mut found)?;
        print(&mut found)?;
    }
    for (area, check) in CHECKS.iter().filter(|_| !options.applications) {
        found.area = (*area).into();
        check(&machine, &mut found);
        print(&mut found)?;
    }
    if options.test {
        transfers(&machine, &mut found, &mut print)?;
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
