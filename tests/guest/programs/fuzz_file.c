// SPDX-License-Identifier: GPL-2.0
/*
 * The files. Each thread has private ones, whose state it knows. All threads share
 * descriptors whose files they replace while other threads use them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <io_peer_mem.h>

#include "common.h"
#include "fuzz.h"

void file_close(struct file *f)
{
	/* Pages that are still mapped become free later. */
	if (f->kind == DM && !f->freed)
		unclaim(f->bar, f->node, f->offset, f->length);
	if (f->kind != NONE)
		close(f->fd);
	f->kind = NONE;
}

/* Access mode 3 is for ioctls alone. */
static int open_bar(struct thread *t, int bar, int access)
{
	int fd = open(bars[bar].path, access | O_CLOEXEC);

	called(t, OP_OPEN, fd < 0 ? errno : 0, ONE_OF(ENOENT, ENODEV, ENXIO));
	return fd;
}

void file_reopen(struct thread *t, struct file *f)
{
	struct stat s;

	file_close(f);
	f->bar = below(t, BARS);
	f->access = one_in(t, 4) ? below(t, 4) : O_RDWR;
	f->fd = open_bar(t, f->bar, f->access);
	if (f->fd < 0)
		return;
	if (fstat(f->fd, &s))
		bug(t, "fstat: %s", strerrorname_np(errno));
	f->node = s.st_ino;
	f->kind = BAR;
}

struct file *pick_bar(struct thread *t)
{
	struct file *f = &t->files[below(t, PRIVATE_BARS)];

	if (f->kind == NONE || one_in(t, 200))
		file_reopen(t, f);
	return f;
}

struct file *pick_dm(struct thread *t)
{
	size_t n = PRIVATE_FILES - PRIVATE_BARS, first = below(t, n);

	for (size_t i = 0; i < n; i++) {
		struct file *f = &t->files[PRIVATE_BARS + (first + i) % n];

		if (f->kind == DM)
			return f;
	}
	return NULL;
}

int pick_shared(struct thread *t)
{
	return shared[below(t, SHARED_FILES)];
}

struct file *slot_for_dm(struct thread *t)
{
	struct file *f;

	for (f = t->files + PRIVATE_BARS; f < t->files + PRIVATE_FILES; f++)
		if (f->kind == NONE)
			return f;
	f = t->files + PRIVATE_BARS + below(t, PRIVATE_FILES - PRIVATE_BARS);
	file_close(f);
	return f;
}

/*
 * A shared descriptor is never closed, or a private file could get its number. dup3()
 * replaces the file, which closes the old one.
 */
static void swap(struct thread *t)
{
	struct io_peer_mem_dm_alloc a = {
		.version = IO_PEER_MEM_DM_VERSION,
		.length = 1 + below(t, 4 * PAGE),
	};
	int to = pick_shared(t), bar = open_bar(t, below(t, BARS), O_RDWR), fd = bar;

	if (bar >= 0 && one_in(t, 2)) {
		int error = ioctl(bar, IO_PEER_MEM_IOC_DM_ALLOC, &a) ? errno : 0;

		called(t, OP_ALLOC, error, ONE_OF(ENOMEM, ENODEV));
		fd = error ? bar : a.fd;
	}
	if (fd < 0)
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	called(t, OP_SWAP, dup3(fd, to, O_CLOEXEC) < 0 ? errno : 0, ONE_OF(EBUSY));
	close(fd);
	if (bar >= 0 && fd != bar)
		close(bar);
}

/* Sends a descriptor to this process; receives it, or leaves it in the socket. */
static void pass(struct thread *t)
{
	int pair[2], to = pick_shared(t), fd;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair))
		bug(t, "socketpair: %s", strerrorname_np(errno));
	called(t, OP_PASS, fd_send(pair[0], pick_shared(t)), ONE_OF(ENODEV));
	fd = one_in(t, 2) ? fd_receive(pair[1], MSG_DONTWAIT) : -1;
	if (fd >= 0) {
		dup3(fd, to, O_CLOEXEC);
		close(fd);
	}
	close(pair[0]);
	close(pair[1]);
}

/*
 * File operations. Only the files of allocations have data, so those that move data must
 * fail on others. @bytes: this call would move data.
 */
static int call_file(struct thread *t, int fd, bool *bytes)
{
	char buffer[64] = { 0 };
	size_t n = 1 + below(t, sizeof(buffer));
	off_t offset = one_in(t, 2) ? 0 : (off_t)edge(t);
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	long ret;
	int which = below(t, 8);

	*bytes = which < 5;
	switch (which) {
	case 0: ret = read(fd, buffer, n); break;
	case 1: ret = write(fd, buffer, n); break;
	case 2: ret = pread(fd, buffer, n, offset); break;
	case 3: ret = pwrite(fd, buffer, n, offset); break;
	case 4: ret = ftruncate(fd, offset); break;
	case 5: ret = lseek(fd, offset, below(t, 5)); break;
	case 6: ret = poll(&p, 1, 0); break;
	default:
		ret = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (ret >= 0)
			close(ret);
	}
	return ret < 0 ? errno : 0;
}

static void work_on_file(struct thread *t)
{
	struct file *f = one_in(t, 2) ? pick_dm(t) : pick_bar(t);
	bool own = f && f->kind != NONE && !one_in(t, 3), bytes;
	int fd = own ? f->fd : pick_shared(t);
	int error = call_file(t, fd, &bytes);

	/* A shared descriptor may be /dev/null, which accepts data. */
	if (own && f->kind != DM && bytes && !error)
		bug(t, "a read or write of a file without data succeeded");
	called(t, OP_FILE, error, ONE_OF(EINVAL, EBADF, ESPIPE, ENODEV, ENXIO, EPERM, EFBIG, ENOSPC, ENOMEM));
}

void fuzz_file(struct thread *t, enum op op)
{
	switch (op) {
	case OP_OPEN: file_reopen(t, &t->files[below(t, PRIVATE_BARS)]); break;
	case OP_SWAP: swap(t); break;
	case OP_PASS: pass(t); break;
	default: work_on_file(t);
	}
}
