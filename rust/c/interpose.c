// SPDX-License-Identifier: GPL-2.0
/*
 * The path of host memory through the interposed verbs.
 *
 * A call is counted as long as it uses the data of its device. Tasks are preempted or sleep only in
 * callees. So the Tasks RCU grace period at the removal of the module waits for a task that is at the
 * beginning or the end of a function, where its call is not counted, and for one that has read the address
 * of the function and has not entered it yet.
 */
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/irqflags.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "task_table.h"
#include "logic.h"
#include "inflight.h"
#include "interpose.h"
#include "pgtable.h"

static const struct ext_interposer *interposer;

/*
 * The data of all devices, of which a host with many virtual functions has some hundred. Client ids are
 * reused: after unregistration ib_get_client_data() could return another module's data. RCU protects it.
 */
static DEFINE_HASHTABLE(devices, 10);
static DEFINE_SPINLOCK(devices_lock);

void ext_interposer_set(const struct ext_interposer *functions)
{
	WRITE_ONCE(interposer, functions);
}

void ext_hook_data_add(struct ext_hook_data *data)
{
	spin_lock(&devices_lock);
	hash_add_rcu(devices, &data->node, (unsigned long)data->dev);
	spin_unlock(&devices_lock);
}

void ext_hook_data_del(struct ext_hook_data *data)
{
	spin_lock(&devices_lock);
	hash_del_rcu(&data->node);
	spin_unlock(&devices_lock);
}

static __always_inline struct ext_hook_data *get(const struct ib_device *dev, enum ext_verbs verbs)
{
	struct ext_hook_data *data;

	/* The caller has read an operation of the device, written after the table. */
	smp_rmb();
	rcu_read_lock();
	hash_for_each_possible_rcu(devices, data, node, (unsigned long)dev)
		if (data->dev == dev)
			break;
	if (data && !percpu_ref_tryget_live_rcu(&data->calls[verbs]->ref))
		data = NULL;
	rcu_read_unlock();
	return data;
}

static __always_inline void put(struct ext_hook_data *data, enum ext_verbs verbs)
{
	if (data)
		percpu_ref_put(&data->calls[verbs]->ref);
}

struct ext_hook_data *ext_hook_data_get(const struct ib_device *dev, enum ext_verbs verbs)
{
	return get(dev, verbs);
}

void ext_hook_data_put(struct ext_hook_data *data, enum ext_verbs verbs)
{
	put(data, verbs);
}

/* Returns whether the driver is called before the hooks. Sets @memory if the page tables show the kind. */
static __always_inline bool driver_is_first(const struct ext_hook_data *data, u64 start, int access,
					    enum ext_memory *memory)
{
	enum ext_dispatch dispatch = ext_dispatch_of(data->dispatch, (unsigned long)current->mm);

	/*
	 * The driver handles on-demand memory itself, without the entry in the task table that this
	 * path makes.
	 */
	if (dispatch == EXT_DISPATCH_CLIENTS_FIRST || access & IB_ACCESS_ON_DEMAND)
		return false;
	if (dispatch == EXT_DISPATCH_DRIVER_ONLY)
		return true;
	/* No page table is freed meanwhile. The operation may sleep, so interrupts are enabled. */
	local_irq_disable();
	*memory = ext_native_memory_at(start);
	local_irq_enable();
	return *memory == EXT_MEMORY_ORDINARY;
}

/* __flatten: the functions of percpu_ref are called twice, and so were not inlined. */
__flatten
struct ib_mr *ext_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct ext_hook_data *data = get(pd->device, EXT_VERBS_REGISTERING);
	enum ext_memory memory = EXT_MEMORY_UNKNOWN;
	struct ext_task_entry *entry = NULL;
	struct ib_mr *mr;

	if (likely(data && driver_is_first(data, start, access, &memory)))
		entry = ext_bypass_begin((unsigned long)current);
	if (unlikely(!entry)) {
		mr = READ_ONCE(interposer)->reg_user_mr(data, pd, start, length, iova, access, dmah,
							udata, memory);
	} else {
		mr = data->reg_user_mr(pd, start, length, iova, access, dmah, udata);
		ext_bypass_end(entry);
		if (IS_ERR(mr))
			mr = READ_ONCE(interposer)->reg_failed(data, pd, start, length, iova, access,
							       dmah, udata, PTR_ERR(mr));
	}
	put(data, EXT_VERBS_REGISTERING);
	return mr;
}

/*
 * An MR of the hooks is counted in their filter before reg_user_mr or rereg_user_mr returns the MR to
 * uverbs, which then publishes the MR under a lock. So a task that deregisters the MR finds a count that is
 * not 0, and the driver's function alone is right for every MR whose count is 0.
 */
__flatten int ext_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	struct ext_hook_data *data = get(mr->device, EXT_VERBS_ENDING);
	int err;

	if (likely(data && !READ_ONCE(data->keys[ext_key_filter_slot(mr->lkey)])))
		err = data->dereg_mr(mr, udata);
	else
		err = READ_ONCE(interposer)->dereg_mr(data, mr, udata);
	put(data, EXT_VERBS_ENDING);
	return err;
}
