// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm drain: no new registrations of a function's or a client's memory, until the old ones are gone.

use crate::prelude::*;

/// The exit status if memory regions are left after the time.
const LEFT: u8 = 3;

/// A function of io_peer_mem, or a client.
struct Drain {
    name: String,
    is_client: bool,
    dir: PathBuf,
}

impl Drain {
    fn find(text: &str) -> Result<Self> {
        let (name, is_client, dir) = match pci::parse(text).map(|address| address.to_string()) {
            Some(function) => (function.clone(), false, pci::file(&function, "io_peer_mem")),
            None => (text.to_owned(), true, Path::new(PEERS).join(text)),
        };
        let exists = sys::exists(dir.join("drain"));
        if is_client {
            let is_name = !text.contains('/') && !text.starts_with('.');
            ensure!(exists && is_name, "no client {text}; \"iopm status\" lists the clients");
        }
        let other = "for the memory of another driver, name its client, which \"iopm status\" shows";
        ensure!(exists, "{name} is not bound to io_peer_mem; {other}");
        Ok(Self { name, is_client, dir })
    }

    fn set(&self, on: bool) -> Result<()> {
        let written = sys::write(self.dir.join("drain"), if on { "1\n" } else { "0\n" });
        let denied = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        ensure!(!denied, "{}: only root may drain", self.name);
        written.at(&self.name)
    }

    /// Returns whether a region counts. The device has no access to a revoked one any more.
    fn has(&self, region: &Region) -> bool {
        let of = if self.is_client { self.name.as_str() } else { "io_peer_mem" };
        let counts = region.kind != "import" && region.state != "revoked" && region.client == of;
        counts && (self.is_client || has_mapped(region, &self.name))
    }

    fn regions(&self) -> io::Result<Vec<Region>> {
        let mut regions = Region::all()?;
        regions.retain(|region| self.has(region));
        Ok(regions)
    }

    /// Counts the memory regions that are left. A function counts its own. Of a client those that are being
    /// registered are in the list alone.
    fn count(&self) -> Result<u64> {
        let number = |name: &str| {
            let gone = || format!("{} is gone, and its memory with it", self.name);
            sys::number(self.dir.join(name)).with_context(gone)
        };
        if !self.is_client {
            return number("mrs");
        }
        let listed = self.regions().at(
            "/sys/kernel/debug/ib_peer_mem/regions (without it registrations that have begun are not seen)",
        )?;
        // In the order of Client::read().
        let (ended, begun) = (number("num_dealloc_mrs")?, number("num_alloc_mrs")?);
        Ok(begun.saturating_sub(ended).max(listed.len() as u64))
    }

    /// Prints the memory regions that are left, as far as their processes are known.
    fn print(&self, count: u64, out: Out<'_>) -> Result<()> {
        let (regions, why) = match self.regions() {
            Ok(regions) => (regions, "the memory is unmapped, or the process has ended"),
            Err(_) => (Vec::new(), "debugfs cannot be read"),
        };
        for Region { pid, process, device, lkey, length, age, state, .. } in &regions {
            let size = size(*length);
            writeln!(out, "  {pid} {process}: {size} of {device}, key {lkey}, for {age} s ({state})")?;
        }
        let unknown = count.saturating_sub(regions.len() as u64);
        if unknown > 0 {
            writeln!(out, "  {unknown} whose processes are not known: {why}")?;
        }
        Ok(())
    }

    fn wait(&self, seconds: u64, out: Out<'_>) -> Status {
        let (begin, name) = (Instant::now(), &self.name);
        let until = format!("no new one is made until \"iopm drain --end {name}\"");
        let mut count = self.count()?;
        while count > 0 && begin.elapsed().as_secs() < seconds {
            thread::sleep(Duration::from_millis(100));
            let passed = begin.elapsed().as_secs();
            if passed > 0 {
                progress(&format!("{name}: {count} memory regions are left, {passed} of {seconds} s"));
            }
            count = self.count().inspect_err(|_| progress(""))?;
        }
        progress("");
        if count == 0 {
            writeln!(out, "{name} is drained: no memory region is left, and {until}")?;
            return Ok(0);
        }
        writeln!(out, "{name}: {count} memory regions are left after {seconds} s:")?;
        self.print(count, out)?;
        writeln!(out, "{until}")?;
        Ok(LEFT)
    }
}

/// Returns whether the process of a region still has a BAR of the function mapped at the address. A process
/// may have unmapped it, or have ended while a child has its memory region.
fn has_mapped(region: &Region, function: &str) -> bool {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let maps = sys::read(format!("/proc/{}/maps", region.pid)).unwrap_or_default();
    // /dev/io_peer_mem/FUNCTION/barN, resourceN, p2pmem/allocate
    let dir = format!("/{function}/");
    let mut ranges = maps.lines().filter(|line| line.contains(&dir)).filter_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some(hex(from)?..hex(to)?)
    });
    hex(&region.address).is_some_and(|at| ranges.any(|range| range.contains(&at)))
}

pub(crate) fn drain(what: &str, timeout: u64, end: bool, out: Out<'_>) -> Status {
    let drain = Drain::find(what)?;
    drain.set(!end)?;
    if !end {
        return drain.wait(timeout, out);
    }
    writeln!(out, "{}: memory can be registered again", drain.name)?;
    Ok(0)
}
