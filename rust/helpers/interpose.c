// SPDX-License-Identifier: GPL-2.0
/*
 * The path of host memory through the interposed verbs.
 *
 * A task that is in these functions, and not in one that they call, neither sleeps nor has a count.
 * The Tasks RCU grace period at the removal of the module waits for it, as for a task that has read
 * the address of such a function and has not entered it yet.
 */
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "ftrace.h"
#include "helpers.h"
#include "interpose.h"
#include "percpu.h"
#include "pgtable.h"

/* A host with many virtual functions has some hundred devices. */
#define SLOT_BITS 10

enum { REGISTERING };

static const struct ext_interposer *interposer;

/*
 * The data by device: all of it in a table, and in the slots what the path of host memory uses. A
 * device whose slot is taken by another one is only in the table, as is one that is being removed.
 * ib_core's array of client data is not read: the number by which a client finds its own there is
 * another client's as soon as this one is unregistered. RCU protects the data.
 */
static struct ext_gates *slots[1 << SLOT_BITS];
static DEFINE_HASHTABLE(all, SLOT_BITS);
static DEFINE_SPINLOCK(all_lock);

void ext_interposer_set(const struct ext_interposer *functions)
{
	WRITE_ONCE(interposer, functions);
}

static __always_inline struct ext_gates **slot_of(const struct ib_device *dev)
{
	return &slots[hash_ptr(dev, SLOT_BITS)];
}

void ext_gates_add(struct ext_gates *gates)
{
	spin_lock(&all_lock);
	hash_add_rcu(all, &gates->node, (unsigned long)gates->owner);
	spin_unlock(&all_lock);
}

void ext_gates_del(struct ext_gates *gates)
{
	spin_lock(&all_lock);
	hash_del_rcu(&gates->node);
	spin_unlock(&all_lock);
}

void ext_gates_publish(struct ext_gates *gates)
{
	cmpxchg(slot_of(gates->owner), NULL, gates);
}

void ext_gates_withdraw(struct ext_gates *gates)
{
	cmpxchg(slot_of(gates->owner), gates, NULL);
}

/* The caller disables preemption, which is an RCU read-side section, while it uses the result. */
static __always_inline struct ext_gates *find(const struct ib_device *dev)
{
	struct ext_gates *gates = smp_load_acquire(slot_of(dev));

	return gates && gates->owner == dev ? gates : NULL;
}

/* As find(), for all devices. */
static noinline struct ext_gates *find_in_table(const struct ib_device *dev)
{
	struct ext_gates *gates;

	/* The caller has read an operation of the device, which was written after the table. */
	smp_rmb();
	hash_for_each_possible_rcu(all, gates, node, (unsigned long)dev)
		if (gates->owner == dev)
			return gates;
	return NULL;
}

struct ext_gates *ext_gates_enter(const struct ib_device *owner, unsigned int gate)
{
	struct ext_gates *gates;

	preempt_disable();
	gates = find(owner);
	if (unlikely(!gates))
		gates = find_in_table(owner);
	if (gates && !ext_calls_enter(&gates->gates[gate]))
		gates = NULL;
	preempt_enable();
	return gates;
}

/* Returns whether the driver is called before the hooks. The caller has disabled interrupts. */
static __always_inline bool driver_is_first(const struct ext_gates *gates, u64 start, int access)
{
	u32 asked = READ_ONCE(*gates->asked);

	/* The driver pages on-demand memory by itself, without the mark that is for this path. */
	if ((asked & EXT_ASKED_MASK) == EXT_ASKED_ALWAYS || access & IB_ACCESS_ON_DEMAND)
		return false;
	return asked == EXT_ASKED_NEVER ||
	       ext_native_memory_at(start) == EXT_MEMORY_ORDINARY;
}

/* The arguments of a registration, in the room of a mark: in registers they take a larger frame. */
struct request {
	struct ib_pd *pd;
	u64 start, length, iova;
	struct ib_dmah *dmah;
	struct ib_udata *udata;
	int access;
};

static_assert(sizeof(struct request) <= sizeof_field(struct ext_mark, room));

static noinline struct ib_mr *ask_hooks(struct ext_gates *gates, struct ext_mark *mark, int error)
{
	struct request req = *(struct request *)mark->room;

	ext_mark_clear(mark);
	return READ_ONCE(interposer)->reg_failed(gates, req.pd, req.start, req.length, req.iova,
						 req.access, req.dmah, req.udata, error);
}

/*
 * The gate counts the call of the driver, as that returns to this function. It need not be looked
 * at: the removal of a device withdraws the data before it waits for an RCU grace period and then for
 * the calls that are counted.
 */
