// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The kernel's modules. Applications take ib_peer_mem, once it is loaded, for device memory that can be
//! registered: it is loaded for a bind, and unloaded after the last one.

use crate::prelude::*;
use rustix::{fs::OFlags, system::delete_module};
use std::ffi::CString;

const REGISTER: &str = "ib_register_peer_memory_client";

pub(crate) fn is_loaded(module: &str) -> bool {
    sys::exists(format!("/sys/module/{module}/refcnt"))
}

/// Returns the line of the module in a list of the running kernel's: PATH/NAME.ko[.xz]: DEPENDENCY...
fn line_of(module: &str, list: &str) -> Option<String> {
    let list = sys::read(format!("/lib/modules/{}/{list}", Release::running().name)).ok()?;
    let file = format!("/{module}.ko");
    let has = |line: &&str| line.split(':').next().is_some_and(|path| path.contains(&file));
    list.lines().find(has).map(str::to_owned)
}

pub(crate) fn is_installed(module: &str) -> bool {
    line_of(module, "modules.dep").is_some()
}

pub(crate) fn is_builtin(module: &str) -> bool {
    line_of(module, "modules.builtin").is_some()
}

/// Returns whether an installed module uses symbols of another one.
pub(crate) fn depends_on(module: &str, other: &str) -> bool {
    line_of(module, "modules.dep").is_some_and(|line| line.contains(&format!("/{other}.ko")))
}

/// Returns the module, other than ib_peer_mem, that is loaded and exports the functions of its API, as those
/// of some vendors do: the kernel then refuses ib_peer_mem. It may be a part of the kernel.
pub(crate) fn other_exporter() -> Option<String> {
    if is_loaded("ib_peer_mem") {
        return None;
    }
    let symbols = sys::read("/proc/kallsyms").unwrap_or_default();
    // ADDRESS T NAME[\t[MODULE]]
    let line = symbols.lines().find(|line| line.split_whitespace().nth(2) == Some(REGISTER))?;
    let module = line.split_whitespace().nth(3).map(|module| module.trim_matches(['[', ']']));
    Some(module.unwrap_or("the kernel itself").to_owned())
}

/// Returns the module that depmod(8) has chosen for clients, if that is another than ib_peer_mem.
pub(crate) fn other_installed_exporter() -> Option<String> {
    let symbols = sys::read(format!("/lib/modules/{}/modules.symbols", Release::running().name)).ok()?;
    let alias = format!("alias symbol:{REGISTER} ");
    let module = symbols.lines().find_map(|line| line.strip_prefix(&alias))?;
    (module != "ib_peer_mem").then(|| module.to_owned())
}

/// Returns the modules that use the symbols of this one.
pub(crate) fn holders(module: &str) -> Vec<String> {
    sys::names(format!("/sys/module/{module}/holders"))
}

/// Loads a module with parameters, NAME=VALUE, and what it depends on, unless it is loaded.
pub(crate) fn load(module: &str, parameters: &[String]) -> Result<()> {
    if is_loaded(module) {
        return Ok(());
    }
    let modprobe = sys::path("/sbin/modprobe");
    // Another root is no machine, but may have a program that stands for it.
    ensure!(sys::root().is_none() || modprobe.exists(), "{module} is not loaded: modprobe {module}");
    let status = Command::new(modprobe).arg(module).args(parameters).status();
    if !status.is_ok_and(|status| status.success()) {
        let why = other_exporter().map(|other| format!(": {other} exports {REGISTER}")).unwrap_or_default();
        bail!("{module} is not loaded, and modprobe has failed{why}");
    }
    Ok(())
}

/// Unloads a module. Fails with `EWOULDBLOCK` if it is in use.
pub(crate) fn unload(module: &str) -> io::Result<()> {
    // As in load().
    if sys::root().is_some() {
        let status = Command::new(sys::path("/sbin/modprobe")).args(["-r", module]).status()?;
        return if status.success() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) };
    }
    let name = CString::new(module)?;
    Ok(delete_module(&name, OFlags::NONBLOCK.bits() as i32)?)
}

/// Returns whether the administrator has the module loaded at boot.
fn is_loaded_at_boot(module: &str) -> bool {
    let dirs = ["/etc", "/run", "/usr/local/lib", "/usr/lib"].into_iter();
    let files = dirs.flat_map(|dir| sys::files(format!("{dir}/modules-load.d")));
    // Either sign separates the words of a name.
    let is_module = |name: &str| name.replace('-', "_") == module;
    // After the name /etc/modules has parameters.
    let has = |file| {
        let text = sys::read(file).unwrap_or_default();
        text.lines().any(|line| line.split_whitespace().next().is_some_and(is_module))
    };
    let command_line = sys::read("/proc/cmdline").unwrap_or_default();
    let words = command_line.split_whitespace().map(|word| word.strip_prefix("rd.").unwrap_or(word));
    let mut lists = words.filter_map(|word| word.strip_prefix("modules_load="));
    lists.any(|list| list.split(',').any(is_module)) || files.chain(["/etc/modules".into()]).any(has)
}

/// Returns whether the parameters of io_peer_mem name more than the functions that are bound one by one:
/// functions that may come later, or memory of other drivers.
fn is_configured() -> bool {
    ["ids", "devices", "mmio", "p2pmem"].iter().any(|name| {
        let value = sys::line(format!("/sys/module/io_peer_mem/parameters/{name}")).unwrap_or_default();
        !["", "0", "n", "N"].contains(&value.as_str())
    })
}

/// Unloads io_peer_mem if no function is bound and its parameters name no other memory, and then (`core`)
/// ib_peer_mem if nothing else uses it. What the administrator has loaded at boot stays. Names of memory, which are
/// lost with ib_peer_mem, do not count as a use, and the kernel has no list of them: a process with a shared
/// library that makes names may have some. One without, by the crate or the ioctl, is not seen.
pub(crate) fn unload_unused(core: bool) {
    // Functions are the only names with a colon.
    let bound = sys::names("/sys/bus/pci/drivers/io_peer_mem").iter().any(|name| name.contains(':'));
    // A module that is in use stays.
    let unload =
        |module: &str| !is_loaded(module) || (!is_loaded_at_boot(module) && self::unload(module).is_ok());
    if !bound && !is_configured() && unload("io_peer_mem") && core && gpu::processes("/libiopm").is_empty() {
        unload("ib_peer_mem");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_are_loaded_at_boot() -> Result<()> {
        let root = tempfile::tempdir()?;
        for (file, text) in [
            ("modules-load.d/a.conf", "# ib_core\nib-uverbs"),
            ("modules-load.d/b.conf", "io_peer_mem"),
            ("modules", "ib_peer_mem backend=auto\n"),
        ] {
            let path = root.path().join("etc").join(file);
            std::fs::create_dir_all(path.with_file_name(""))?;
            std::fs::write(path, text)?;
        }
        sys::set_root(root.path().into());
        for module in ["ib_uverbs", "io_peer_mem", "ib_peer_mem"] {
            assert!(is_loaded_at_boot(module), "{module}");
        }
        assert!(!is_loaded_at_boot("ib_core"));
        Ok(())
    }
}
