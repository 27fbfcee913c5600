// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm stop, start: unloads ib_peer_mem and its clients before the RDMA stack is stopped, and loads them
//! again. What stops a stack knows its own modules alone, and fails at one that it does not know.

use crate::{
    bind::{bind_with, other_driver},
    modules::{holders, load, unload},
    prelude::*,
};

/// What stop has unloaded, until start has loaded it.
const STATE: &str = "/run/iopm/stopped";

const IN_USE: u8 = 3;

#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Stopped {
    /// In the order in which they were unloaded, with their parameters.
    pub(crate) modules: Vec<(String, Vec<String>)>,
    /// The functions that io_peer_mem had, with their BARs.
    functions: Vec<(String, String)>,
    clients: Vec<String>,
}

impl Stopped {
    /// Returns what is to be loaded again; `None` if nothing is.
    pub(crate) fn read() -> Option<Self> {
        serde_json::from_str(&sys::read(STATE).ok()?).ok()
    }

    /// Returns what is there, and what an earlier stop has unloaded and start could not load.
    fn begin() -> Self {
        let mut stopped = Self::read().unwrap_or_default();
        stopped.modules.retain(|(module, _)| !is_loaded(module));
        let bound = Function::all().filter(Function::is_of_io_peer_mem).map(|function| function.name);
        for name in bound {
            stopped.functions.retain(|(other, _)| *other != name);
            stopped.functions.push((name.clone(), bars(&name)));
        }
        stopped.clients.extend(sys::names(PEERS));
        stopped.clients.sort();
        stopped.clients.dedup();
        stopped
    }

    fn write(&self) -> Result<()> {
        fs::create_dir_all(sys::path("/run/iopm")).at("/run/iopm")?;
        sys::write_output(&sys::path(STATE), serde_json::to_string(self)?.as_bytes())
    }

    /// Loads all again, but a function that another driver has now, or will have, is forgotten. Returns whether all
    /// else is as it was; what is not is said.
    fn restore(&mut self, out: Out<'_>) -> Result<bool> {
        let mut whole = true;
        let mut failed = |text: String| {
            whole = false;
            writeln!(out, "{text}")
        };
        for (module, parameters) in self.modules.iter().rev() {
            if let Err(error) = load(module, parameters) {
                failed(error.to_string())?;
            }
        }
        self.functions.retain(|(name, _)| {
            let driver = Function::read(name).as_ref().and_then(other_driver);
            driver.map(|driver| complain(format_args!("{name} is left to the driver {driver}"))).is_none()
        });
        self.write()?;
        for (name, bars_before) in &self.functions {
            if let Err(error) = bind_again(name, bars_before) {
                failed(error.to_string())?;
            }
        }
        let mut now = sys::names(PEERS);
        if self.functions.is_empty() {
            // It is a client only while it has memory.
            now.push("io_peer_mem".into());
        }
        for client in self.clients.iter().filter(|client| !now.contains(client)) {
            failed(format!("the client {client} is not registered again"))?;
        }
        Ok(whole)
    }
}

/// Returns the BARs of a function that io_peer_mem has bound, as `2,4`.
fn bars(function: &str) -> String {
    let names = sys::names(format!("/dev/io_peer_mem/{function}"));
    names.iter().filter_map(|name| name.strip_prefix("bar")).collect::<Vec<_>>().join(",")
}

/// Binds a function with the BARs that it had, unless the parameters of the module have done that.
fn bind_again(name: &str, bars_before: &str) -> Result<()> {
    if bars(name) == bars_before || !is_loaded("io_peer_mem") {
        return Ok(());
    }
    let function = Function::read(name).with_context(|| format!("no PCI function {name}"))?;
    bind_with(&function, Some(bars_before))
}

/// Returns the parameters that a module of this project has, NAME=VALUE. Those of others are in modprobe.d.
fn parameters(module: &str) -> Vec<String> {
    if !matches!(module, "ib_peer_mem" | "io_peer_mem") {
        return Vec::new();
    }
    let dir = format!("/sys/module/{module}/parameters");
    let names = sys::names(&dir).into_iter();
    names
        .filter_map(|name| {
            let value = sys::line(format!("{dir}/{name}"))?;
            (!matches!(&*value, "" | "(null)")).then(|| format!("{name}={value}"))
        })
        .collect()
}

