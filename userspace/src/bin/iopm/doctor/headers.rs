// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The kernels that the modules are for, and what a build of the modules needs of a kernel's headers:
//! kernels.json.

use super::*;
use std::env::consts::ARCH;

/// kernels.json. In commands {release}, {series} and {arch} stand for those of the machine.
#[derive(Deserialize)]
pub(super) struct Kernels {
    /// As in scripts/kernels.
    pub(super) series: Vec<String>,
    /// What installs a kernel with Rust, by the code name of the distribution's release.
    kernels: BTreeMap<String, String>,
    /// What the headers have, if the modules can be built with them as they are.
    headers: Vec<Header>,
    /// By the ID of the distribution.
    systems: BTreeMap<String, System>,
}

#[derive(Deserialize)]
struct Header {
    file: String,
    what: String,
    /// Where it is needed; `None`: everywhere.
    machine: Option<String>,
}

#[derive(Deserialize)]
struct System {
    /// What installs the modules, which are in no archive.
    install: String,
    headers: String,
    /// What to do about files that they lack.
    lacking: String,
    /// What DKMS makes the files of.
    source: Option<String>,
}

fn os_release(setting: &str) -> Vec<String> {
    let text = sys::read("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(setting)?.strip_prefix('='));
    line.unwrap_or_default().trim_matches('"').split_whitespace().map(str::to_owned).collect()
}

/// Returns the name that Debian's packages have for this architecture.
pub(super) fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn filled(command: &str, release: &Release) -> String {
    command
        .replace("{release}", &release.name)
        .replace("{series}", &series(release))
        .replace("{arch}", architecture())
}

/// Returns the series of a release, as 7.3.
pub(super) fn series(release: &Release) -> String {
    let (major, minor) = release.version;
    format!("{major}.{minor}")
}

impl Kernels {
    pub(super) fn read() -> Self {
        serde_json::from_str(include_str!("kernels.json")).expect("kernels.json is a table of kernels")
    }

    /// How one gets a kernel with Rust: not every release of a distribution has it, or without backports.
    pub(super) fn with_rust(&self, release: &Release) -> String {
        let command = os_release("VERSION_CODENAME").pop().and_then(|name| self.kernels.get(&name));
        command.map_or_else(
            || "a kernel with CONFIG_RUST, as Debian 13 has in its backports, and Debian 14".into(),
            |command| filled(command, release),
        )
    }

    /// What installs the modules.
    pub(super) fn install(&self) -> &str {
        self.system().map_or("make install, as Documentation/install.rst says", |system| &system.install)
    }

    fn system(&self) -> Option<&System> {
        let mut names = os_release("ID");
        names.extend(os_release("ID_LIKE"));
        names.iter().find_map(|name| self.systems.get(name))
    }
}

/// The headers of the running kernel, if it has no modules yet.
pub(super) fn headers(machine: &Machine, found: &mut Findings<'_>) {
    let release = &machine.release;
    let (table, name) = (Kernels::read(), &release.name);
    let is_of_another = !table.series.contains(&series(release));
    if is_of_another || is_loaded("ib_peer_mem") || modules::is_installed("ib_peer_mem") {
        return;
    }
    let system = table.system();
    let fix = |command: fn(&System) -> &String| {
        system.map_or_else(String::new, |system| filled(command(system), release))
    };
    let build = format!("/lib/modules/{name}/build");
    if sys::entries(&build).is_empty() {
        return warn!(found, fix(|of| &of.headers), "the headers of Linux {name} are not installed");
    }
    let needed = table.headers.iter().filter(|of| of.machine.as_deref().is_none_or(|name| name == ARCH));
    // As in dkms/kernel-tree: a tree may be beside its source.
    let makefile = sys::read(format!("{build}/Makefile")).unwrap_or_default();
    let source = makefile.lines().find_map(|line| line.strip_prefix("include ")?.strip_suffix("/Makefile"));
    let exists = |place: &str, header: &Header| sys::exists(format!("{place}/{}", header.file));
    let lacking = needed.filter(|of| !exists(&build, of) && !source.is_some_and(|source| exists(source, of)));
    let lacking: Vec<_> = lacking.map(|header| format!("{} ({})", header.file, header.what)).collect();
    if lacking.is_empty() {
        return ok!(found, "the headers of Linux {name} have what modules in Rust need");
    }
    let lacking = lacking.join(", ");
    let source = system.and_then(|system| system.source.as_ref()).map(|source| filled(source, release));
    match source.filter(|source| sys::exists(source)) {
        Some(source) => ok!(found, "the headers of Linux {name} lack {lacking}: DKMS makes them of {source}"),
        None => warn!(found, fix(|of| &of.lacking), "the headers of Linux {name} lack {lacking}"),
    }
}
