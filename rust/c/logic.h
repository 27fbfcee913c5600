/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is written in C because Rust cannot: the path of host memory, code that runs where Rust must not,
 * structures that the kernel crate does not have. Used by bindgen and by the C files.
 */
#ifndef EXT_LOGIC_H
#define EXT_LOGIC_H

#include <linux/hash.h>
#include <linux/list_bl.h>
#include <linux/types.h>

struct device;
struct dma_buf;
struct dma_buf_attachment;
struct ext_redirection;
struct ext_return_probe;
struct gen_pool;
struct lock_class_key;
struct pci_dev;

/* invalidate.c */
void ext_dma_buf_invalidate(struct dma_buf_attachment *attach);
void ext_dma_buf_invalidate_mapped(struct dma_buf *buf);

/* task_table.c */

#define EXT_TASK_SLOTS 256

/* 0, or a task. Only the task itself takes the slot and frees the slot. */
struct ext_task_entry {
	unsigned long task;
} __aligned(64);

/* The tasks whose calls are exempt from the hook on ib_umem_get_desc(). Each has one slot that it can take. */
extern struct ext_task_entry ext_bypass_tasks[EXT_TASK_SLOTS];

/* Exempts @task, the caller, until ext_bypass_leave(). Returns NULL if the slot is taken. */
struct ext_task_entry *ext_bypass_enter(unsigned long task);
void ext_bypass_leave(struct ext_task_entry *entry);
/* Returns whether @task, the caller, has its slot. */
bool ext_bypass_has(unsigned long task);

/* A task with a value for an owner. Only the task itself adds and removes the object. */
struct ext_task_value {
	struct hlist_bl_node node;
	const void *owner;
	unsigned long task;
	void *value;
};

/* @entry must stay in place until ext_task_value_remove(). */
void ext_task_value_add(struct ext_task_value *entry, const void *owner, unsigned long task, void *value);
void ext_task_value_remove(struct ext_task_value *entry);
/*
 * Returns the value of @task for @owner that was added last, or NULL if there is none. @task must be the
 * caller.
 */
void *ext_task_value_of(const void *owner, unsigned long task);

/* redirect.c */

/* Redirects calls of the function at @from, except calls by this module, to the function at @to. */
struct ext_redirect {
	unsigned long from;
	unsigned long to;
};

/* Redirects the functions in @list, except for calls by tasks in ext_bypass_tasks. */
struct ext_redirection *ext_ftrace_redirect(const struct ext_redirect *list, unsigned int count);
/*
 * Lets calls by @task be redirected, although they come from this module; 0: no task's. Every call of
 * a redirected function is a trial then; see rust/ext/rdma/umem_hook/trial.rs.
 */
void ext_trial_begin(unsigned long task);
bool ext_trial_is(unsigned long task);
/*
 * Reverts ext_ftrace_redirect() and frees the object. After an error ftrace may still call this
 * module.
 */
int ext_ftrace_restore(struct ext_redirection *redirection);

/* gen_pool.c */
struct gen_pool *ext_gen_pool_new(unsigned long start, unsigned long n);
unsigned long ext_gen_pool_alloc(struct gen_pool *pool, unsigned long n, int align);
void ext_gen_pool_free(struct gen_pool *pool, unsigned long start, unsigned long n);
unsigned long ext_gen_pool_avail(struct gen_pool *pool);
unsigned long ext_gen_pool_next(struct gen_pool *pool, unsigned long from, unsigned long to,
				bool is_free);
void ext_gen_pool_destroy(struct gen_pool *pool);

/* return_probe.c */

/*
 * Creates a probe of the errors that the function @symbol returns, for callers of @symbol that
 * ignore errors. @symbol may be "module:name". The probe costs nothing unless watched. Returns an
 * ERR_PTR() if @symbol cannot be probed.
 */
struct ext_return_probe *ext_return_probe_new(const char *symbol);
void ext_return_probe_free(struct ext_return_probe *probe);

/* A task that watches a probe. */
struct ext_watch {
	struct ext_task_value task;
	struct ext_return_probe *probe;
	/* Those of the probe at the beginning. */
	int missed;
	/* The last negative result. */
	int error;
	bool seen;
};