/// Returns ib_peer_mem and the modules that use it, each after all that use it.
fn modules() -> Vec<String> {
    fn add(module: &str, list: &mut Vec<String>) {
        for holder in holders(module) {
            add(&holder, list);
        }
        if !list.iter().any(|name| name == module) {
            list.push(module.to_owned());
        }
    }
    let mut list = Vec::new();
    if is_loaded("ib_peer_mem") {
        add("ib_peer_mem", &mut list);
    }
    list
}

/// Returns the processes that have a file of this directory open or mapped, as far as the caller may look.
fn processes_with(dir: &str) -> Vec<String> {
    let has = |pid: &String| {
        let links = format!("/proc/{pid}/fd");
        let open = sys::entries(&links).iter().any(|link| {
            let file = fs::read_link(sys::path(&links).join(link));
            file.is_ok_and(|file| file.starts_with(dir))
        });
        open || gpu::maps(pid).any(|line| String::from_utf8_lossy(&line).contains(dir))
    };
    let name = |pid: String| {
        let name = sys::line(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{name} (pid {pid}) has {dir} open")
    };
    sys::processes().filter(has).map(name).collect()
}

fn users(module: &str) -> Vec<String> {
    let mut users: Vec<_> = holders(module).into_iter().map(|holder| format!("module {holder}")).collect();
    users.extend(processes_with(&format!("/dev/{module}")));
    if module == "ib_peer_mem" && users.is_empty() {
        // A client that has found the functions by symbol_get() is no user of symbols.
        let clients = sys::names(PEERS).into_iter();
        users.extend(clients.map(|client| format!("client {client}, whose driver has to be unloaded")));
    }
    users
}

fn registered() -> Vec<String> {
    let regions = Region::all().unwrap_or_default();
    let live = regions.iter().filter(|region| region.state != "revoked");
    live.map(|Region { pid, process, client, device, length, .. }| {
        format!("{process} (pid {pid}) has {} of {client} registered with {device}", size(*length))
    })
    .collect()
}

/// What of this project and of its clients is in the way of what stops the RDMA stack: the modules, and
/// who keeps them.
pub(crate) fn in_the_way() -> (Vec<String>, Vec<String>) {
    let modules = modules();
    let mut users: Vec<_> =
        modules.iter().flat_map(|module| processes_with(&format!("/dev/{module}"))).collect();
    users.extend(registered());
    (modules, users)
}

pub(crate) fn stop(force: bool, out: Out<'_>) -> Status {
    ensure!(sys::root().is_none(), "another root is no machine");
    let modules = modules();
    if modules.is_empty() {
        writeln!(out, "ib_peer_mem is not loaded")?;
        return Ok(0);
    }
    let regions = registered();
    if !force && !regions.is_empty() {
        writeln!(out, "memory is registered (--force revokes it):\n  {}", regions.join("\n  "))?;
        return Ok(IN_USE);
    }
    let mut stopped = Stopped::begin();
    for module in modules {
        let parameters = parameters(&module);
        // Before the module goes: whatever happens then, start loads it.
        stopped.modules.push((module.clone(), parameters));
        stopped.write()?;
        let Err(error) = unload(&module) else {
            writeln!(out, "{module} is unloaded")?;
            continue;
        };
        let mut users = users(&module);
        if users.is_empty() {
            users.push(format!("a user that cannot be seen ({})", cause(&error)));
        }
        writeln!(out, "Module {module} is in use by:\n  {}", users.join("\n  "))?;
        if stopped.restore(out)? {
            fs::remove_file(STATE).at(STATE)?;
            writeln!(out, "what was unloaded is loaded again")?;
        }
        return Ok(IN_USE);
    }
    writeln!(out, "after the start of the stack: iopm start")?;
    Ok(0)
}

pub(crate) fn start(out: Out<'_>) -> Status {
    let Some(mut stopped) = Stopped::read() else {
        writeln!(out, "nothing was unloaded by \"iopm stop\"")?;
        return Ok(0);
    };
    if !stopped.restore(out)? {
        return Ok(1);
    }
    fs::remove_file(sys::path(STATE)).at(STATE)?;
    let clients = stopped.clients.join(", ");
    let with = if clients.is_empty() { String::new() } else { format!(", with the clients {clients}") };
    writeln!(out, "loaded{with}")?;
    Ok(0)
}
