/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/peer_mem_test_exporter: each open file has the memory of one dma-buf, also after the
 * dma-buf is released. read(2) returns what is in the memory.
 */
#ifndef PEER_TEST_EXPORTER_H
#define PEER_TEST_EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum peer_test_exporter_option {
	/* An errno, 0 for none: attach, map or pin fail with it. */
	PEER_TEST_EXPORTER_ATTACH_ERROR,
	PEER_TEST_EXPORTER_MAP_ERROR,
	PEER_TEST_EXPORTER_PIN_ERROR,
	/*
	 * BUS << 8 | DEVFN of a PCI function of domain 0, when the dma-buf is created: the memory is
	 * peer-to-peer memory of its BAR. 0: host memory.
	 */
	PEER_TEST_EXPORTER_FUNCTION,
	/*
	 * Not 0, when the dma-buf is created: it behaves as one of NVIDIA's nv_dmabuf. mmap(2) of it fails with
	 * errno 524, importers must allow peer-to-peer memory and get segments of 64 KiB without pages, and
	 * cannot pin it. The size is a multiple of 64 KiB, unless parts are joined.
	 */
	PEER_TEST_EXPORTER_GPU,
	PEER_TEST_EXPORTER_OPTIONS,
};

#define PEER_TEST_EXPORTER_MAX_SIZE (64 << 20)

struct peer_test_exporter_set {
	__u32 option;
	__u32 value;
};

struct peer_test_exporter_create {
	__u64 size;		/* a multiple of the page size */
	__s32 fd;		/* returned: the dma-buf */
	__u32 reserved;
};

#define PEER_TEST_EXPORTER_PARTS 64

/* A part of the memory of another file, in whole pages. */
struct peer_test_exporter_part {
	__s32 control;		/* that file */
	__u32 reserved;
	__u64 offset;
	__u64 size;
};

struct peer_test_exporter_join {
	__u64 parts;		/* an array of them */
	__u32 n;		/* at most PEER_TEST_EXPORTER_PARTS */
	__s32 fd;		/* returned: the dma-buf */
};

struct peer_test_exporter_state {
	__u32 exists;		/* 0: there is no dma-buf yet, or it is released */
	__u32 attached;
	__u32 mapped;
	__u32 pinned;
	__u64 moves;
	__u64 late;		/* bytes that were written to pages after a move from them */
};

#define PEER_TEST_EXPORTER_SET _IOW('P', 0x60, struct peer_test_exporter_set)
/* EEXIST: the file has had its dma-buf. ENODEV: there is no such PCI function. */
#define PEER_TEST_EXPORTER_CREATE _IOWR('P', 0x61, struct peer_test_exporter_create)
/*
 * Moves the memory to other pages: importers are invalidated, mappings of processes fault again.
 * ENODEV: there is no dma-buf, or it is revoked; EBUSY: it is pinned, or an importer has not unmapped.
 */
#define PEER_TEST_EXPORTER_MOVE _IO('P', 0x62)
/* As a move, but no importer can map the memory again, and no process. */
#define PEER_TEST_EXPORTER_REVOKE _IO('P', 0x63)
#define PEER_TEST_EXPORTER_STATE _IOR('P', 0x64, struct peer_test_exporter_state)
/*
 * As CREATE, of memory that other files have: it is there as long as the dma-buf. Neither of them can be
 * moved or revoked then: EBUSY.
 */
#define PEER_TEST_EXPORTER_JOIN _IOWR('P', 0x65, struct peer_test_exporter_join)

#endif /* PEER_TEST_EXPORTER_H */
