// SPDX-License-Identifier: GPL-2.0
/*
 * mpi_bar - messages of MPI between memory of two devices
 *
 * usage: mpirun -n 2 mpi_bar MEMORY0 MEMORY1 SIZE...
 *
 * The process of each rank maps its MEMORY, the character device of a BAR, or "host" for memory of
 * the process. For each SIZE in bytes rank 0 sends a message, and rank 1 sends the bytes that came,
 * inverted. Then both reduce 64-bit integers by their sum, and a bitwise exclusive or. All messages
 * and operands are in MEMORY. The program compares every byte, prints a line for each step, and
 * ends with 1 after the first wrong byte.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mpi.h>

/* The message, and behind it the result of a reduction; both start inside a page. */
#define LARGEST (8UL << 20)
#define MESSAGE 1000
#define RESULT (MESSAGE + LARGEST)
#define LENGTH (RESULT + LARGEST + 4096)

static int rank;

static unsigned char *map(const char *path)
{
	bool host = !strcmp(path, "host");
	int flags = host ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	int fd = host ? -1 : open(path, O_RDWR | O_CLOEXEC);
	void *at;

	if (!host && fd < 0)
		err(1, "%s", path);
	at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		err(1, "mmap of %s", path);
	return at;
}

/* Returns a byte that depends on the place in the message, the size and the direction. */
static unsigned char pattern(size_t at, size_t size, int sender)
{
	uint64_t x = (at + 1) * 0x9e3779b97f4a7c15ULL + size * 31;

	return (x >> 40) ^ (sender ? 0xff : 0);
}

static void fill(unsigned char *to, size_t size, int sender)
{
	for (size_t i = 0; i < size; i++)
		to[i] = pattern(i, size, sender);
}

/* Checks a message and the byte after it. */
static void check(const unsigned char *got, size_t size, int sender)
{
	for (size_t i = 0; i < size; i++)
		if (got[i] != pattern(i, size, sender))
			errx(1, "rank %d: byte %zu of %zu is %#x instead of %#x", rank, i, size, got[i],
			     pattern(i, size, sender));
	if (got[size] != 0x5a)
		errx(1, "rank %d: the byte after a message of %zu bytes has changed", rank, size);
}

/* The message goes to rank 1 and comes back, inverted. */
static void exchange(unsigned char *message, size_t size)
{
	int got;
	MPI_Status status;

	memset(message, 0, size);
	message[size] = 0x5a;
	if (rank == 0) {
		fill(message, size, 0);
		MPI_Send(message, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		/* Nothing of what rank 0 has sent may be taken for the answer. */
		memset(message, 0, size);
	}
	MPI_Recv(message, size, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &got);
	if ((size_t)got != size)
		errx(1, "rank %d: %d bytes came instead of %zu", rank, got, size);
	check(message, size, !rank);
	if (rank == 1) {
		for (size_t i = 0; i < size; i++)
			message[i] ^= 0xff;
		MPI_Send(message, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
}

static uint64_t operand(int of, size_t at, size_t size)
{
	return (at + 1) * (of ? 0x10001 : 0x12345) + size;
}

static void reduce(unsigned char *memory, size_t size, MPI_Op op, bool sum)
{
	/* MPI permits any address; the CPU prefers aligned ones. */
	uint64_t *from = (void *)(memory + MESSAGE), *to = (void *)(memory + RESULT);
	size_t count = size / sizeof(*from);

	for (size_t i = 0; i < count; i++) {
		from[i] = operand(rank, i, size);
		to[i] = 0;
	}
	MPI_Allreduce(from, to, count, MPI_UINT64_T, op, MPI_COMM_WORLD);
	for (size_t i = 0; i < count; i++) {
		uint64_t a = operand(0, i, size), b = operand(1, i, size);
		uint64_t want = sum ? a + b : a ^ b;

		if (to[i] != want)
			errx(1, "rank %d: sum %zu of %zu is %#" PRIx64 " instead of %#" PRIx64, rank, i,
			     count, to[i], want);
	}
}

int main(int argc, char **argv)
{
	unsigned char *memory;
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 4 || ranks != 2)
		errx(2, "usage: mpirun -n 2 mpi_bar MEMORY0 MEMORY1 SIZE...");
	memory = map(argv[1 + rank]);
	for (int i = 3; i < argc; i++) {
		size_t size = strtoul(argv[i], NULL, 0);

		if (!size || size > LARGEST)
			errx(2, "a size is from 1 to %lu, not %s", LARGEST, argv[i]);
		exchange(memory + MESSAGE, size);
		if (rank == 0)
			printf("exchanged %zu\n", size);
		if (size >= sizeof(uint64_t)) {
			reduce(memory, size, MPI_SUM, true);
			reduce(memory, size, MPI_BXOR, false);
			if (rank == 0)
				printf("reduced %zu\n", size / sizeof(uint64_t));
		}
	}
	MPI_Finalize();
	return 0;
}