struct ib_mr *ext_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct ext_gates *gates;
	struct ext_mark *mark;
	struct ib_mr *mr;

	/* The operation may sleep, so they are enabled. */
	local_irq_disable();
	gates = find(pd->device);
	if (unlikely(!gates || !driver_is_first(gates, start, access)))
		goto hooks;
	mark = ext_bypass_slot();
	if (unlikely(!ext_mark_try(mark)))
		goto hooks;
	ext_count_entered(&gates->gates[REGISTERING]);
	local_irq_enable();

	*(struct request *)mark->room = (struct request) {
		.pd = pd,
		.start = start,
		.length = length,
		.iova = iova,
		.dmah = dmah,
		.udata = udata,
		.access = access,
	};
	mr = gates->reg_user_mr(pd, start, length, iova, access, dmah, udata);
	if (unlikely(IS_ERR(mr)))
		mr = ask_hooks(gates, mark, PTR_ERR(mr));
	else
		ext_mark_clear(mark);
	ext_count_left(&gates->gates[REGISTERING]);
	return mr;
hooks:
	local_irq_enable();
	return READ_ONCE(interposer)->reg_user_mr(pd, start, length, iova, access, dmah, udata);
}

/*
 * The caller got the key after it was inserted, and the key stays in the set. So the count of keys is
 * not 0, and the bitmap is there if there was memory for it: each is one variable, which is never
 * read as it was before. What stands for the key is its bit or a part of @unknown. While it is
 * in the set that may change once, from the bit to @unknown: another key with the same bit is
 * counted there first and removed later, which clears the bit. The writer releases the cleared bit
 * after the count, so a reader of the cleared bit that then reads the count finds it:
 *
 *	writer					reader
 *	unknown = 1;				r0 = bit;	// 0
 *	smp_store_release(&bit, 0);		smp_rmb();
 *						r1 = unknown;	// not 0
 */
bool ext_key_set_may_contain(const struct ext_key_set *set, u32 key)
{
	unsigned long bit = key >> EXT_KEY_SET_SHIFT, *bitmap;

	if (ext_key_set_is_empty(set))
		return false;
	bitmap = READ_ONCE(set->bitmaps[bit / EXT_KEY_SET_BITS]);
	if (bitmap && test_bit(bit % EXT_KEY_SET_BITS, bitmap))
		return true;
	/* Pairs with the release of the bit in KeySet::remove(). */
	smp_rmb();
	return READ_ONCE(set->unknown);
}

/*
 * An MR of the hooks is in their set before reg_user_mr or rereg_user_mr returns it to uverbs, which
 * then publishes it under a lock. So a task that deregisters it finds the key. If the key is not in the
 * set, the MR is not one of the hooks, and nothing but the driver's function is needed. That stays
 * while the MR exists, as it does for the caller in ib_core.
 *
 * The call of the driver is the last thing that these functions do, and leaves no frame of them on
 * the stack, so no count is needed that would keep the code until the driver returns.
 */
static int dereg_mr_unless_empty(struct ib_mr *mr, struct ib_udata *udata)
{
	ext_dereg_mr_fn *function = READ_ONCE(interposer)->dereg_mr;
	struct ext_gates *gates;

	preempt_disable();
	gates = find(mr->device);
	if (gates && !ext_key_set_may_contain(gates->keys, mr->lkey))
		function = gates->dereg_mr;
	preempt_enable();
	return function(mr, udata);
}

int ext_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	ext_dereg_mr_fn *function = dereg_mr_unless_empty;
	struct ext_gates *gates;

	preempt_disable();
	gates = find(mr->device);
	if (likely(gates && ext_key_set_is_empty(gates->keys)))
		function = gates->dereg_mr;
	preempt_enable();
	return function(mr, udata);
}

static void *returns_to;

/* Not traced, as a tracer of returns changes the address. */
static notrace noinline int record_return(struct ib_mr *mr, struct ib_udata *udata)
{
	returns_to = __builtin_return_address(0);
	return 0;
}

/* One place from which each function is called. */
static noinline void *return_address_in(ext_dereg_mr_fn *function, struct ib_mr *mr)
{
	function(mr, NULL);
	return READ_ONCE(returns_to);
}

static bool leaves_no_frame(ext_dereg_mr_fn *function, struct ib_mr *mr)
{
	return return_address_in(function, mr) == return_address_in(record_return, mr);
}

bool ext_dereg_mr_leaves_no_frame(void)
{
	static struct ib_mr mr;
	static struct ext_key_set keys;
	static struct ext_gates gates;
	bool both;

	mr.device = (struct ib_device *)&mr;
	gates.owner = mr.device;
	gates.keys = &keys;
	gates.dereg_mr = record_return;
	ext_gates_publish(&gates);
	both = find(mr.device) && leaves_no_frame(ext_dereg_mr, &mr) &&
	       leaves_no_frame(dereg_mr_unless_empty, &mr);
	ext_gates_withdraw(&gates);
	return both;
}
