// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm doctor: why does an RDMA device not reach device memory?
//!
//! A check is a function in [`CHECKS`]: from the facts of the [`Machine`] it adds what it has found, each with a
//! verdict and, unless all is well, what to do.

mod applications;
mod devices;
mod gpus;
mod headers;
mod kernel;
mod memory;
mod probes;

use crate::{
    cli, pci,
    print::{self, coloured, Out},
    stack::{Adapters, Memory},
    sys::Release,
    test,
};
use anyhow::{bail, Result};
use serde::Serialize;
use serde_json::json;

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

impl Finding {
    fn print(&self, out: Out<'_>) -> Result<()> {
        let (word, colour) = match self.verdict {
            Verdict::Ok => ("ok  ", 32),
            Verdict::Unknown => ("?   ", 36),
            Verdict::Warn => ("warn", 33),
            Verdict::Fail => ("FAIL", 31),
        };
        writeln!(out, "  {}  {}", coloured(word, colour), self.text)?;
        if let Some(fix) = &self.fix {
            writeln!(out, "        fix: {fix}")?;
        }
        Ok(())
    }
}

/// What checks have found in an area. An empty fix is none.
struct Findings {
    area: String,
    list: Vec<Finding>,
}

impl Findings {
    fn of(area: impl Into<String>) -> Self {
        Self { area: area.into(), list: Vec::new() }
    }

    fn add(&mut self, verdict: Verdict, text: impl Into<String>, fix: impl Into<String>) {
        let (area, text, fix) = (self.area.clone(), text.into(), Some(fix.into()));
        self.list.push(Finding { area, verdict, text, fix: fix.filter(|fix| !fix.is_empty()) });
    }

    fn ok(&mut self, text: impl Into<String>) {
        self.add(Verdict::Ok, text, "");
    }

    fn unknown(&mut self, text: impl Into<String>, fix: impl Into<String>) {
        self.add(Verdict::Unknown, text, fix);
    }

    fn warn(&mut self, text: impl Into<String>, fix: impl Into<String>) {
        self.add(Verdict::Warn, text, fix);
    }

    fn fail(&mut self, text: impl Into<String>, fix: impl Into<String>) {
        self.add(Verdict::Fail, text, fix);
    }
}

/// The findings so far. As text they are printed at once.
struct Report<'a> {
    findings: Vec<Finding>,
    json: bool,
    out: Out<'a>,
}

impl Report<'_> {
    fn add(&mut self, found: Findings) -> Result<()> {
        for finding in found.list {
            if !self.json {
                if self.findings.last().is_none_or(|last| last.area != finding.area) {
                    writeln!(self.out, "{}", finding.area)?;
                }
                finding.print(self.out)?;
            }
            self.findings.push(finding);
        }
        self.out.flush()?;
        Ok(())
    }

    /// Ends the report. The exit status is 1 if a check failed.
    fn end(self) -> crate::Status {
        let count = |verdict| self.findings.iter().filter(|finding| finding.verdict == verdict).count();
        let [ok, unknown, warn, fail] =
            [Verdict::Ok, Verdict::Unknown, Verdict::Warn, Verdict::Fail].map(count);
        if self.json {
            let checks = &self.findings;
            print::json(
                self.out,
                &json!({"checks": checks, "ok": ok, "unknown": unknown, "warn": warn, "fail": fail}),
            )?;
        } else {
            writeln!(self.out, "{ok} ok, {unknown} not known, {warn} warnings, {fail} failures")?;
        }
        Ok((fail > 0).into())
    }
}

/// Leaves only the RDMA device of this name, or of the function at this address.
fn select(adapters: &mut Adapters, name: &str) -> Result<()> {
    let function = pci::find(name);
    adapters
        .list
        .retain(|adapter| adapter.name == name || (function.is_some() && adapter.function == function));
    match adapters.list.is_empty() {
        true => bail!("no RDMA device {name}"),
        false => Ok(()),
    }
}

/// A transfer between each RDMA device and each memory that a file maps.
fn transfers(machine: &Machine, report: &mut Report<'_>) -> Result<()> {
    let mut nothing = true;
    for adapter in &machine.adapters.list {
        for (memory, path) in
            machine.memories.iter().filter_map(|memory| Some((memory, memory.path.as_ref()?)))
        {
            let mut found = Findings::of("transfers");
            match test::run(&adapter.name, path) {
                Ok(text) => found.ok(format!("{}, {}: {text}", adapter.name, memory.name)),
                Err(text) => {
                    found.fail(format!("{}, {}: {text}", adapter.name, memory.name), "dmesg | grep peer_mem")
                }
            }
            report.add(found)?;
            nothing = false;
        }
    }
    let mut found = Findings::of("transfers");
    if nothing {
        found.warn("nothing to test: no RDMA device, or no memory that a file maps", "");
    }
    report.add(found)
}

/// Checks the machine.
pub(crate) fn doctor(options: &cli::Doctor, out: Out<'_>) -> crate::Status {
    let mut adapters = Adapters::find();
    if let Some(device) = &options.device {
        select(&mut adapters, device)?;
    }
    let machine = Machine { release: Release::running(), adapters, memories: Memory::find(None) };
    let mut report = Report { findings: Vec::new(), json: options.json, out };
    if options.applications {
        applications::check(&machine, &mut report)?;
    } else {
        for (area, check) in CHECKS {
            let mut found = Findings::of(*area);
            check(&machine, &mut found);
            report.add(found)?;
        }
        if options.test {
            transfers(&machine, &mut report)?;
        }
    }
    report.end()
}
