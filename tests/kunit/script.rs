// SPDX-License-Identifier: GPL-2.0

//! What a fake does differently when it is next called.

use crate::sync::Gate;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// Where a fake can be told to fail, to be slow or to wait.
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
    /// Before a dma-buf is imported.
    Import,
    /// After: what fails here is undone by the driver.
    Imported,
    /// The exporter takes the mapping away.
    Invalidate,
    Count,
}

const POINTS: usize = Point::Count as usize;

/// The plan for one point.
#[derive(Default)]
struct Step {
    calls: u32,
    /// The call that fails, counted from 1; 0 is none.
    fail_at: u32,
    errno: i32,
    slow_ms: i64,
    gate: Option<Arc<Gate>>,
}

/// The plans of one fake.
#[pin_data]
pub(crate) struct Script {
    #[pin]
    steps: SpinLock<[Step; POINTS]>,
}

impl Script {
    /// Nothing special.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            steps <- new_spinlock!(
                core::array::from_fn(|_| Step::default()),
                "kunit::Script"
            ),
        })
    }

    /// Forgets all plans and counts.
    pub(crate) fn reset(&self) {
        for i in 0..POINTS {
            let old = core::mem::take(&mut self.steps.lock()[i]);
            drop(old);
        }
    }

    /// A fake has come to `point`: waits where it is to wait. The errno is 0 where it is not to
    /// fail. May sleep.
    pub(crate) fn pass(&self, point: Point) -> i32 {
        let mut steps = self.steps.lock();
        let step = &mut steps[point as usize];
        step.calls += 1;
        let errno = if step.fail_at == step.calls {
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

    /// The `n`th call from now on fails.
    pub(crate) fn fail_at(&self, point: Point, n: u32, errno: Error) {
        let step = &mut self.steps.lock()[point as usize];
        step.fail_at = step.calls + n;
        step.errno = errno.to_errno();
    }

    /// The next call fails.
    pub(crate) fn fail(&self, point: Point, errno: Error) {
        self.fail_at(point, 1, errno);
    }

    /// Every call takes so long.
    pub(crate) fn slow(&self, point: Point, ms: i64) {
        self.steps.lock()[point as usize].slow_ms = ms;
    }

    /// The next call waits at the gate that is returned.
    pub(crate) fn hold(&self, point: Point) -> Result<Arc<Gate>> {
        let gate = Gate::new()?;
        self.steps.lock()[point as usize].gate = Some(gate.clone());
        Ok(gate)
    }

    /// How often the fake has been at `point`.
    pub(crate) fn calls(&self, point: Point) -> u32 {
        self.steps.lock()[point as usize].calls
    }
}
