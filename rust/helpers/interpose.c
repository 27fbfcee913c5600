// SPDX-License-Identifier: GPL-2.0
/*
 * The path of host memory through the interposed verbs.
 *
 * These functions do not sleep outside of the functions that they call. So a Tasks RCU grace period
 * at module unload waits for every task inside these functions or about to enter one. A task in a
 * called function is counted, or leaves no frame of these functions on the stack.
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
 * The data by device. All data is in a table; the path of host memory uses the slots. A device is
 * only in the table if another device has the slot, or during removal of the device. ib_core's
 * array of client data is not read, as the number of a client belongs to another client as soon as
 * the first client is unregistered. RCU protects the data.
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

/* The caller must keep preemption disabled, an RCU read-side section, while using the result. */
static __always_inline struct ext_gates *find(const struct ib_device *dev)
{
	struct ext_gates *gates = smp_load_acquire(slot_of(dev));

	return gates && gates->owner == dev ? gates : NULL;
}

/* Like find(), but for all devices. */
static noinline struct ext_gates *find_in_table(const struct ib_device *dev)
{
	struct ext_gates *gates;

	/* The caller has read an operation of the device, written after the table. */
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

	/* The driver handles on-demand memory itself, without the mark used by this path. */
	if ((asked & EXT_ASKED_MASK) == EXT_ASKED_ALWAYS || access & IB_ACCESS_ON_DEMAND)
		return false;
	return asked == EXT_ASKED_NEVER ||
	       ext_native_memory_at(start) == EXT_MEMORY_ORDINARY;
}

/*
 * The arguments of a registration, stored in the room of a mark: kept in registers across the call,
 * the arguments would need a larger stack frame.
 */
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
 * The driver returns here, so this call must be counted. @closed need not be tested: device removal
 * withdraws the data, waits for an RCU grace period, and then for the counted calls.
 */
struct ib_mr *ext_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct ext_gates *gates;
	struct ext_mark *mark;
	struct ib_mr *mr;

	/* The operation may sleep, so interrupts are enabled on entry. */
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
 * The caller got the key after it was inserted, and the key stays in the set. So the reader sees a
 * count of keys that is not 0, and sees the bitmap if the allocation of the bitmap succeeded: each
 * is one variable, and a task never reads an older value of one variable. The key is represented by
 * a bit, or by a part of the count @unknown. The representation may change once, from the bit to
 * @unknown: another key with the same bit is first counted in @unknown and removed later, and the
 * removal clears the bit. The writer releases the cleared bit after the count, so a reader that
 * sees the cleared bit and then reads the count sees the count:
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
 * The key of an MR of the hooks is in the set before reg_user_mr or rereg_user_mr returns the MR to
 * uverbs, and uverbs then publishes the MR under a lock. So a task that deregisters the MR finds
 * the key. If the key is not in the set, the MR does not belong to the hooks, and only the driver's
 * function is needed. The driver's function stays while the MR exists, as the caller in ib_core
 * relies on, too.
 *
 * The call of the driver is the last action of these functions, and leaves no frame of these
 * functions on the stack. So no count is needed to keep this code until the driver returns.
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

/* A tracer of returns changes the address, so the function is not traced. */
static notrace noinline int record_return(struct ib_mr *mr, struct ib_udata *udata)
{
	returns_to = __builtin_return_address(0);
	return 0;
}

/* The only place that calls the compared functions. */
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
