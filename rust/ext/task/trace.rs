// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of registrations: `/sys/kernel/tracing/events/ib_peer_mem`. A caller measures the time only
//! with a [`Timer`], which does nothing while the tracepoint is off. Without `CONFIG_TRACEPOINTS` all
//! tracepoints are off. Context: any.

use crate::shared::prelude::raw::*;

#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Point {
    /// An MR or an export exists.
    Register = helpers::ext_trace_point_EXT_TRACE_REGISTER,
    /// An MR or an export was deregistered.
    Deregister = helpers::ext_trace_point_EXT_TRACE_DEREGISTER,
    /// An invalidation has returned.
    Invalidate = helpers::ext_trace_point_EXT_TRACE_INVALIDATE,
    /// A region is revoked.
    Revoke = helpers::ext_trace_point_EXT_TRACE_REVOKE,
    /// An attempt to fence has ended.
    Fence = helpers::ext_trace_point_EXT_TRACE_FENCE,
    /// Memory was not registered.
    Reject = helpers::ext_trace_point_EXT_TRACE_REJECT,
}

pub struct Event<'a> {
    /// The client, or the exporter.
    pub client: Option<&'a str>,
    pub device: Option<&'a str>,
    /// The local key; 0 without an MR.
    pub lkey: u32,
    /// The first address.
    pub addr: u64,
    /// In bytes.
    pub length: u64,
    /// The process that has registered the memory.
    pub pid: i32,
    pub result: Result,
    /// The cause of a rejection, in words.
    pub cause: &'a str,
}

fn text(text: &str) -> helpers::ext_trace_text {
    helpers::ext_trace_text {
        text: text.as_ptr().cast(),
        // CAST: Names and causes are much shorter than 2 GiB.
        len: text.len() as i32,
    }
}

impl Point {
    fn is_on(self) -> bool {
        // SAFETY: The function only reads the state of a tracepoint.
        unsafe { helpers::ext_trace_is_on(self as u32) }
    }

    /// Records an event without a duration, if the tracepoint is on.
    pub fn record(self, event: &Event<'_>) {
        self.emit(event, 0);
    }

    fn emit(self, event: &Event<'_>, nanoseconds: i64) {
        let region = helpers::ext_trace_region {
            client: text(event.client.unwrap_or("-")),
            device: text(event.device.unwrap_or("-")),
            addr: event.addr,
            length: event.length,
            duration_ns: nanoseconds.max(0).unsigned_abs(),
            lkey: event.lkey,
            pid: event.pid,
            error: event.result.err().map_or(0, Error::to_errno),
        };
        let cause = text(event.cause);
        // SAFETY: `region` and `cause` are valid during the call, with texts that are as long as
        // they say. The function copies the texts.
        unsafe { helpers::ext_trace(self as u32, &region, &cause) };
    }
}

pub struct Timer {
    point: Point,
    start: Option<Instant<Monotonic>>,
}

impl Timer {
    /// Begins to measure, if the tracepoint is on.
    pub fn start(point: Point) -> Self {
        let start = point.is_on().then(Instant::now);
        Self { point, start }
    }

    /// Returns a timer that has measured since `start`, if the tracepoint is on.
    pub fn since(point: Point, start: Instant<Monotonic>) -> Self {
        let start = point.is_on().then_some(start);
        Self { point, start }
    }

    /// Returns whether the tracepoint was on at the start.
    pub fn is_on(&self) -> bool {
        self.start.is_some()
    }

    /// Records the event, if the tracepoint was on at the start, and is still on.
    pub fn end(self, event: &Event<'_>) {
        if let Some(start) = self.start {
            self.point.emit(event, start.elapsed().as_nanos());
        }
    }
}
