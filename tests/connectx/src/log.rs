// SPDX-License-Identifier: GPL-2.0

//! The log, on standard error: one line each, with the seconds since the start.
//!
//! An error fails the run: the driver, or this device, has done what hardware does not forgive.
//! What is merely refused (a bad key of an application) is the device at work.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();
static LEVEL: AtomicU32 = AtomicU32::new(1);
static ERRORS: AtomicUsize = AtomicUsize::new(0);

/// How much is logged: 0 is errors, refusals and reports, 1 commands as well, 2 every memory key
/// with its translation, 3 every work request.
pub fn set_level(level: u32) {
    LEVEL.store(level, Ordering::Relaxed);
}

/// Returns whether lines of this level are logged.
pub fn wants(level: u32) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

/// Returns the number of errors so far.
pub fn errors() -> usize {
    ERRORS.load(Ordering::Relaxed)
}

/// Writes one line.
pub fn line(what: &str, text: Arguments<'_>) {
    let start = START.get_or_init(Instant::now).elapsed();
    // A log that cannot be written is no reason to end, with which QEMU would end as well.
    let _ = writeln!(
        std::io::stderr(),
        "[{:5}.{:06}] connectx: {what}{text}",
        start.as_secs(),
        start.subsec_micros()
    );
}

/// Writes one line, and counts it as an error.
pub fn failed(text: Arguments<'_>) {
    ERRORS.fetch_add(1, Ordering::Relaxed);
    line("ERROR ", text);
}

/// Logs what is always of interest.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => { $crate::log::line("", format_args!($($arg)*)) };
}

/// Logs at a level: 1, 2 or 3.
#[macro_export]
macro_rules! trace {
    ($level:literal, $($arg:tt)*) => {
        if $crate::log::wants($level) {
            $crate::log::line("", format_args!($($arg)*))
        }
    };
}

/// Logs what the device refuses, as hardware would.
#[macro_export]
macro_rules! refuse {
    ($($arg:tt)*) => { $crate::log::line("refused: ", format_args!($($arg)*)) };
}

/// Logs an error; the run fails.
#[macro_export]
macro_rules! error {
    ($($arg:tt)*) => { $crate::log::failed(format_args!($($arg)*)) };
}
