// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * How programs get functions: by linking, dlsym(), dlvsym(), cuGetProcAddress(). Those who link find
 * this library first, as it is preloaded.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/*
 * dlsym(RTLD_NEXT) and dlsym(RTLD_DEFAULT) look who calls. So this library's end by a jump to glibc's,
 * for names that are not of interest here.
 */
#if __has_attribute(musttail)
#define TAIL_CALL __attribute__((musttail)) return
#else
#define TAIL_CALL return
#pragma GCC optimize("O2")
#endif

struct function {
	const char *name;
	int version;
	void *ours;		/* NULL: only called */
	void *next;		/* once it is known; atomic */
};

static struct function functions[] = {
#define F(result, name, version, arguments) { #name, version, name, NULL },
	GPU_FUNCTIONS(F)
#undef F
#define F(result, name, version, arguments) { #name, version, NULL, NULL },
	GPU_CALLED(F)
#undef F
};

#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* --- glibc's own functions: no call can return dlsym() and dlvsym(), as this library is found first --- */

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

/* The function in the table of symbols of a library. All of its versions are the same function. */
static void *symbol_of(const struct link_map *map, const char *name)
{
	const uint32_t hash = hash_of(name), *table = NULL, *buckets, *chain;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;

	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_GNU_HASH)
			table = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_SYMTAB)
			symbols = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			strings = (const void *)d->d_un.d_ptr;
	}
	if (!table || !symbols || !strings)
		return NULL;
	/* Number of buckets, first symbol, words of the filter, its shift. */
	buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4);
	chain = buckets + table[0];
	for (uint32_t i = buckets[hash % table[0]]; i >= table[1]; i++) {
		uint32_t found = chain[i - table[1]];

		if ((found | 1) == (hash | 1) && symbols[i].st_shndx != SHN_UNDEF &&
		    !strcmp(strings + symbols[i].st_name, name))
			return (void *)(map->l_addr + symbols[i].st_value);
		if (found & 1)
			break;
	}
	return NULL;
}

/* It is in libdl before glibc 2.34. */
static void *of_glibc(const char *name)
{
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		const char *slash = strrchr(map->l_name, '/'), *file = slash ? slash + 1 : map->l_name;
		void *found = NULL;

		if (!strcmp(file, "libc.so.6") || !strcmp(file, "libdl.so.2"))
			found = symbol_of(map, name);
		if (found)
			return found;
	}
	return NULL;
}

static void *remembered(void **where, const char *name)
{
	void *function = __atomic_load_n(where, __ATOMIC_RELAXED);

	if (!function) {
		function = of_glibc(name);
		__atomic_store_n(where, function, __ATOMIC_RELAXED);
	}
	return function;
}

