/* SPDX-License-Identifier: GPL-2.0 */
/*
 * src/data/lifecycle.rs: the states of a region and the tasks that wait for them.
 *
 * Names are those of the Rust functions. A section under a spin lock is one atomic
 * step. Sleeping is explicit: a task that waits on a condition variable sleeps until
 * it is notified, so a missing notification is a deadlock here as it is there.
 *
 * The numbers at assertions are those of the invariants in Documentation/locking.rst.
 */

#define when(condition, steps)  if :: condition -> steps :: else fi
/* Sleeps until another task has reset the flag, and looks again. */
#define wait_for(flag, condition, step) \
	do :: atomic { if :: condition -> step; break :: else -> flag = 1 fi }; !flag od

/* Tasks. The number also names the task that holds the resources to tear down. */
#define NO_TASK	0
#define T_REG	1	/* registers, or exports */
#define T_INV1	2	/* the client, under its mutex */
#define T_INV2	3	/* the client */
#define T_DEREG	4	/* deregisters; the first importer of an export */
#define T_EXIT	5	/* the end of the process; the second importer */
#define T_UNREG	6	/* the client unregisters */
#define T_DETACH 7	/* the RDMA device is removed */
#define STATE	8	/* the resources are in the state */

/* State, and what is in it. */
mtype = { Registering, Live, Closing, Handed, Revoking, Revoked, Ending, Closed };
mtype life = Registering;
bool wanted, fenced;
bool asleep[8];			/* Lifecycle::changed */
byte pending;			/* ghost: a task that has changed the state notifies next */
byte held = NO_TASK;		/* ghost: the task that holds the resources */
byte undoer;			/* ghost: the task that tears down, or has */

inline notify_all()
{
	d_step {
		pending--;
		asleep[1] = 0; asleep[2] = 0; asleep[3] = 0; asleep[4] = 0;
		asleep[5] = 0; asleep[6] = 0; asleep[7] = 0
	}
}

inline take(me, until_torn_down)
{
	do
	:: atomic {
		if
		:: life == Registering || life == Closing ->
#ifdef BREAK_NO_WAIT
			got = 0; break
#else
			wanted = 1; asleep[me] = 1
#endif
#ifdef BREAK_UNTIL_UNDONE
		:: life == Revoking -> asleep[me] = 1
#elif defined(BREAK_NOT_EVEN_FENCED)
		:: life == Revoking && !until_torn_down -> got = 0; break
		:: life == Revoking && until_torn_down -> asleep[me] = 1
#else
		:: life == Revoking && fenced && !until_torn_down -> got = 0; break
		:: life == Revoking && !(fenced && !until_torn_down) -> asleep[me] = 1
#endif
#ifdef BREAK_ENDING_IS_CLOSED
		:: life == Ending -> got = 0; break
#else
		:: life == Ending && !until_torn_down -> got = 0; break
		:: life == Ending && until_torn_down -> asleep[me] = 1
#endif
		:: life == Revoked || life == Closed -> got = 0; break
		:: life == Live ->
			life = Revoking; fenced = 0; was_fenced = 0;
			assert(held == STATE); held = me;
			got = 1; break
		:: life == Handed ->
			life = Revoking; was_fenced = fenced;
			assert(held == STATE); held = me;
			when(fenced, undoer = me);
			got = 1; break
		fi
	   };
	   !asleep[me]
	od
}

/* registered and reopen: `from` is the state that the caller comes from. */
inline make_live(me, from)
{
	atomic {
		assert(held == me && life == from);
		held = STATE;
		if
		:: wanted -> life = Handed; fenced = 0
		:: else -> life = Live
		fi;
		pending++
	};
	notify_all()
}

/* unfenced */
inline unfenced()
{
	atomic { life = Live; held = STATE; pending++ };
	notify_all()
}

/* abandon and closed, and the teardown that follows. */
inline end(me)
{
	atomic {
		assert(held == me && (life == Registering || life == Closing));
#ifdef BREAK_NO_HANDING
		handed = 0;
#else
		handed = wanted;
#endif
		if
		:: handed ->
			life = Handed; fenced = 1; held = STATE;
			pending++;
			notify_all()
		:: else ->
			life = Ending; undoer = me
		fi
	};
	if
	:: handed ->
		wait_for(asleep[me], life == Revoked, life = Closed);
#ifdef BREAK_UNDO_TWICE
		tear_down(me)
#endif
	:: else ->
		/* No task sleeps in take. */
		tear_down(me);
		/* torn_down */
		atomic { life = Closed; pending++ };
		notify_all()
	fi
}

/* abandon_empty */
inline abandon_empty()
{
	atomic { life = Closed; pending++ };
	notify_all()
}

inline close(me)
{
	do
	:: atomic {
		if
		:: life == Live ->
			life = Closing; wanted = 0;
			assert(held == STATE); held = me;
			found = Live; break
		:: life == Revoked || life == Closed || life == Ending -> found = life; break
		:: else -> asleep[me] = 1
		fi
	   };
	   !asleep[me]
	od
}

inline close_deferred(me)
{
	do
	:: atomic {
		if
		:: life == Live ->
			life = Closing; wanted = 0;
			assert(held == STATE); held = me;
			got = 1; break
		:: life == Revoking || life == Handed -> asleep[me] = 1
#ifdef BREAK_HOOK_WAITS
		:: life == Closing -> asleep[me] = 1
		:: life == Revoked || life == Closed || life == Ending -> got = 0; break
#else
		:: life == Closing || life == Revoked || life == Closed || life == Ending ->
			got = 0; break
#endif
		fi
	   };
	   !asleep[me]
	od
}
