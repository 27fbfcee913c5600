// SPDX-License-Identifier: GPL-2.0
/* A probe of the errors that a kernel function returns. */
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "logic.h"

/*
 * Number of tasks that may watch a probe at once; the others wait for their turn. So an instance is
 * left for each watched call, however many tasks watch. The driver, mlx5, has as many requests in
 * flight: a task that waits here would wait there, with the reservation lock held.
 */
#define EXT_WATCHES 128

struct ext_return_probe {
	struct kretprobe probe;
	struct semaphore turns;
	/* Guards @users and @armed. */
	struct mutex arming;
	unsigned int users;
	bool armed;
	struct delayed_work disarm;
};

static struct ext_return_probe *ext_return_probe_of(struct kretprobe_instance *call)
{
	return container_of(get_kretprobe(call), struct ext_return_probe, probe);
}

/*
 * Returns the current task's watch of the probe, the inner one of two. Callers of the function are
 * tasks without the lock of the set.
 */
static struct ext_watch *ext_watch_of_current(struct kretprobe_instance *call)
{
	return ext_task_value_of(ext_return_probe_of(call), (unsigned long)current);
}

/* Returns 0 if the return of this call shall be reported. */
static int ext_return_probe_entry(struct kretprobe_instance *call, struct pt_regs *regs)
{
	return !ext_watch_of_current(call);
}

static int ext_return_probe_return(struct kretprobe_instance *call, struct pt_regs *regs)
{
	struct ext_watch *watch = ext_watch_of_current(call);
	int result = (int)regs_return_value(regs);

	if (watch) {
		watch->seen = true;
		if (result < 0)
			watch->error = result;
	}
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
	sema_init(&this->turns, EXT_WATCHES);
	mutex_init(&this->arming);
	INIT_DELAYED_WORK(&this->disarm, ext_return_probe_disarm);
	this->probe.kp.symbol_name = symbol;
	this->probe.kp.flags = KPROBE_FLAG_DISABLED;
	this->probe.entry_handler = ext_return_probe_entry;
	this->probe.handler = ext_return_probe_return;
	/* A call that is not watched has an instance while its CPU is in the entry handler. */
	this->probe.maxactive = EXT_WATCHES + num_possible_cpus();
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

static int ext_return_probe_arm(struct ext_return_probe *this)
{
	int err = 0;

	mutex_lock(&this->arming);
	/* Once its module is gone, the function is not called any more. */
	if (!this->armed && !kprobe_gone(&this->probe.kp)) {
		err = enable_kretprobe(&this->probe);
		this->armed = !err;
	}
	this->users += !err;
	mutex_unlock(&this->arming);
	return err;
}

int ext_watch_begin(struct ext_watch *watch, struct ext_return_probe *probe)
{
	int err;

	down(&probe->turns);
	err = ext_return_probe_arm(probe);
	if (err) {
		up(&probe->turns);
		return err;
	}
	watch->probe = probe;
	watch->missed = READ_ONCE(probe->probe.nmissed);
	watch->error = 0;
	watch->seen = false;
	ext_task_value_add(&watch->task, probe, (unsigned long)current, watch);
	return 0;
}

int ext_watch_error(const struct ext_watch *watch)
{
	/* Not expected: kprobes can miss a call while another probe is handled. */
	if (!watch->seen && watch->missed != READ_ONCE(watch->probe->probe.nmissed))
		return -EAGAIN;
	return watch->error;
}

void ext_watch_end(struct ext_watch *watch)
{
	struct ext_return_probe *probe = watch->probe;

	ext_task_value_remove(&watch->task);
	mutex_lock(&probe->arming);
	probe->users--;
	mutex_unlock(&probe->arming);
	up(&probe->turns);
	/* Arming patches the kernel's text, so many watches within a second share one arming. */
	schedule_delayed_work(&probe->disarm, HZ);
}
