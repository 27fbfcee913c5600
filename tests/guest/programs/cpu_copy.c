// SPDX-License-Identifier: GPL-2.0
/*
 * cpu_copy FILE - copies to and from a mapping of FILE at any alignment
 *
 * By memcpy(3), and by single accesses of 8 bytes. Where the mapping does not permit unaligned accesses
 * a signal ends the program.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LENGTH (64 << 10)
#define WORD 8

static void check(char *at, const char *bytes, size_t length)
{
	char back[LENGTH];

	memcpy(at, bytes, length);
	memcpy(back, at, length);
	if (memcmp(back, bytes, length))
		errx(1, "%zu bytes at %p are wrong", length, (void *)at);
}

int main(int argc, char **argv)
{
	static const size_t lengths[] = { 1, 3, 7, 8, 15, 16, 33, 64, 255, 4099, 40000 };
	static char bytes[LENGTH];
	int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
	char *memory;

	if (fd < 0)
		err(1, "open %s", argc == 2 ? argv[1] : "FILE");
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	for (size_t i = 0; i < LENGTH; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	for (size_t at = 0; at < 2 * WORD + 1; at++) {
		typedef uint64_t __attribute__((aligned(1), may_alias)) any_word;
		volatile any_word *word = (void *)(memory + at);

		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			check(memory + at, bytes + i, lengths[i]);
		*word = at * 0x0101010101010101;
		if (*word != at * 0x0101010101010101)
			errx(1, "the word at %zu is wrong", at);
	}
	puts("all copies are right");
	return 0;
}
