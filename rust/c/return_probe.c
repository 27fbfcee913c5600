// SPDX-License-Identifier: GPL-2.0
/* A probe of the errors that a kernel function returns. */
#include <linux/err.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "logic.h"

struct ext_return_probe {
	struct kretprobe probe;
	/* Guards @users and @armed. */
	struct mutex arming;
	unsigned int users;
	bool armed;
	struct delayed_work disarm;
};

/* Maximum number of returns awaited at once. A missed call counts as failed. */
#define EXT_RETURNS 128

/*
 * The tasks in ext_return_probe_watch(). A probe is hit in a context like an NMI, where no lock can
 * be taken. The values of a task are the returned error and the probe.
 */
static struct ext_task_table ext_watching;
/* Woken when a task leaves the table, for those that have found no place in it. */
static DECLARE_WAIT_QUEUE_HEAD(ext_watch_ended);

static unsigned long ext_current(void)
{
	return (unsigned long)current;
}

/*
 * Returns the entry of the current task if the task watches @probe. Only that task uses the
 * entry.
 */
static struct ext_task_entry *ext_watch_of_current(const struct ext_return_probe *probe)
{
	const struct ext_task_entry *entry = ext_task_table_find(&ext_watching, ext_current());

	return entry && entry->values[1] == probe ? (struct ext_task_entry *)entry : NULL;
}

static struct ext_return_probe *ext_return_probe_of(struct kretprobe_instance *call)
{
	return container_of(get_kretprobe(call), struct ext_return_probe, probe);
}

/* Returns 0 if the return of this call shall be reported. */
static int ext_return_probe_entry(struct kretprobe_instance *call, struct pt_regs *regs)
{
	return !ext_watch_of_current(ext_return_probe_of(call));
}

static int ext_return_probe_return(struct kretprobe_instance *call, struct pt_regs *regs)
{
	struct ext_task_entry *entry = ext_watch_of_current(ext_return_probe_of(call));
	int result = (int)regs_return_value(regs);

	if (entry && result < 0)
		entry->values[0] = ERR_PTR(result);
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
	/* Arming patches the kernel's text, so many watches within a second share one arming. */
	schedule_delayed_work(&this->disarm, HZ);
}

int ext_return_probe_watch(struct ext_return_probe *this, void (*function)(void *arg), void *arg)
{
	struct ext_task_entry *entry = (struct ext_task_entry *)ext_task_table_find(&ext_watching, ext_current());
	unsigned int missed = READ_ONCE(this->probe.nmissed);
	bool nested = entry;
	void *outer[2];
	int error;

	if (!entry)
		wait_event(ext_watch_ended,
			   (entry = ext_task_table_enter(&ext_watching, ext_current())));
	/* Of two nested watches the inner watch sees the errors. */
	memcpy(outer, entry->values, sizeof(outer));
	entry->values[0] = NULL;
	entry->values[1] = this;
	function(arg);
	error = PTR_ERR_OR_ZERO(entry->values[0]);
	if (nested) {
		memcpy(entry->values, outer, sizeof(outer));
	} else {
		ext_task_table_leave(entry);
		/* The order is that of wait_event(). */
		if (wq_has_sleeper(&ext_watch_ended))
			wake_up_all(&ext_watch_ended);
	}
	if (!error && missed != READ_ONCE(this->probe.nmissed))
		return -EAGAIN;
	return error;
}
