// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! What applications look at before they use memory of a GPU, looked at in the same way.

use super::*;
use crate::verbs::Device;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Look {
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

#[derive(Clone, Copy, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The file to look into does not exist.
    NothingThere,
    Missing,
    /// iopm cannot look.
    NotKnown,
    Found,
}

use Outcome::{Found, Missing, NotKnown, NothingThere};

/// What a look has found, and in words.
type Seen = (Outcome, String);

/// Looks, and keeps what takes long.
pub(super) struct Prober<'a> {
    pub(super) machine: &'a Machine,
    /// The places of the kernel's configuration.
    configs: Vec<String>,
    symbols: io::Result<String>,
    imports: Seen,
}

/// "A, B or C".
fn alternatives(texts: &[String]) -> String {
    match texts {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => texts.concat(),
    }
}

/// Says which of the texts a place has: all of them are wanted, or `any`.
fn compare(place: &str, texts: &[String], any: bool, has: impl Fn(&str) -> bool) -> Seen {
    let (there, not): (Vec<_>, Vec<_>) = texts.iter().map(String::as_str).partition(|text| has(text));
    if not.is_empty() || (any && !there.is_empty()) {
        return (Found, format!("{place} has {}", there.join(", ")));
    }
    (Missing, format!("{place} does not have {}", not.join(", ")))
}

impl<'a> Prober<'a> {
    pub(super) fn new(machine: &'a Machine, configs: &[String]) -> Self {
        let configs = configs.iter().map(|path| path.replace("{release}", &machine.release.name)).collect();
        let (symbols, imports) = (sys::read("/proc/kallsyms"), imports(&machine.adapters.list));
        Self { machine, configs, symbols, imports }
    }

    /// Looks, and says what was looked at.
    pub(super) fn look(&self, look: &Look) -> Seen {
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
            Look::Import => self.imports.clone(),
            Look::VariableIs(name, text) => variable(name, text, true),
            Look::VariableIsNot(name, text) => variable(name, text, false),
            Look::Nothing => (Found, "looks at nothing, and registers by address".into()),
            Look::OfTheGpu(name) => (NotKnown, format!("{name}: only the library of the GPU answers")),
        }
    }

    fn symbols(&self, texts: &[String], any: bool) -> Seen {
        match &self.symbols {
            Ok(symbols) => compare("/proc/kallsyms", texts, any, |text| symbols.contains(text)),
            Err(error) => (NothingThere, format!("/proc/kallsyms: {}", cause(error))),
        }
    }

    fn config(&self, lines: &[String], all_places: bool) -> Seen {
        let places = if all_places { &self.configs[..] } else { &self.configs[..1] };
        if let Some((path, config)) = places.iter().find_map(|path| Some((path, sys::read(path).ok()?))) {
            return compare(path, lines, false, |text| config.lines().any(|line| line == text));
        }
        match all_places {
            false => (NothingThere, format!("there is no {}", places[0])),
            true if sys::exists("/proc/config.gz") => {
                let text = "the kernel's configuration is in /proc/config.gz, which iopm does not read";
                (NotKnown, text.into())
            }
            true => (NothingThere, "there is no file of the kernel's configuration".into()),
        }
    }

    fn device_name(&self, texts: &[String]) -> Seen {
        let mut names = self.machine.adapters.list.iter().map(|adapter| &adapter.name);
        let known = names.find_map(|name| Some((name, texts.iter().find(|text| name.contains(*text))?)));
        match known {
            Some((name, text)) => (Found, format!("{name} is the name of an RDMA device that has {text}")),
            None => (Missing, format!("no RDMA device has a name with {}", alternatives(texts))),
        }
    }
}

fn imports(adapters: &[Adapter]) -> Seen {
    let (mut outcome, mut texts) = (Missing, Vec::new());
    for Adapter { name, .. } in adapters {
        let (of_device, text) = match Device::open(name).map(|device| device.imports_dma_bufs()) {
            Ok(true) => (Found, "imports dma-bufs"),
            Ok(false) => (Missing, "imports no dma-bufs"),
            Err(_) => (NotKnown, "cannot be opened"),
        };
        outcome = outcome.max(of_device);
        texts.push(format!("{name} {text}"));
    }
    if texts.is_empty() {
        texts.push("there is no RDMA device that imports dma-bufs".into());
    }
    (outcome, texts.join(", "))
}

fn any_directory(dirs: &[String]) -> Seen {
    let is_dir = |path: &String| sys::path(path).is_dir();
    match dirs.iter().find_map(|dir| Some((dir, sys::files(dir.clone()).find(is_dir)?))) {
        Some((dir, path)) => (Found, format!("{dir} has the directory {}", &path[dir.len() + 1..])),
        None => (Missing, format!("there is no directory in {}", alternatives(dirs))),
    }
}

fn variable(name: &str, text: &str, wanted: bool) -> Seen {
    let value = env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let is = value.as_ref().is_some_and(|value| value.starts_with(text));
    let said = value.map_or(format!("{name} is not set"), |value| format!("{name}={value}"));
    (if is == wanted { Found } else { Missing }, format!("{said} in this environment"))
}
