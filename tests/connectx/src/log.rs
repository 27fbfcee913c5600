// SPDX-License-Identifier: GPL-2.0

//! The log, on standard error: one line each, with the seconds since the start.
//!
//! An error fails the run: the driver, or this device, has done what hardware does not forgive.
//! What is merely refused (a bad key of an application) is the device at work: a test says which of it
//! is meant (`control.rs`), and fails if there is more.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();
static LEVEL: AtomicU32 = AtomicU32::new(1);
static ERRORS: AtomicUsize = AtomicUsize::new(0);
/// What was refused since a test last asked.
static REFUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// More are not kept.
const MOST_REFUSED: usize = 100_000;

/// How much is logged: 0 is errors, refusals and reports, 1 commands as well, 2 every memory key
/// with its translation, 3 every work request.
pub fn set_level(level: u32) {
    LEVEL.store(level, Ordering::Relaxed);
}

pub fn wants(level: u32) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

pub fn errors() -> usize {
    ERRORS.load(Ordering::Relaxed)
}

#[cfg(test)]
thread_local! {
    static ERRORS_OF_THREAD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the number of errors of this thread. Each unit test has a thread of its own.
#[cfg(test)]
pub fn errors_of_thread() -> usize {
    ERRORS_OF_THREAD.get()
}

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

pub fn failed(text: Arguments<'_>) {
    ERRORS.fetch_add(1, Ordering::Relaxed);
    #[cfg(test)]
    ERRORS_OF_THREAD.set(ERRORS_OF_THREAD.get() + 1);
    line("ERROR ", text);
}

/// Writes one line, and keeps it for `take_refused()`.
pub fn refused(text: Arguments<'_>) {
    line("refused: ", text);
    if let Ok(mut all) = REFUSED.lock() {
        if all.len() < MOST_REFUSED {
            all.push(text.to_string());
        }
    }
}

/// Removes the refusals of a function that were kept; returns those that match no pattern.
pub fn take_refused(function: usize, patterns: &[String]) -> Vec<String> {
    let Ok(mut all) = REFUSED.lock() else {
        return Vec::new();
    };
    let name = format!("fn{function}:");
    let of_it = |text: &String| text.split(' ').any(|word| word == name);
    let (taken, rest) = std::mem::take(&mut *all).into_iter().partition(of_it);
    *all = rest;
    let mut taken: Vec<String> = taken;
    taken.retain(|text| !patterns.iter().any(|pattern| matches(text, pattern)));
    taken
}

/// Returns whether the parts of a pattern, between its `*`, are in the text, in this order.
fn matches(text: &str, pattern: &str) -> bool {
    let mut rest = Some(text);
    for part in pattern.split('*') {
        rest = rest
            .and_then(|rest| rest.split_once(part))
            .map(|(_, after)| after);
    }
    rest.is_some()
}

/// Logs what is always of interest. As in the macros below, the name of a function may come first.
#[macro_export]
macro_rules! say {
    ($of:ident, $($arg:tt)*) => { $crate::say!("fn{}: {}", $of.id, format_args!($($arg)*)) };
    ($($arg:tt)*) => { $crate::log::line("", format_args!($($arg)*)) };
}

/// Logs at a level: 1, 2 or 3.
#[macro_export]
macro_rules! trace {
    ($level:literal, $of:ident, $($arg:tt)*) => {
        $crate::trace!($level, "fn{}: {}", $of.id, format_args!($($arg)*))
    };
    ($level:literal, $($arg:tt)*) => {
        if $crate::log::wants($level) {
            $crate::log::line("", format_args!($($arg)*))
        }
    };
}

/// Logs what the device refuses, as hardware would.
#[macro_export]
macro_rules! refuse {
    ($of:ident, $($arg:tt)*) => { $crate::refuse!("fn{}: {}", $of.id, format_args!($($arg)*)) };
    ($($arg:tt)*) => { $crate::log::refused(format_args!($($arg)*)) };
}

/// Returns from a command with this status, and why.
#[macro_export]
macro_rules! fail {
    ($status:expr, $($arg:tt)*) => { return Err($crate::command::Refusal::new($status, format!($($arg)*))) };
}

/// Logs an error; the run fails.
#[macro_export]
macro_rules! error {
    ($of:ident, $($arg:tt)*) => { $crate::error!("fn{}: {}", $of.id, format_args!($($arg)*)) };
    ($($arg:tt)*) => { $crate::log::failed(format_args!($($arg)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_pattern_are_in_order() {
        assert!(matches(
            "request refused: mkey 0x10: Stale",
            "request*mkey*Stale"
        ));
        assert!(!matches(
            "request refused: mkey 0x10: Stale",
            "mkey*request"
        ));
        assert!(!matches("aa", "a*a*a"));
    }
}
