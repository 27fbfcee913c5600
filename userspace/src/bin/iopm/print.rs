// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Output for people, and as JSON.

use crate::prelude::*;
use std::io::IsTerminal;

/// Where a command prints to.
pub(crate) type Out<'a> = &'a mut dyn Write;

/// Writes a number of bytes as `64 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    // The largest unit of which it is a whole number.
    let unit = (bytes.max(1).trailing_zeros() as usize / 10).min(4);
    format!("{} {}", bytes >> (10 * unit), UNITS[unit])
}

/// Prints a table. A heading that begins with `>` is of a column of numbers, which is aligned on the right.
pub(crate) fn table<'a>(
    out: Out<'_>,
    heads: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<()> {
    let heads: Vec<_> = heads.into_iter().collect();
    let mut lines = vec![heads.iter().map(|head| head.trim_start_matches('>').to_owned()).collect()];
    lines.extend(rows);
    let width = |i: usize| lines.iter().map(|cells: &Vec<_>| cells[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    for cells in &lines {
        let mut line = String::new();
        for ((cell, width), head) in cells.iter().zip(&widths).zip(&heads) {
            line +=
                &if head.starts_with('>') { format!("{cell:>width$}  ") } else { format!("{cell:width$}  ") };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(crate) use cells;

pub(crate) fn json(out: Out<'_>, value: &impl Serialize) -> Result<()> {
    // The error of a closed pipe stays one of the output.
    writeln!(out, "{}", serde_json::to_string_pretty(value)?)?;
    Ok(())
}

/// Returns the text in a colour of ECMA-48, if standard output is a terminal and the user wants it.
pub(crate) fn coloured(text: &str, colour: u8) -> String {
    let wanted = io::stdout().is_terminal()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|term| term != "dumb");
    if wanted {
        format!("\x1b[{colour}m{text}\x1b[0m")
    } else {
        text.into()
    }
}

/// Shows what takes long, on a terminal; an empty text removes the line.
pub(crate) fn progress(text: &str) {
    let mut err = io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{text}");
    }
}

/// Reports an error. Whether the text can be written changes nothing.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "iopm: {text}");
}

/// Returns what to do about an error of opening a BAR.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) | None => {
            "\n  is the function bound (\"iopm bind\"), or io_peer_mem loaded with its ids=? \"iopm list\" shows \
             the BARs it serves; the kernel log says why it refused others"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "\n  add the user to the group rdma, to which the udev rule of the package ib-peer-mem-common gives \
             the devices"
        }
        Some(libc::ENOTTY) => "\n  the file is no BAR of io_peer_mem",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [(0, "0 B"), (4097, "4097 B"), (64 << 20, "64 MiB"), (2048 << 40, "2048 TiB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn columns_are_aligned() -> Result<()> {
        let mut out = Vec::new();
        table(&mut out, ["A", ">NUMBER", "B"], [cells!["long", 7, ""]])?;
        assert_eq!(String::from_utf8(out)?, "A     NUMBER  B\nlong       7\n");
        Ok(())
    }
}
