// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Files of /sys, /proc, /dev and /boot, below another root for tests (`--sysroot`).
//!
//! Text of the kernel may have any bytes, such as the name of a process: bytes that are not UTF-8 become
//! U+FFFD.

use crate::prelude::*;
use std::os::{fd::AsRawFd, unix::fs::MetadataExt, unix::fs::PermissionsExt};

static ROOT: OnceLock<PathBuf> = OnceLock::new();

pub(crate) fn set_root(root: PathBuf) {
    ROOT.get_or_init(|| root);
}

/// Returns the other root: no machine, whose modules could be loaded.
pub(crate) fn root() -> Option<&'static Path> {
    ROOT.get().map(PathBuf::as_path)
}

pub(crate) fn path(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    root().map_or(path.into(), |root| root.join(path.strip_prefix("/").unwrap_or(path)))
}

pub(crate) fn read(file: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path(file))?).into_owned())
}

/// Reads the first line, without its end; `None` without the file or a line.
pub(crate) fn line(file: impl AsRef<Path>) -> Option<String> {
    read(file).ok()?.lines().next().map(str::to_owned)
}

/// Parses a number in decimal or, after `0x`, in hexadecimal.
pub(crate) fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(crate) fn number(file: impl AsRef<Path>) -> Option<u64> {
    parse(line(file)?.trim())
}

pub(crate) fn exists(file: impl AsRef<Path>) -> bool {
    path(file).exists()
}

pub(crate) fn write(file: impl AsRef<Path>, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path(file))?;
    file.write_all(text.as_bytes())
}

/// Lists a directory, sorted, without hidden files; empty without it.
pub(crate) fn entries(dir: impl AsRef<Path>) -> Vec<OsString> {
    let names = fs::read_dir(path(dir)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.filter(|name| !name.as_encoded_bytes().starts_with(b".")).collect();
    names.sort();
    names
}

/// The same as text, for names that only the kernel's drivers choose.
pub(crate) fn names(dir: impl AsRef<Path>) -> Vec<String> {
    entries(dir).into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
}

pub(crate) fn files(dir: String) -> impl Iterator<Item = String> {
    names(&dir).into_iter().map(move |name| format!("{dir}/{name}"))
}

/// Lists the processes: their directories in /proc.
pub(crate) fn processes() -> impl Iterator<Item = String> {
    names("/proc").into_iter().filter(|name| name.parse::<u32>().is_ok())
}

pub(crate) fn target(link: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_link(path(link)).ok()?.file_name()?.to_string_lossy().into_owned())
}

pub(crate) fn real(file: impl AsRef<Path>) -> Option<PathBuf> {
    fs::canonicalize(path(file)).ok()
}

/// The running kernel; empty, with zeros, without its file in /proc.
pub(crate) struct Release {
    /// `7.3.4+deb13-amd64`
    pub(crate) name: String,
    pub(crate) version: (u32, u32),
}

impl Release {
    pub(crate) fn running() -> Self {
        let name = line("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = name.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        let mut number = || numbers.next().unwrap_or(0);
        let version = (number(), number());
        Self { name, version }
    }
}

/// Returns the cause of an error as `strerror(3)` says it.
pub(crate) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

/// Names what failed, as `warn(3)` does.
pub(crate) trait At<T> {
    fn at(self, what: impl Display) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, what: impl Display) -> Result<T> {
        self.map_err(|error| anyhow!("{what}: {}", cause(&error)))
    }
}

/// Writes a whole text to `file`: a regular file is replaced once the new one is complete, of a symbolic link the
/// target; all else is written to, also a file without a name. Not below another root.
pub(crate) fn write_output(file: &Path, text: &[u8]) -> Result<()> {
    let write = || {
        // The kernel follows links, with its rules for those of other users (`protected_symlinks`).
        let mut open = match OpenOptions::new().append(true).open(file) {
            Err(_) if fs::symlink_metadata(file).is_err() => return replace(file, text),
            opened => opened?,
        };
        // Its name comes first, as another process may take that from it.
        let (name, data) = (fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd()))?, open.metadata()?);
        match data.is_file() && data.nlink() > 0 {
            true => replace(&name, text),
            false => open.write_all(text),
        }
    };
    write().at(file.display())
}

fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut new = tempfile::NamedTempFile::new_in(dir.unwrap_or(Path::new(".")))?;
    new.as_file_mut().write_all(text)?;
    new.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    new.persist(file)?;
    Ok(())
}