/*
 * Begins to watch the calls of the current task. @watch must stay in place until ext_watch_end(), by the
 * same task. Waits while many other tasks watch. Fails if the function cannot be probed now.
 */
int ext_watch_begin(struct ext_watch *watch, struct ext_return_probe *probe);
void ext_watch_end(struct ext_watch *watch);
/* Returns the last error of the function, 0 without an error, or -EAGAIN if a call was missed. */
int ext_watch_error(const struct ext_watch *watch);

/* pci_path.c */

/* Path between a function and a device, or its first ancestor on PCI. */
enum ext_pci_path_kind {
	EXT_PATH_NONE,		/* the device is not on PCI */
	EXT_PATH_BRIDGES,	/* common upstream bridges without ACS redirection */
	EXT_PATH_REDIRECTED,	/* common upstream bridges, ACS redirects to the host bridge */
	EXT_PATH_HOST,		/* no common upstream bridge */
};

int ext_pci_path(struct pci_dev *provider, struct device *client);

/* p2p_pages.c */
void ext_p2p_pages_init(u64 phys, unsigned long n);
unsigned long ext_p2p_pages_take(u64 phys, unsigned long n);
void ext_p2p_page_put(u64 phys);
bool ext_p2p_pages_in_use(u64 phys, unsigned long n);
int ext_p2p_clear(u64 phys, unsigned long n, bool combine, bool killable);
void ext_p2p_read(u64 phys, void *to, unsigned long len);
void ext_p2p_write(u64 phys, const void *from, unsigned long len);
void ext_p2p_map_range(u64 phys, u64 *start, u64 *end);
void ext_p2p_map_get(u64 phys);
void ext_p2p_map_put(u64 phys, unsigned long n);
void ext_p2p_close_pool(struct pci_dev *pdev);

struct ext_p2p_space {
	unsigned long free, longest;
};
bool ext_p2p_free_space(struct pci_dev *pdev, struct gen_pool *map, unsigned long align,
			struct ext_p2p_space *space);

/* inflight.c */

/* Calls in flight. Each CPU counts for itself. */
struct ext_inflight;

/* NULL without memory. May sleep. */
struct ext_inflight *ext_inflight_new(void);
/* No call may be in flight. */
void ext_inflight_free(struct ext_inflight *calls);
/* Lets no call enter any more, and waits for those in flight. To be called once. May sleep. */
void ext_inflight_close(struct ext_inflight *calls);

/* pgtable.c */

enum ext_memory {
	EXT_MEMORY_UNKNOWN,	/* not mapped, not writable, or of another kind */
	EXT_MEMORY_ORDINARY,	/* pages that can be pinned */
	EXT_MEMORY_DEVICE,	/* peer-to-peer memory, or memory without struct pages */
};

/*
 * Returns the kind of memory at @addr of the calling process. A hint: the page tables are read
 * without a lock.
 */
enum ext_memory ext_memory_at(unsigned long addr);

/* trace.c */

enum ext_trace_point {
	EXT_TRACE_REGISTER,
	EXT_TRACE_DEREGISTER,
	EXT_TRACE_INVALIDATE,
	EXT_TRACE_REVOKE,
	EXT_TRACE_FENCE,
	EXT_TRACE_REJECT,
};

/* A text without a NUL. */
struct ext_trace_text {
	const char *text;
	int len;
};

/* The facts of an event; trace.h has the meaning. */
struct ext_trace_region {
	struct ext_trace_text client;
	struct ext_trace_text device;
	u64 addr;
	u64 length;
	u64 duration_ns;
	u32 lkey;
	s32 pid;
	s32 error;
};

bool ext_trace_is_on(enum ext_trace_point point);
/* @cause: for EXT_TRACE_REJECT. */
void ext_trace(enum ext_trace_point point, const struct ext_trace_region *region,
	       const struct ext_trace_text *cause);

/* worker.c */
void ext_call_in_worker(void (*function)(void *arg), void *arg, struct lock_class_key *key);

/* rust/ext/rdma/key_filter.rs */

/* The number of counts of a filter, as a power of two. */
#define EXT_KEY_FILTER_BITS 12

/* Returns the number of the count of @key. */
static __always_inline u32 ext_key_filter_slot(u32 key)
{
	return hash_32(key, EXT_KEY_FILTER_BITS);
}

#endif
