// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm bind, unbind: one function, by its driver_override.

use crate::{candidates::section_size, prelude::*};

const DRIVER: &str = "/sys/bus/pci/drivers/io_peer_mem";

fn find(text: &str) -> Result<Function> {
    let address = pci::parse(text)
        .with_context(|| format!("{text} is no address of a PCI function, as 0000:03:00.0"))?;
    Function::read(&address.to_string()).with_context(|| format!("no PCI function {address}"))
}

/// Returns the driver that the function is for by its driver_override.
fn overridden(name: &str) -> Option<String> {
    sys::line(pci::file(name, "driver_override")).filter(|driver| !matches!(&**driver, "" | "(null)"))
}

/// Returns the driver, other than io_peer_mem, that has the function, or that it is for if none has it.
pub(crate) fn other_driver(function: &Function) -> Option<String> {
    let driver = function.driver.clone().or_else(|| overridden(&function.name));
    driver.filter(|driver| driver != "io_peer_mem")
}

/// Fails unless another driver may lose the function.
fn check_free(function: &Function, force: bool) -> Result<()> {
    let (name, driver) = (&function.name, function.driver.as_deref());
    if let Some(user) = function.user(true) {
        bail!("{name} is in use: {user} (driver {})", driver.unwrap_or("none"));
    }
    if let Some(driver) = driver.filter(|_| !force) {
        bail!("{name} belongs to the driver {driver}; with --force it is unbound from it");
    }
    if let Some(other) = overridden(name).filter(|other| !force && other != "io_peer_mem") {
        bail!("{name} is for the driver {other}, by its driver_override; with --force that is replaced");
    }
    Ok(())
}

/// Fails unless io_peer_mem can have the function.
fn check(function: &Function, bar: Option<u8>) -> Result<()> {
    let name = &function.name;
    ensure!(!function.is_bridge(), "{name} is a bridge");
    let mut usable = function.bars.iter().enumerate().filter(|(_, bar)| bar.is_usable());
    let sections = section_size() >> 20;
    match bar {
        Some(bar) => ensure!(
            usable.any(|(i, _)| i == usize::from(bar)),
            "BAR {bar} of {name} is not memory in whole sections of {sections} MiB"
        ),
        None => ensure!(
            usable.any(|(_, bar)| function.is_memory() && bar.prefetchable),
            "{name} has no BAR that is memory by its class; \"iopm candidates\" shows its BARs, --bar selects one"
        ),
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    sys::write(file, text).map_err(|error| {
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        let hint = if denied { "\n  run it as root" } else { "" };
        anyhow!("{}: {}{hint}", file.display(), cause(&error))
    })
}

/// Has io_peer_mem bind the function, with these BARs, as `2,4`, for it alone: the driver takes them with its
/// address, so they apply to no other function, whatever happens to this process.
pub(crate) fn bind_with(function: &Function, bars: Option<&str>) -> Result<()> {
    let name = &function.name;
    let driver_override = pci::file(name, "driver_override");
    // A bind that was killed may have left its override to a function that another driver has.
    let is_former = |driver: &String| driver != "io_peer_mem" || other_driver(function).is_none();
    let former = overridden(name).filter(is_former).unwrap_or_default();
    write(&driver_override, "io_peer_mem\n")?;
    let begin = || -> Result<()> {
        if function.driver.is_some() {
            write(&pci::file(name, "driver/unbind"), name)?;
        }
        let bound = match bars {
            None => sys::write(format!("{DRIVER}/bind"), name),
            Some(bars) => sys::write(format!("{DRIVER}/bind_with"), &format!("{name} bars={bars}")),
        };
        bound.map_err(|error| anyhow!("bind {name}: {}\n  the kernel log has the cause", cause(&error)))
    };
    begin().inspect_err(|_| {
        // The driver that had it may have it again.
        let _ = sys::write(&driver_override, &format!("{former}\n"));
        if function.driver.is_some() {
            let _ = sys::write("/sys/bus/pci/drivers_probe", name);
        }
    })
}

/// Loads the driver and binds the function, unless it is bound. Returns the rest of the message.
fn load_and_bind(name: &str, bar: Option<u8>) -> Result<&'static str> {
    modules::load("io_peer_mem", &[])?;
    let function = find(name)?;
    // Its parameter ids or devices may name the function.
    if function.is_of_io_peer_mem() {
        let is_served = |bar| sys::exists(format!("/dev/io_peer_mem/{name}/bar{bar}"));
        ensure!(bar.is_none_or(is_served), "{name} is bound with other BARs: iopm unbind {name} first");
        return Ok(" already");
    }
    if bar.is_some() && !sys::exists(format!("{DRIVER}/bind_with")) {
        bail!("the io_peer_mem that is loaded is older than iopm: there is no {DRIVER}/bind_with");
    }
    bind_with(&function, bar.map(|bar| bar.to_string()).as_deref())?;
    Ok(" to io_peer_mem")
}

pub(crate) fn bind(text: &str, bar: Option<u8>, force: bool, out: Out<'_>) -> Status {
    let function = find(text)?;
    let name = &function.name;
    if !function.is_of_io_peer_mem() {
        check_free(&function, force)?;
        check(&function, bar)?;
    }
    // Of the two modules, one that was loaded before stays.
    let [had_core, had_driver] = ["ib_peer_mem", "io_peer_mem"].map(is_loaded);
    let bound = load_and_bind(name, bar);
    if bound.is_err() && !had_driver {
        modules::unload_unused(!had_core);
    }
    writeln!(out, "{name} is bound{}", bound?)?;
    Ok(0)
}

pub(crate) fn unbind(text: &str, out: Out<'_>) -> Status {
    let function = find(text)?;
    let name = &function.name;
    ensure!(function.is_of_io_peer_mem(), "{name} is not bound to io_peer_mem");
    // Without the override, or the function would be bound to io_peer_mem again.
    write(&pci::file(name, "driver_override"), "\n")?;
    write(&pci::file(name, "driver/unbind"), name)?;
    let probe = format!("echo {name} >/sys/bus/pci/drivers_probe");
    writeln!(out, "{name} is unbound; \"{probe}\" gives it to its own driver")?;
    modules::unload_unused(true);
    Ok(0)
}
