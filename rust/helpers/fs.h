/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/fs.h>

/* Allows pread(2) and pwrite(2) on a file before the file is installed. */
static inline void ext_file_allow_at(struct file *file)
{
	file->f_mode |= FMODE_PREAD | FMODE_PWRITE;
}

/* An unsigned long before Linux 7.3. */
static inline u64 ext_file_inode_number(const struct file *file)
{
	return file_inode(file)->i_ino;
}
