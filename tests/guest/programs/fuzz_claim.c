// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of a BAR that are allocated, as the threads know it: the kernel must not
 * allocate a page twice. A claim ends before its pages are freed.
 */
#include <err.h>
#include <pthread.h>

#include "fuzz.h"

#define BAR_PAGES (64 << 20 >> 12)
#define GENERATIONS 512

/*
 * Each bind of the device makes a new BAR with all pages free. Files and mappings of
 * the previous bind may still exist.
 */
static struct generation {
	int bar;
	ino_t node;
	bool pages[BAR_PAGES];
} generations[GENERATIONS];
static int n_generations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct generation *generation(int bar, ino_t node)
{
	struct generation *g = generations;

	for (; g < generations + n_generations; g++)
		if (g->bar == bar && g->node == node)
			return g;
	if (n_generations == GENERATIONS)
		errx(1, "more binds of the devices than this program can count");
	n_generations++;
	g->bar = bar;
	g->node = node;
	return g;
}

bool claim(int bar, ino_t node, uint64_t offset, uint64_t bytes)
{
	uint64_t first = offset / PAGE, end = (offset + bytes + PAGE - 1) / PAGE;
	bool good = end <= BAR_PAGES;
	struct generation *g;

	pthread_mutex_lock(&lock);
	g = generation(bar, node);
	for (uint64_t i = first; good && i < end; i++) {
		if (g->pages[i])
			good = false;
		g->pages[i] = true;
	}
	pthread_mutex_unlock(&lock);
	return good;
}

void unclaim(int bar, ino_t node, uint64_t offset, uint64_t bytes)
{
	uint64_t first = offset / PAGE, end = (offset + bytes + PAGE - 1) / PAGE;
	struct generation *g;

	pthread_mutex_lock(&lock);
	g = generation(bar, node);
	for (uint64_t i = first; i < end; i++)
		g->pages[i] = false;
	pthread_mutex_unlock(&lock);
}
