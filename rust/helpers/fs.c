// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/fs.h. */
#include <linux/fs.h>

#include "helpers.h"

/* Allows pread(2) and pwrite(2) on a file before the file is installed. */
void ext_file_allow_at(struct file *file)
{
	file->f_mode |= FMODE_PREAD | FMODE_PWRITE;
}
