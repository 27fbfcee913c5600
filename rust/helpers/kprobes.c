// SPDX-License-Identifier: GPL-2.0
/* Helpers for linux/kprobes.h. */
#include <linux/err.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "helpers.h"

/* A call of ext_return_probe_watch(), by @task. */
struct ext_watch {
	struct list_head node;
	struct task_struct *task;
	int error;
};

struct ext_return_probe {
	struct kretprobe probe;
	/* Guards @users and @armed. */
	struct mutex arming;
	unsigned int users;
	bool armed;
	struct delayed_work disarm;
	/* Guards @watches. */
	raw_spinlock_t lock;
	struct list_head watches;
};

/* So many returns can be awaited at once. A call that is missed counts as one that has failed. */
#define EXT_RETURNS 128

/* Returns the innermost watch of the current task. */
static struct ext_watch *ext_watch_of_current(struct ext_return_probe *this)
{
	struct ext_watch *watch;

	lockdep_assert_held(&this->lock);
	list_for_each_entry(watch, &this->watches, node) {
		if (watch->task == current)
			return watch;
	}
	return NULL;
}

static struct ext_return_probe *ext_return_probe_of(struct kretprobe_instance *call)
{
	return container_of(get_kretprobe(call), struct ext_return_probe, probe);
}

/* Returns 0 to have the return of this call reported. */
static int ext_return_probe_entry(struct kretprobe_instance *call, struct pt_regs *regs)
{
	struct ext_return_probe *this = ext_return_probe_of(call);
	unsigned long flags;
	bool wanted;

	raw_spin_lock_irqsave(&this->lock, flags);
	wanted = ext_watch_of_current(this);
	raw_spin_unlock_irqrestore(&this->lock, flags);
	return !wanted;
}

static int ext_return_probe_return(struct kretprobe_instance *call, struct pt_regs *regs)
{
	struct ext_return_probe *this = ext_return_probe_of(call);
	int result = (int)regs_return_value(regs);
	struct ext_watch *watch;
	unsigned long flags;

	raw_spin_lock_irqsave(&this->lock, flags);
	watch = ext_watch_of_current(this);
	if (watch && result < 0)
		watch->error = result;
	raw_spin_unlock_irqrestore(&this->lock, flags);
	return 0;
}

static void ext_return_probe_disarm(struct work_struct *work)
{
	struct ext_return_probe *this = container_of(to_delayed_work(work),
						     struct ext_return_probe, disarm);

	mutex_lock(&this->arming);
	if (this->armed && !this->users)
		this->armed = disable_kretprobe(&this->probe);
	mutex_unlock(&this->arming);
}

struct ext_return_probe *ext_return_probe_new(const char *symbol)
{
	struct ext_return_probe *this = kzalloc(sizeof(*this), GFP_KERNEL);
	int err;

	if (!this)
		return ERR_PTR(-ENOMEM);
	mutex_init(&this->arming);
	INIT_DELAYED_WORK(&this->disarm, ext_return_probe_disarm);
	raw_spin_lock_init(&this->lock);
	INIT_LIST_HEAD(&this->watches);
	this->probe.kp.symbol_name = symbol;
	this->probe.kp.flags = KPROBE_FLAG_DISABLED;
	this->probe.entry_handler = ext_return_probe_entry;
	this->probe.handler = ext_return_probe_return;
	this->probe.maxactive = EXT_RETURNS;
	err = register_kretprobe(&this->probe);
	if (err) {
		kfree(this);
		return ERR_PTR(err);
	}
	return this;
}

void ext_return_probe_free(struct ext_return_probe *this)
{
	cancel_delayed_work_sync(&this->disarm);
	unregister_kretprobe(&this->probe);
	kfree(this);
}

int ext_return_probe_arm(struct ext_return_probe *this)
{
	int err = 0;

	mutex_lock(&this->arming);
	if (!this->armed) {
		err = enable_kretprobe(&this->probe);
		this->armed = !err;
	}
	this->users += !err;
	mutex_unlock(&this->arming);
	return err;
}

void ext_return_probe_put(struct ext_return_probe *this)
{
	mutex_lock(&this->arming);
	this->users--;
	mutex_unlock(&this->arming);
	/* To arm and disarm patches the kernel's text. That is for many watches at once. */
	schedule_delayed_work(&this->disarm, HZ);
}

int ext_return_probe_watch(struct ext_return_probe *this, void (*function)(void *arg), void *arg)
{
	struct ext_watch watch = { .task = current };
	int missed = READ_ONCE(this->probe.nmissed);

	raw_spin_lock_irq(&this->lock);
	list_add(&watch.node, &this->watches);
	raw_spin_unlock_irq(&this->lock);
	function(arg);
	raw_spin_lock_irq(&this->lock);
	list_del(&watch.node);
	raw_spin_unlock_irq(&this->lock);
	if (!watch.error && missed != READ_ONCE(this->probe.nmissed))
		return -EAGAIN;
	return watch.error;
}
