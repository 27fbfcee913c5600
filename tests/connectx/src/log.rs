// SPDX-License-Identifier: GPL-2.0

//! The log, on standard error: one line each, with the seconds since the start.
//!
//! An error fails the run: the driver, or this device, has done what hardware does not forgive.
//! What is merely refused (a bad key of an application) is the device at work: a test says which of it
//! is meant (`control.rs`), and fails if there is more.

use std::cell::{Cell, RefCell};
use std::fmt::Arguments;
use std::io::Write;
use std::time::Instant;

// The program has one thread, and each unit test one of its own.
thread_local! {
    static START: Instant = Instant::now();
    /// How much is logged: 0 is errors, refusals and reports, 1 commands as well, 2 every memory key
    /// with its translation, 3 every work request.
    pub static LEVEL: Cell<u32> = const { Cell::new(1) };
    static ERRORS: Cell<usize> = const { Cell::new(0) };
    /// What was refused since a test last asked.
    static REFUSED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub fn wants(level: u32) -> bool {
    LEVEL.get() >= level
}

pub fn errors() -> usize {
    ERRORS.get()
}

pub fn line(what: &str, text: Arguments<'_>) {
    let (secs, micros) = START.with(|start| {
        let time = start.elapsed();
        (time.as_secs(), time.subsec_micros())
    });
    // A log that cannot be written is no reason to end, with which QEMU would end as well.
    let _ = writeln!(
        std::io::stderr(),
        "[{secs:5}.{micros:06}] connectx: {what}{text}"
    );
}

pub fn failed(text: Arguments<'_>) {
    ERRORS.set(ERRORS.get() + 1);
    line("ERROR ", text);
}

/// Writes one line, and keeps it for `take_refused()`.
pub fn refused(text: Arguments<'_>) {
    line("refused: ", text);
    REFUSED.with_borrow_mut(|all| all.push(text.to_string()));
}

/// Removes the refusals of a function that were kept; returns those that match no pattern.
pub fn take_refused(function: usize, patterns: &[String]) -> Vec<String> {
    let name = format!("fn{function}:");
    let of_it = |text: &String| text.split(' ').any(|word| word == name);
    let (mut taken, rest): (Vec<_>, _) = REFUSED.take().into_iter().partition(of_it);
    REFUSED.set(rest);
    taken.retain(|text| !patterns.iter().any(|pattern| matches(text, pattern)));
    taken
}

/// Returns whether the parts of a pattern, between its `*`, are in the text, in this order.
fn matches(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let rest = parts.try_fold(text, |text, part| Some(text.split_once(part)?.1));
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
        let text = "request refused: mkey 0x10: Stale";
        assert!(matches(text, "request*mkey*Stale"));
        assert!(!matches(text, "mkey*request"));
        assert!(!matches("aa", "a*a*a"));
    }
}
