// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! What applications look at before they use memory of a GPU, looked at in the same way.

use super::Machine;
use crate::{
    sys::{self, cause},
    verbs::Device,
};
use serde::Deserialize;
use std::{cell::OnceCell, env, io};

/// A place that an application looks at.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Look {
    /// One of the files exists.
    AnyFile(Vec<String>),
    /// One of the directories has a subdirectory.
    AnyDirectory(Vec<String>),
    /// A line of /proc/kallsyms has one of the texts.
    AnySymbol(Vec<String>),
    /// The lines of /proc/kallsyms have all of the texts.
    AllSymbols(Vec<String>),
    /// /boot/config-RELEASE has all of the lines.
    BootConfig(Vec<String>),
    /// The first configuration of the kernel in many places has all of them.
    AnyConfig(Vec<String>),
    /// The name of an RDMA device has one of the texts.
    DeviceName(Vec<String>),
    /// An RDMA device imports dma-bufs.
    Import,
    /// The environment variable begins with the text.
    VariableIs(String, String),
    /// The opposite, also without the variable.
    VariableIsNot(String, String),
    /// It registers by address, whatever there is.
    Nothing,
    /// Only the library of the GPU answers.
    OfTheGpu(String),
}

/// The result of a look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Missing,
    Found,
    /// The file to look into does not exist.
    NothingThere,
    /// iopm cannot look.
    NotKnown,
}

use Outcome::{Found, Missing, NotKnown, NothingThere};

/// Looks, and keeps what takes long.
pub(super) struct Prober<'a> {
    machine: &'a Machine,
    symbols: OnceCell<io::Result<String>>,
    imports: OnceCell<(Outcome, String)>,
}

/// "A, B or C".
fn alternatives(texts: &[String]) -> String {
    match texts {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => texts.concat(),
    }
}

fn either(found: bool) -> Outcome {
    if found {
        Found
    } else {
        Missing
    }
}

impl<'a> Prober<'a> {
    pub(super) fn new(machine: &'a Machine) -> Self {
        Self { machine, symbols: OnceCell::new(), imports: OnceCell::new() }
    }

    /// Looks, and says what was looked at, and what was found.
    pub(super) fn look(&self, look: &Look) -> (Outcome, String) {
        match look {
            Look::AnyFile(files) => match files.iter().find(|file| sys::exists(file)) {
                Some(file) => (Found, format!("{file} exists")),
                None => (Missing, format!("there is no {}", alternatives(files))),
            },
            Look::AnyDirectory(dirs) => any_directory(dirs),
            Look::AnySymbol(texts) => self.symbols(texts, true),
            Look::AllSymbols(texts) => self.symbols(texts, false),
            Look::BootConfig(lines) => self.config(lines, false),
            Look::AnyConfig(lines) => self.config(lines, true),
            Look::DeviceName(texts) => self.device_name(texts),
            Look::Import => self.imports.get_or_init(|| self.imports()).clone(),
            Look::VariableIs(name, text) => variable(name, text, true),
            Look::VariableIsNot(name, text) => variable(name, text, false),
            Look::Nothing => (Found, "looks at nothing, and registers by address".into()),
            Look::OfTheGpu(name) => (NotKnown, format!("{name}: only the library of the GPU answers")),
        }
    }

    fn symbols(&self, texts: &[String], any: bool) -> (Outcome, String) {
        let symbols = match self.symbols.get_or_init(|| sys::read("/proc/kallsyms")) {
            Ok(symbols) => symbols,
            Err(error) => return (NothingThere, format!("/proc/kallsyms: {}", cause(error))),
        };
        let (there, not): (Vec<_>, Vec<_>) =
            texts.iter().map(String::as_str).partition(|text| symbols.contains(text));
        if if any { !there.is_empty() } else { not.is_empty() } {
            return (Found, format!("/proc/kallsyms has {}", there.join(", ")));
        }
        (Missing, format!("/proc/kallsyms does not have {}", not.join(", ")))
    }

