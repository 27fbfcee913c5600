// SPDX-License-Identifier: GPL-2.0

//! How the calls of a fake deviate: they fail, take time or wait at a gate.

use crate::prelude::*;

/// A point at which a fake can fail, take time or wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    // A client's callbacks.
    Acquire,
    GetPages,
    DmaMap,
    DmaUnmap,
    PutPages,
    PageSize,
    Release,
    // A device's operations.
    AllocMr,
    MapMrSg,
    PostReg,
    PostInv,
    CreateCq,
    CreateQp,
    ModifyQp,
    RegUserMr,
    ReregUserMr,
    DeregMr,
    /// After an MR is freed, before its deregistration returns.
    Deregistered,
    /// Before the import of a dma-buf.
    Import,
    /// After the import; the driver undoes the import on failure.
    Imported,
    /// The exporter invalidates the mapping.
    Invalidate,
    Count,
}

impl Point {
    /// Returns whether the point belongs to a client, and not to a device.
    pub(crate) fn is_clients(self) -> bool {
        (self as usize) < Self::AllocMr as usize
    }
}

const POINTS: usize = Point::Count as usize;

/// The script of one point.
#[derive(Default)]
struct Step {
    calls: u32,
    /// The numbers of failing calls, from 1.
    failing: Range<u32>,
    errno: i32,
    slow_ms: i64,
    gate: Option<Arc<Gate>>,
}

/// The script of one fake.
#[pin_data]
pub(crate) struct Script {
    #[pin]
    steps: SpinLock<[Step; POINTS]>,
}

impl Script {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            steps <- new_spinlock!(
                core::array::from_fn(|_| Step::default()),
                "kunit::Script"
            ),
        })
    }

    pub(crate) fn reset(&self) {
        for i in 0..POINTS {
            let old = core::mem::take(&mut self.steps.lock()[i]);
            drop(old);
        }
    }

    /// Passes `point`, and waits if the script demands a wait. Returns the errno of the call, or 0.
    pub(crate) fn pass(&self, point: Point) -> i32 {
        let mut steps = self.steps.lock();
        let step = &mut steps[point as usize];
        step.calls += 1;
        let errno = if step.failing.contains(&step.calls) {
            step.errno
        } else {
            0
        };
        let (gate, slow) = (step.gate.take(), step.slow_ms);
        drop(steps);
        if let Some(gate) = gate {
            gate.pass();
        }
        if slow > 0 {
            fsleep(Delta::from_millis(slow));
        }
        errno
    }

    /// Makes the calls with these numbers fail; 1 is the next call.
    fn fail_calls(&self, point: Point, numbers: Range<u32>, errno: i32) {
        let step = &mut self.steps.lock()[point as usize];
        let number = |n: u32| n.saturating_add(step.calls);
        step.failing = number(numbers.start)..number(numbers.end);
        step.errno = errno;
    }

    pub(crate) fn fail_at(&self, point: Point, n: u32, errno: Error) {
        self.fail_calls(point, n..n + 1, errno.to_errno());
    }

    pub(crate) fn fail(&self, point: Point, errno: Error) {
        self.fail_at(point, 1, errno);
    }

    /// Makes all calls fail, or no longer with 0.
    pub(crate) fn fail_always(&self, point: Point, errno: i32) {
        self.fail_calls(point, 1..if errno == 0 { 1 } else { u32::MAX }, errno);
    }

    pub(crate) fn slow(&self, point: Point, ms: i64) {
        self.steps.lock()[point as usize].slow_ms = ms;
    }

    pub(crate) fn hold(&self, point: Point) -> Result<Arc<Gate>> {
        let gate = Gate::new()?;
        self.steps.lock()[point as usize].gate = Some(gate.clone());
        Ok(gate)
    }

    pub(crate) fn calls(&self, point: Point) -> u32 {
        self.steps.lock()[point as usize].calls
    }
}