/* A symbol of the C library where this was built would be one of the newest glibc. */
#define GLIBC(name) \
	({ \
		static void *function_; \
		(__typeof__(&name))remembered(&function_, #name); \
	})

/* --- the functions behind this library --- */

static bool is_of(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/*
 * Sets what is behind this library. Programs may close the library of the function, and open it again
 * elsewhere: it stays. Returns false if another function is behind it already.
 */
static bool set_next(struct function *f, void *next)
{
	void *old = NULL;
	Dl_info info, old_info;

	if (__atomic_compare_exchange_n(&f->next, &old, next, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
		if (GLIBC(dladdr)(next, &info))
			GLIBC(dlopen)(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
		GLIBC(dlerror)();
		return true;
	}
	/* The driver may give another entry of the same function to cuGetProcAddress(). */
	return old == next || (GLIBC(dladdr)(next, &info) && GLIBC(dladdr)(old, &old_info) &&
			       info.dli_fbase == old_info.dli_fbase);
}

void *gpu_next(enum function_id id)
{
	struct function *f = &functions[id];
	void *next = __atomic_load_n(&f->next, __ATOMIC_ACQUIRE), *library = NULL;
	__typeof__(&dlsym) find = GLIBC(dlsym);

	if (next || !find)
		return next;
	next = find(RTLD_NEXT, f->name);
	if (!next) {
		/* It is not in the global scope if it was opened by dlopen(). */
		library = GLIBC(dlopen)(is_of(f->name, "cu") ? "libcuda.so.1" : is_of(f->name, "ibv") ?
					"libibverbs.so.1" : "libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD);
		next = library ? find(library, f->name) : NULL;
	}
	if (next)
		set_next(f, next);
	if (library)
		GLIBC(dlclose)(library);
	/* No error of the program. */
	GLIBC(dlerror)();
	return next;
}

static struct function *function_of(const char *name)
{
	if (!name || (!is_of(name, "cu") && !is_of(name, "hsa_") && !is_of(name, "ibv_reg_mr")))
		return NULL;
	for (struct function *f = functions; f < functions + FUNCTIONS; f++)
		if (f->ours && !strcmp(f->name, name))
			return f;
	return NULL;
}

/* What the program gets, which has asked for a function and would get @found. */
static void *instead_of(struct function *f, void *found)
{
	if (found != f->ours)
		return found && set_next(f, found) ? f->ours : found;
	if (!gpu_next(f - functions)) {
		/* Ours alone is none: glibc finds none after it, and has the error for dlerror(). */
		found = GLIBC(dlsym)(RTLD_NEXT, f->name);
		/* This is no jump, which would be a call of the program's. */
		__asm__ volatile("" : "+r"(found));
	}
	return found;
}

/* --- dlsym() and dlvsym() --- */

EXPORTED void *dlsym(void *handle, const char *name)
{
	/* The next after the caller is another one than the next after us. */
	struct function *f = handle == RTLD_NEXT ? NULL : function_of(name);
	__typeof__(&dlsym) find = GLIBC(dlsym);

	if (!f)
		TAIL_CALL find(handle, name);
	return instead_of(f, find(handle, name));
}

EXPORTED void *dlvsym(void *handle, const char *name, const char *version)
{
	struct function *f = handle == RTLD_NEXT ? NULL : function_of(name);
	__typeof__(&dlvsym) find = GLIBC(dlvsym);

	/* The first ibv_reg_mr() of libibverbs has other arguments. */
	if (!f || !strcmp(version, "IBVERBS_1.0"))
		TAIL_CALL find(handle, name, version);
	return instead_of(f, find(handle, name, version));
}

/* --- cuGetProcAddress() --- */

#define PER_THREAD_DEFAULT_STREAM 2ULL

/* The driver's function of this name: its last version that the program knows, for its streams. */
static struct function *entry_of(const char *name, int version, bool per_thread)
{
	static const char *const endings[] = { "_ptsz", "_v2", "" };
	char full[64];

	for (int i = per_thread ? 0 : 1; i < 3; i++) {
		struct function *f;

		snprintf(full, sizeof(full), "%s%s", name, endings[i]);
		f = function_of(full);
		if (f && version >= f->version)
			return f;
	}
	return NULL;
}

static CUresult got(CUresult result, const char *name, void **function, int version, bool per_thread)
{
	struct function *f = !result && name && function && *function ? entry_of(name, version, per_thread) : NULL;

	if (f)
		*function = instead_of(f, *function);
	return result;
}

#define GETS_FUNCTIONS(of, parameters, arguments, per_thread) \
	EXPORTED CUresult of parameters \
	{ \
		__typeof__(&of) next = NEXT(of); \
\
		return next ? got(next arguments, name, function, version, per_thread) : CUDA_ERROR_NOT_FOUND; \
	}

GETS_FUNCTIONS(cuGetProcAddress, (const char *name, void **function, int version, uint64_t flags),
	       (name, function, version, flags), flags & PER_THREAD_DEFAULT_STREAM)
GETS_FUNCTIONS(cuGetProcAddress_v2, (const char *name, void **function, int version, uint64_t flags, int *status),
	       (name, function, version, flags, status), flags & PER_THREAD_DEFAULT_STREAM)
