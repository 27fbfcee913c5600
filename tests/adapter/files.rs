// SPDX-License-Identifier: GPL-2.0

//! The files of a device in debugfs: `dma` takes commands, `mrs` lists the MRs and the memory of
//! queues.
//!
//! Only root can open them, and must close them before the module is unloaded: such files have no
//! owner module.

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

/// The files. Dropping this removes them and waits for running commands.
pub(crate) struct Files {
    _dma: Pin<KBox<File<Arc<Adapter>>>>,
    _mrs: Pin<KBox<File<Arc<Adapter>>>>,
}

impl Files {
    pub(crate) fn new(dir: &Dir, adapter: &Arc<Adapter>) -> Result<Self> {
        let dma = dir.write_callback_file(c"dma", adapter.clone(), &write);
        let mrs = dir.read_callback_file(c"mrs", adapter.clone(), &read);
        Ok(Self {
            _dma: KBox::pin_init(dma, GFP_KERNEL)?,
            _mrs: KBox::pin_init(mrs, GFP_KERNEL)?,
        })
    }
}

/// Executes one command; the result of `write(2)` is that of the command.
fn write(adapter: &Arc<Adapter>, reader: &mut UserSliceReader) -> Result {
    let mut buffer = [0; command::MAX_LEN];
    let text = buffer.get_mut(..reader.len()).ok_or(EINVAL)?;
    reader.read_slice(text)?;
    command::run(adapter, text)
}

fn read(adapter: &Arc<Adapter>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    adapter.list(f)
}
