// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm drain: no new registrations of a function's or a client's memory, until the old ones are gone.

use crate::prelude::*;

/// The exit status if memory regions are left after the time.
const LEFT: u8 = 3;

enum Drain {
    Function(String),
    Client(String),
}

impl Drain {
    fn find(text: &str) -> Result<Self> {
        if let Some(address) = pci::parse(text) {
            let drain = Self::Function(address.to_string());
            if !sys::exists(drain.file("drain")) {
                bail!(
                    "{address} is not bound to io_peer_mem; for the memory of another driver, name its client, \
                     which \"iopm status\" shows"
                );
            }
            return Ok(drain);
        }
        let drain = Self::Client(text.into());
        if text.contains('/') || text.starts_with('.') || !sys::exists(drain.file("drain")) {
            bail!("no client {text}; \"iopm status\" lists the clients");
        }
        Ok(drain)
    }

    fn name(&self) -> &str {
        match self {
            Self::Function(name) | Self::Client(name) => name,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        match self {
            Self::Function(function) => pci::file(function, "io_peer_mem").join(name),
            Self::Client(client) => PathBuf::from(PEERS).join(client).join(name),
        }
    }

    fn set(&self, on: bool) -> Result<()> {
        match sys::write(self.file("drain"), if on { "1\n" } else { "0\n" }) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                bail!("{}: only root may drain", self.name())
            }
            result => result.at(self.name()),
        }
    }

    /// Returns whether a region counts. The device has no access to a revoked one any more.
    fn has(&self, region: &Region) -> bool {
        region.kind != "import"
            && region.state != "revoked"
            && match self {
                Self::Function(function) => region.client == "io_peer_mem" && has_mapped(region, function),
                Self::Client(client) => region.client == *client,
            }
    }

    fn regions(&self) -> io::Result<Vec<Region>> {
        let mut regions = Region::all()?;
        regions.retain(|region| self.has(region));
        Ok(regions)
    }

    /// Counts the memory regions that are left. A function counts its own. Of a client those that are being
    /// registered are in the list alone.
    fn count(&self) -> Result<u64> {
        let gone = || format!("{} is gone, and its memory with it", self.name());
        match self {
            Self::Function(_) => sys::number(self.file("mrs")).with_context(gone),
            Self::Client(client) => {
                let listed = self.regions().map_err(|error| {
                    let cause = cause(&error);
                    anyhow!(
                        "/sys/kernel/debug/ib_peer_mem/regions (without it registrations that have begun are not \
                         seen): {cause}"
                    )
                })?;
                let number = |name| client_number(client.as_ref(), name).with_context(gone);
                // In the order of Client::read().
                let (ended, begun) = (number("num_dealloc_mrs")?, number("num_alloc_mrs")?);
                Ok(begun.saturating_sub(ended).max(listed.len() as u64))
            }
        }
    }

    /// Prints the memory regions that are left, as far as their processes are known.
    fn print(&self, count: u64, out: Out<'_>) -> Result<()> {
        let regions = self.regions();
        for region in regions.iter().flatten() {
            let Region { pid, process, device, lkey, length, age, state, .. } = region;
            let size = size(*length);
            writeln!(out, "  {pid} {process}: {size} of {device}, key {lkey}, for {age} s ({state})")?;
        }
        let unknown = count.saturating_sub(regions.as_ref().map_or(0, Vec::len) as u64);
        let why = match regions {
            Ok(_) => "the memory is unmapped, or the process has ended",
            Err(_) => "debugfs cannot be read",
        };
        if unknown > 0 {
            writeln!(out, "  {unknown} whose processes are not known: {why}")?;
        }
        Ok(())
    }

    fn wait(&self, seconds: u64, out: Out<'_>) -> Status {
        let (begin, name) = (Instant::now(), self.name());
        let end = begin + Duration::from_secs(seconds);
        loop {
            let count = self.count().inspect_err(|_| progress(""))?;
            if count == 0 || Instant::now() >= end {
                progress("");
                if count == 0 {
                    let more = "no memory region is left, and no new one is made until";
                    writeln!(out, "{name} is drained: {more} \"iopm drain --end {name}\"")?;
                    return Ok(0);
                }
                writeln!(out, "{name}: {count} memory regions are left after {seconds} s:")?;
                self.print(count, out)?;
                writeln!(out, "no new one is made until \"iopm drain --end {name}\"")?;
                return Ok(LEFT);
            }
            if begin.elapsed() > Duration::from_secs(1) {
                let passed = begin.elapsed().as_secs();
                progress(&format!("{name}: {count} memory regions are left, {passed} of {seconds} s"));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns whether the process of a region still has a BAR of the function mapped at the address. A process
/// may have unmapped it, or have ended while a child has its memory region.
fn has_mapped(region: &Region, function: &str) -> bool {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let maps = sys::read(format!("/proc/{}/maps", region.pid)).unwrap_or_default();
    // /dev/io_peer_mem/FUNCTION/barN, resourceN, p2pmem/allocate
    let dir = format!("/{function}/");
    maps.lines().filter(|line| line.contains(&dir)).any(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let range = range.and_then(|(from, to)| Some(hex(from)?..hex(to)?));
        range.is_some_and(|range| hex(&region.address).is_some_and(|at| range.contains(&at)))
    })
}

pub(crate) fn drain(options: &cli::Drain, out: Out<'_>) -> Status {
    let drain = Drain::find(&options.what)?;
    drain.set(!options.end)?;
    if !options.end {
        return drain.wait(options.timeout, out);
    }
    writeln!(out, "{}: memory can be registered again", drain.name())?;
    Ok(0)
}
