// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm doctor: why does an RDMA device not reach device memory?
//!
//! A check is a function in [`CHECKS`]: from the facts of the [`Machine`] it returns what it found, each with
//! a verdict and, unless all is well, what to do.

mod applications;
mod devices;
mod gpus;
mod kernel;
mod memory;
mod probes;

use crate::{
    cli, pci,
    print::{coloured, Out},
    stack::{Adapters, Memory},
    sys::Release,
    test,
};
use anyhow::{bail, Result};
use serde::Serialize;

/// What the checks look at.
struct Machine {
    release: Release,
    adapters: Adapters,
    memories: Vec<Memory>,
}

/// A check.
type Check = fn(&Machine) -> Vec<Finding>;

/// The checks, in the order of the report, each with its area: a heading in text, a member in JSON.
const CHECKS: &[(&str, Check)] = &[
    ("kernel", kernel::config),
    ("kernel", kernel::lockdown),
    ("kernel", kernel::iommu),
    ("modules", kernel::uverbs),
    ("modules", kernel::core),
    ("modules", kernel::io_peer_mem),
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
    ("routes", memory::partners),
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

/// What a check has found.
#[derive(Serialize)]
struct Finding {
    #[serde(rename = "status")]
    verdict: Verdict,
    text: String,
    fix: Option<String>,
}

impl Finding {
    fn new(verdict: Verdict, text: impl Into<String>) -> Self {
        Self { verdict, text: text.into(), fix: None }
    }

    fn ok(text: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, text)
    }

    fn unknown(text: impl Into<String>) -> Self {
        Self::new(Verdict::Unknown, text)
    }

    fn warn(text: impl Into<String>) -> Self {
        Self::new(Verdict::Warn, text)
    }

    fn fail(text: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, text)
    }

    /// With a command, or in words, what to do.
    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

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

#[derive(Serialize)]
struct Entry {
    area: String,
    #[serde(flatten)]
    finding: Finding,
}

/// The findings so far. As text they are printed at once.
#[derive(Serialize)]
struct Report<'a> {
    checks: Vec<Entry>,
    ok: usize,
    unknown: usize,
    warn: usize,
    fail: usize,
    #[serde(skip)]
    json: bool,
    #[serde(skip)]
    out: Out<'a>,
}

impl<'a> Report<'a> {
    fn new(json: bool, out: Out<'a>) -> Self {
        Self { checks: Vec::new(), ok: 0, unknown: 0, warn: 0, fail: 0, json, out }
    }

    fn add(&mut self, area: &str, findings: Vec<Finding>) -> Result<()> {
        for finding in findings {
            if !self.json {
                if self.checks.last().is_none_or(|last| last.area != area) {
                    writeln!(self.out, "{area}")?;
                }
                finding.print(self.out)?;
            }
            *match finding.verdict {
                Verdict::Ok => &mut self.ok,
                Verdict::Unknown => &mut self.unknown,
                Verdict::Warn => &mut self.warn,
                Verdict::Fail => &mut self.fail,
            } += 1;
            self.checks.push(Entry { area: area.into(), finding });
        }
        self.out.flush()?;
        Ok(())
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
    let (area, before) = ("transfers", report.checks.len());
    for adapter in &machine.adapters.list {
        for memory in &machine.memories {
            let Some(path) = &memory.path else { continue };
            let finding = match test::run(&adapter.name, path) {
                Ok(text) => Finding::ok(format!("{}, {}: {text}", adapter.name, memory.name)),
                Err(text) => Finding::fail(format!("{}, {}: {text}", adapter.name, memory.name))
                    .fix("dmesg | grep peer_mem"),
            };
            report.add(area, vec![finding])?;
        }
    }
    if report.checks.len() == before {
        let nothing = "nothing to test: no RDMA device, or no memory that a file maps";
        report.add(area, vec![Finding::warn(nothing)])?;
    }
    Ok(())
}

/// Checks the machine. The exit status is 1 if a check failed.
pub(crate) fn doctor(options: &cli::Doctor, out: Out<'_>) -> crate::Status {
    let mut adapters = Adapters::find();
    if let Some(device) = &options.device {
        select(&mut adapters, device)?;
    }
    let machine = Machine { release: Release::running(), adapters, memories: Memory::find(None) };
    let mut report = Report::new(options.json, out);
    if options.applications {
        applications::check(&machine, &mut report)?;
    } else {
        for (area, check) in CHECKS {
            report.add(area, check(&machine))?;
        }
        if options.test {
            transfers(&machine, &mut report)?;
        }
    }
    let text = serde_json::to_string_pretty(&report)?;
    let Report { ok, unknown, warn, fail, json, out, .. } = report;
    if json {
        writeln!(out, "{text}")?;
    } else {
        writeln!(out, "{ok} ok, {unknown} not known, {warn} warnings, {fail} failures")?;
    }
    Ok((fail > 0).into())
}
