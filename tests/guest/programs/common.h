/* SPDX-License-Identifier: GPL-2.0 */
/* System calls that several of the programs make in the same way. */
#ifndef COMMON_H
#define COMMON_H

#include <sys/mman.h>
#include <sys/types.h>

/* Where ioctl32() is an ordinary ioctl(2), the argument may be anywhere. */
#ifndef MAP_32BIT
#define MAP_32BIT 0
#endif

/* Closes a file, unless it is -1; errno stays. */
void close_quietly(int fd);

/* Has /dev/ib_peer_mem, which @control is, export memory as a dma-buf. -1: errno says why not. */
int export_range(int control, const void *addr, size_t length);

/*
 * Makes a dma-buf of a memfd that can be sealed, with @size bytes. -1: errno says why not; ENODEV:
 * the kernel has no udmabuf.
 */
int udmabuf_of(int memfd, size_t size);

/* Returns how many file descriptors of this process are open. */
int open_files(void);

/* Sends a file through a socket with SCM_RIGHTS. Returns 0 or an errno. */
int fd_send(int socket, int fd);
/* Receives one; @flags as for recvmsg(2). Returns the descriptor, or -1: there is none. */
int fd_receive(int socket, int flags);

/*
 * ioctl(2) by the system call of a 32-bit process; @arg lies below 4 GiB. Returns 0 or
 * an errno.
 */
int ioctl32(int fd, unsigned long cmd, void *arg);

#endif /* COMMON_H */
