/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of the stand-in for CUDA's driver (tests/gpu). */
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>

/*
 * @what: "gpu:WAY" (cuda.h) allocates @length bytes; "gpu:WAY:MIB" maps them in chunks of so many MiB.
 * Returns 0, or -1 with errno set.
 */
int gpu_allocate(const char *what, size_t length, char **addr);
/* Maps or unmaps chunk @i, which may be after the end; unmaps or frees all. */
int gpu_chunk(bool map, size_t i);
int gpu_free(void);
/* Copies what is in the memory. */
int gpu_read(void *to, const char *from, size_t length);

#endif /* GPU_H */
