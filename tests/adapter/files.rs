// SPDX-License-Identifier: GPL-2.0

//! The files of a device in debugfs: `dma` takes commands, `mrs` lists the MRs.
//!
//! Only root opens them, and must not keep them open while the module is unloaded: the kernel
//! crate gives such files no owner.

use crate::{
    command,
    device::Adapter, //
};
use kernel::{
    debugfs::{
        Dir,
        File, //
    },
    fmt,
    prelude::*,
    sync::Arc,
    uaccess::UserSliceReader, //
};

/// The files, which are there until this is dropped; then no command is running any more.
pub(crate) struct Files {
    _dma: Pin<KBox<File<Arc<Adapter>>>>,
    _mrs: Pin<KBox<File<Arc<Adapter>>>>,
}

impl Files {
    /// Makes them. May sleep.
    pub(crate) fn new(dir: &Dir, adapter: &Arc<Adapter>) -> Result<Self> {
        let dma = dir.write_callback_file(c"dma", adapter.clone(), &write);
        let mrs = dir.read_callback_file(c"mrs", adapter.clone(), &read);
        Ok(Self {
            _dma: KBox::pin_init(dma, GFP_KERNEL)?,
            _mrs: KBox::pin_init(mrs, GFP_KERNEL)?,
        })
    }
}

/// One command; the errno of `write(2)` is its result.
fn write(adapter: &Arc<Adapter>, reader: &mut UserSliceReader) -> Result {
    let mut buffer = [0; command::MAX_LEN];
    let text = buffer.get_mut(..reader.len()).ok_or(EINVAL)?;
    reader.read_slice(text)?;
    command::run(adapter, text)
}

/// A line for each MR.
fn read(adapter: &Arc<Adapter>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    adapter.list(f)
}
