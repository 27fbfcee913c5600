// SPDX-License-Identifier: GPL-2.0
/*
 * dmabuf_iter - a BPF iterator over the dma-bufs of the machine that stops in the middle
 *
 * usage: dmabuf_iter [SIZE]
 *
 * Prints the sizes of all dma-bufs. With SIZE it then stops at a dma-buf of that size, so that the
 * kernel holds a reference to it, prints "holding", and ends at the end of its input. Exits with 4
 * if the kernel has no such iterator, and with 3 if no dma-buf but the first has that size: the
 * iterator holds the one after the last that it has shown.
 */
#include <err.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* Returns the bytes after a type of the kernel's description of itself. */
static size_t rest_of(const struct btf_type *type)
{
	size_t n = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT: return sizeof(uint32_t);
	case BTF_KIND_ARRAY: return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION: return n * sizeof(struct btf_member);
	case BTF_KIND_ENUM: return n * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64: return n * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO: return n * sizeof(struct btf_param);
	case BTF_KIND_VAR: return sizeof(struct btf_var);
	case BTF_KIND_DATASEC: return n * sizeof(struct btf_var_secinfo);
	case BTF_KIND_DECL_TAG: return sizeof(struct btf_decl_tag);
	default: return 0;
	}
}

/* Returns the number of the function @name, or 0. */
static unsigned int btf_function(const char *name)
{
	const struct btf_header *header;
	const struct btf_type *type;
	const char *at, *end, *names;
	size_t size = 0, room = 16 << 20;
	char *data = malloc(room);
	unsigned int id = 0;
	FILE *file = fopen("/sys/kernel/btf/vmlinux", "r");

	if (!data)
		err(1, "malloc");
	if (!file)
		return 0;
	size = fread(data, 1, room, file);
	if (size < sizeof(*header) || size == room)
		errx(1, "/sys/kernel/btf/vmlinux: unexpected size");
	fclose(file);
	header = (const void *)data;
	names = data + header->hdr_len + header->str_off;
	at = data + header->hdr_len + header->type_off;
	end = at + header->type_len;
	/* Number 0 is void. */
	for (id = 1; at < end; id++, at += sizeof(*type) + rest_of(type)) {
		type = (const void *)at;
		if (BTF_INFO_KIND(type->info) == BTF_KIND_FUNC &&
		    strcmp(names + type->name_off, name) == 0)
			break;
	}
	id = at < end ? id : 0;
	free(data);
	return id;
}

#define INSN(c, d, s, o, i) ((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), \
						.off = (o), .imm = (i) })
#define LOAD(d, s, o) INSN(BPF_LDX | BPF_MEM | BPF_DW, d, s, o, 0)

/* Returns a new iterator. Each dma-buf that it shows is 8 bytes: its size. */
static int iterator(void)
{
	/* struct bpf_iter__dmabuf { meta, dmabuf }, bpf_iter_meta { seq, .. }, dma_buf { size, .. } */
	const struct bpf_insn insns[] = {
		LOAD(BPF_REG_6, BPF_REG_1, 8),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_6, 0, 8, 0),
		LOAD(BPF_REG_1, BPF_REG_1, 0),
		LOAD(BPF_REG_1, BPF_REG_1, 0),
		LOAD(BPF_REG_7, BPF_REG_6, 0),
		INSN(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, BPF_REG_7, -8, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -8),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, 8),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_seq_write),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	static char log[16 << 10];
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_TRACING,
		.expected_attach_type = BPF_TRACE_ITER,
		.attach_btf_id = btf_function("bpf_iter_dmabuf"),
		.insns = (uintptr_t)insns,
		.insn_cnt = sizeof(insns) / sizeof(insns[0]),
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log,
		.log_size = sizeof(log),
		.log_level = 1,
	};
	union bpf_attr link = { .link_create.attach_type = BPF_TRACE_ITER };
	union bpf_attr create = { 0 };
	int program, fd;

	if (!load.attach_btf_id) {
		fputs("no iterator over dma-bufs\n", stderr);
		exit(4);
	}
	program = bpf(BPF_PROG_LOAD, &load);
	if (program < 0)
		err(1, "BPF_PROG_LOAD: %s", log);
	link.link_create.prog_fd = program;
	fd = bpf(BPF_LINK_CREATE, &link);
	if (fd < 0)
		err(1, "BPF_LINK_CREATE");
	create.iter_create.link_fd = fd;
	fd = bpf(BPF_ITER_CREATE, &create);
	if (fd < 0)
		err(1, "BPF_ITER_CREATE");
	return fd;
}

int main(int argc, char **argv)
{
	uint64_t size, wanted = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	unsigned int n, at = 0;
	int fd = iterator();

	for (n = 0; read(fd, &size, sizeof(size)) == sizeof(size); n++) {
		printf("%#llx\n", (unsigned long long)size);
		if (size == wanted)
			at = n;
	}
	close(fd);
	if (!wanted)
		return 0;
	if (!at)
		return 3;
	fd = iterator();
	while (at--)
		if (read(fd, &size, sizeof(size)) != sizeof(size))
			err(1, "read");
	puts("holding");
	fflush(stdout);
	while (read(STDIN_FILENO, &size, sizeof(size)) > 0)
		;
	return 0;
}