    fn config(&self, wanted: &[String], all_places: bool) -> (Outcome, String) {
        let release = &self.machine.release.name;
        // In the order of RCCL, but for /proc/config.gz.
        let places = [
            format!("/boot/config-{release}"),
            format!("/usr/src/linux-{release}/.config"),
            format!("/usr/lib/modules/{release}/config"),
            format!("/usr/lib/ostree-boot/config-{release}"),
            format!("/usr/lib/kernel/config-{release}"),
            format!("/usr/src/linux-headers-{release}/.config"),
            format!("/lib/modules/{release}/build/.config"),
        ];
        let places = if all_places { &places[..] } else { &places[..1] };
        let Some((path, config)) = places.iter().find_map(|path| Some((path, sys::read(path).ok()?))) else {
            return match all_places {
                true if sys::exists("/proc/config.gz") => {
                    let text = "the kernel's configuration is in /proc/config.gz, which iopm does not read";
                    (NotKnown, text.into())
                }
                true => (NothingThere, "there is no file of the kernel's configuration".into()),
                false => (NothingThere, format!("there is no {}", places[0])),
            };
        };
        let has = |text: &&str| config.lines().any(|line| line == *text);
        let (there, not): (Vec<_>, Vec<_>) = wanted.iter().map(String::as_str).partition(has);
        match not.is_empty() {
            true => (Found, format!("{path} has {}", there.join(", "))),
            false => (Missing, format!("{path} does not have {}", not.join(", "))),
        }
    }

    fn device_name(&self, texts: &[String]) -> (Outcome, String) {
        let names = self.machine.adapters.list.iter().map(|adapter| &adapter.name);
        let mut pairs = names.flat_map(|name| texts.iter().map(move |text| (name, text)));
        match pairs.find(|(name, text)| name.contains(text.as_str())) {
            Some((name, text)) => (Found, format!("{name} is the name of an RDMA device that has {text}")),
            None => (Missing, format!("no RDMA device has a name with {}", alternatives(texts))),
        }
    }

    fn imports(&self) -> (Outcome, String) {
        let names = self.machine.adapters.list.iter().map(|adapter| &adapter.name);
        let devices: Vec<_> = names
            .map(|name| match Device::open(name).map(|device| device.imports_dma_bufs()) {
                Ok(true) => (Found, format!("{name} imports dma-bufs")),
                Ok(false) => (Missing, format!("{name} imports no dma-bufs")),
                Err(_) => (NotKnown, format!("{name} cannot be opened")),
            })
            .collect();
        if devices.is_empty() {
            return (Missing, "there is no RDMA device that imports dma-bufs".into());
        }
        let outcomes = [Found, NotKnown, Missing];
        let outcome = outcomes.into_iter().find(|outcome| devices.iter().any(|device| device.0 == *outcome));
        let texts: Vec<_> = devices.iter().map(|device| device.1.as_str()).collect();
        (outcome.unwrap_or(Missing), texts.join(", "))
    }
}

fn any_directory(dirs: &[String]) -> (Outcome, String) {
    let entries = dirs.iter().flat_map(|dir| sys::names(dir).into_iter().map(move |name| (dir, name)));
    let mut found = entries.filter(|(dir, name)| sys::path(format!("{dir}/{name}")).is_dir());
    match found.next() {
        Some((dir, name)) => (Found, format!("{dir} has the directory {name}")),
        None => (Missing, format!("there is no directory in {}", alternatives(dirs))),
    }
}

fn variable(name: &str, text: &str, wanted: bool) -> (Outcome, String) {
    let value = env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let is = value.as_ref().is_some_and(|value| value.starts_with(text));
    let said = match value {
        Some(value) => format!("{name}={value} in this environment"),
        None => format!("{name} is not set in this environment"),
    };
    (either(is == wanted), said)
}
