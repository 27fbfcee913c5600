// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm test: a transfer by RDMA between each RDMA device and each memory, with the bytes compared.

use crate::prelude::*;
use crate::verbs::{map, Device, Pair};
use std::os::unix::{fs::FileTypeExt, process::ExitStatusExt};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::{collections::hash_map::RandomState, hash::BuildHasher};

const LENGTH: usize = 64 << 10;

/// Fails unless the file is device memory: the test overwrites it.
fn check_file(path: &str) -> Result<()> {
    let real = fs::canonicalize(path).at(path)?;
    let is_device = fs::metadata(&real).at(path)?.file_type().is_char_device();
    let is_memory = is_device || (real.starts_with("/sys") && real.ends_with("p2pmem/allocate"));
    let what = "a character device nor p2pmem/allocate of a function";
    ensure!(is_memory, "{path} is neither {what}, and the test would overwrite it");
    Ok(())
}

/// Waits for the end of a process, and calls `each` with the seconds that have passed. Returns `None` if it goes
/// on: also after a signal it does, while a driver waits.
fn wait(child: &mut Child, limit: Duration, each: impl Fn(u64)) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        if begin.elapsed() > Duration::from_secs(1) {
            each(begin.elapsed().as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Transfers in a process of its own: whatever happens ends there. Returns what was done, or what failed.
pub(crate) fn run(adapter: &str, path: &str) -> std::result::Result<String, String> {
    // An adapter that does not answer ends with an error before.
    const LIMIT: Duration = Duration::from_secs(60);
    let root = sys::root().unwrap_or(Path::new("/"));
    let child = Command::new("/proc/self/exe")
        .args(["--sysroot".as_ref(), root.as_os_str()])
        .args(["transfer", adapter, path])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| format!("fork: {error}"))?;
    let end = wait(&mut child, LIMIT, |passed| progress(&format!("{adapter}, {path}: {passed} s")));
    progress("");
    let Some(status) = end else {
        let _ = child.kill();
        let stays = match wait(&mut child, Duration::from_secs(5), |_| ()) {
            Some(_) => String::new(),
            None => format!(", and process {} stays in a call of the kernel", child.id()),
        };
        return Err(format!("the adapter does not answer{stays}"));
    };
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text =
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_end().replace('\n', " ");
    match status.signal() {
        Some(signal) => Err(format!("ended by signal {signal}")),
        None if status.success() => Ok(text),
        None => Err(text),
    }
}

pub(crate) fn transfer(adapter: &str, path: &str, out: Out<'_>) -> Status {
    let device = Device::open(adapter)?;
    let memory = map(path, LENGTH)?;
    // Other bytes in each run: with zero=never the memory may still have those of an earlier one.
    let random = RandomState::new();
    let bytes: Vec<u8> = (0..LENGTH / 8).flat_map(|word| random.hash_one(word).to_ne_bytes()).collect();
    let host: Vec<_> = bytes.iter().copied().chain([0; LENGTH]).map(AtomicU8::from).collect();
    let host = &*host.leak();
    let pair = Pair::new(&device, host, memory)?;

    let begin = Instant::now();
    // CAST: 64 KiB.
    pair.transfer(false, 0, LENGTH as u32)?;
    pair.transfer(true, LENGTH, LENGTH as u32)?;
    let passed = begin.elapsed().as_secs_f64() * 1e3;
    for (i, &byte) in bytes.iter().enumerate() {
        for (from, what) in [(&host[LENGTH + i], "after RDMA READ"), (&memory[i], "to the CPU")] {
            let found = from.load(Relaxed);
            ensure!(found == byte, "byte {i} is {found:#x} {what}, not {byte:#x}");
        }
    }
    writeln!(out, "{} KiB written and read, bytes compared, {passed:.1} ms", LENGTH >> 10)?;
    Ok(0)
}

/// Transfers between all, or those that are named, in either order.
pub(crate) fn test(device: Option<String>, file: Option<String>, out: Out<'_>) -> Status {
    let (files, devices): (Vec<_>, Vec<_>) =
        [device, file].into_iter().flatten().partition(|argument| argument.starts_with('/'));
    let (file, device) = (files.last(), devices.last());
    let paths: Vec<String> = match file {
        Some(file) => check_file(file).map(|()| vec![file.clone()])?,
        None => Memory::all().into_iter().filter_map(|memory| memory.path).collect(),
    };
    let adapters = Adapters::find().list.into_iter().map(|adapter| adapter.name);
    let mut status = None;
    for adapter in adapters.filter(|name| device.is_none_or(|device| device == name)) {
        for path in &paths {
            let result = run(&adapter, path);
            status = status.max(Some(result.is_err().into()));
            let word = if result.is_ok() { "ok  " } else { "FAIL" };
            writeln!(out, "{word}  {adapter}  {path}: {}", result.unwrap_or_else(|text| text))?;
            out.flush()?;
        }
    }
    let which = if device.is_some() { "no such RDMA device" } else { "no RDMA device" };
    status.with_context(|| format!("nothing to test: {which}, or no memory for it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends() -> Result<()> {
        let mut child = Command::new("sleep").arg("100").spawn()?;
        assert_eq!(wait(&mut child, Duration::from_millis(20), |_| ()), None);
        child.kill()?;
        let status = wait(&mut child, Duration::from_secs(60), |_| ());
        assert_eq!(status.and_then(|status| status.signal()), Some(9));
        Ok(())
    }
}
