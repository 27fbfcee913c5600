/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of one region, as src/ has it, for the model checker spin.
 *
 * One client, one adapter, one process that registers one range once. Against
 * each other run, where a configuration has them (-D):
 *
 *	(always)  the process registers
 *	INV1      the client invalidates, holding its mutex
 *	INV2      the client invalidates, holding nothing
 *	DEREG     the process deregisters
 *	EXIT      the process exits, which deregisters
 *	UNREG     the client unregisters
 *	DETACH    the RDMA device goes: the interposer leaves it
 *
 *	UNMAPS    the client is PEER_MEM_INVALIDATE_UNMAPS
 *	FAILS     the registration may fail, at every step
 *	REFUSES   the driver may refuse to deregister, once
 *	NON_REVOCABLE  the adapter may refuse to be fenced, once
 *	KEEPS     the driver keeps the memory until the MR is deregistered: there is
 *		  no fence (nor an invalidation: a client that needs one is refused)
 *
 * Names are those of the Rust functions. A section under a spin lock is one
 * atomic step; everything that may sleep, and every callback, is a step of its
 * own. Sleeping is explicit: who waits on a condition variable sleeps until it is
 * notified, so that a missing notification is a deadlock here as it is there.
 *
 * The numbers at the assertions are those of Documentation/locking.rst. Each
 * BREAK_* makes one mistake; scripts/model demands that it is found.
 */

/* Tasks. The number also names the task that holds the resources to undo. */
#define NO_TASK	0
#define T_REG	1
#define T_INV1	2
#define T_INV2	3
#define T_DEREG	4
#define T_EXIT	5
#define T_UNREG	6
#define T_DETACH 7
#define STATE	8	/* it is in the state */

/* lifecycle.rs: State and what is in it. */
mtype = { Registering, Live, Closing, Handed, Revoking, Revoked, Ending, Closed };
mtype life = Registering;
bool wanted, fenced;
bool asleep[8];			/* Lifecycle::changed */
byte pending;			/* ghost: a task that has changed it is about to notify */
byte held = NO_TASK;		/* ghost: the task that holds the resources */

/* region.rs, callbacks.rs: what is in the region and in its H. */
bool acquired;			/* Region::acquired is Some */
bool is_mapped;			/* Pages::mapped is Some */
bool link;			/* the Attachment is there: a use of the PD's queue pair */

/* client.rs, registry.rs, index.rs */
bool leaving;
byte uses;
bool drain_asleep;		/* Client::drained */
bool listed = 1;		/* in CLIENTS */
bool ticket;			/* in Client::tickets */
bool in_table;			/* in Adapter::regions */
bool hook;			/* Attachment::leave_to_driver */

/* interpose.rs: whether the device has our functions, how many tasks are in them */
bool our_reg = 1, our_dereg = 1;
byte reg_edge, registering, dereg_edge, deregistering;
bool gone;			/* Attached is freed, remove has returned */

/* The client: its mutex, and what it has been called for. */
byte mutex = NO_TASK;
byte n_acquire, n_get, n_map, n_unmap, n_put, n_release;
bool pinned, mapped, known;	/* known: it has the ticket from get_pages */
bool undone_by_client;		/* UNMAPS */

/* The adapter and the driver. */
bool can_touch;			/* the adapter reaches the memory through the MR */
bool mr;			/* the driver has the MR */

/* The process. uobject: uverbs lets one task at a time destroy an object. */
bool returned, user_has_mr, uobject;

/* What has been promised. */
bool invalidated;		/* an invalidation of the region has returned */
bool unregistered;		/* unregister has returned */
byte undoer;			/* who undoes, or has undone */

bool refused, resisted;		/* REFUSES, NON_REVOCABLE: once is enough */

#ifdef BREAK_LOCK_HELD
byte core_lock = NO_TASK;	/* a lock of the core that is held across callbacks */
#endif

/* --- the kernel's primitives --- */

inline notify_all()
{
	d_step {
		pending--;
		asleep[1] = 0; asleep[2] = 0; asleep[3] = 0; asleep[4] = 0;
		asleep[5] = 0; asleep[6] = 0; asleep[7] = 0
	}
}

/* --- the client's callbacks --- */

/*
 * All take the client's mutex, except in the task that holds it: the client knows
 * its own invalidation. dma_map takes nothing: an invalidation under the mutex may
 * wait for the registration.
 */
inline enter_client(me)
{
	atomic {
		if
		:: mutex == me -> locked = 0
		:: mutex == NO_TASK -> mutex = me; locked = 1
		fi
	}
	assert(!unregistered)			/* 6 */
}

inline leave_client()
{
	if
	:: locked -> mutex = NO_TASK
	:: else
	fi
}

inline dma_unmap(me)
{
	enter_client(me);
	d_step {
		assert(n_map == 1 && n_unmap == 0 && n_put == 0);	/* 2 */
		assert(!can_touch);					/* 4 */
		assert(!gone || me != T_DETACH);
		mapped = 0; n_unmap++;
		leave_client()
	}
}

inline put_pages(me)
{
	/*
	 * 5: this may wait for the mutex, so no invalidation may sleep unless a task
	 * is about to wake it.
	 */
	assert(pending || (!asleep[T_INV1] && !asleep[T_INV2]));
	enter_client(me);
	d_step {
		assert(n_get == 1 && n_put == 0 && n_release == 0);	/* 2 */
		assert(n_unmap == n_map);				/* 2 */
		assert(!can_touch);					/* 4 */
		pinned = 0; n_put++;
		leave_client()
	}
}

inline release(me)
{
	enter_client(me);
	d_step {
		assert(n_acquire == 1 && n_release == 0);		/* 2 */
		/* What is left to the client is not the core's to wait for. */
		assert(n_put == n_get || undone_by_client);		/* 2 */
		n_release++;
		leave_client()
	}
}

/* --- client.rs --- */

inline drop_use()
{
	atomic { assert(uses > 0); uses--; last = (uses == 0) };
	if
	:: last -> drain_asleep = 0
	:: else
	fi
}

inline wait_unused()
{
	do
	:: atomic {
		if
		:: uses == 0 -> break
		:: else -> drain_asleep = 1
		fi
	   };
	   !drain_asleep
	od
}

/* --- lifecycle.rs --- */

inline take(me, until_undone)
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
		:: life == Revoking && !until_undone -> got = 0; break
		:: life == Revoking && until_undone -> asleep[me] = 1
#else
		:: life == Revoking && fenced && !until_undone -> got = 0; break
		:: life == Revoking && !(fenced && !until_undone) -> asleep[me] = 1
#endif
#ifdef BREAK_ENDING_IS_CLOSED
		:: life == Ending -> got = 0; break
#else
		:: life == Ending && !until_undone -> got = 0; break
		:: life == Ending && until_undone -> asleep[me] = 1
#endif
		:: life == Revoked || life == Closed -> got = 0; break
		:: life == Live ->
			life = Revoking; fenced = 0; was_fenced = 0;
			assert(held == STATE); held = me;
			got = 1; break
		:: life == Handed ->
			life = Revoking; was_fenced = fenced;
			assert(held == STATE); held = me;
			if
			:: fenced -> undoer = me
			:: else
			fi;
			got = 1; break
		fi
	   };
	   !asleep[me]
	od
}

/* registered and reopen: `from` is where the caller comes from. */
inline lives(me, from)
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

/* abandon and closed, and what the caller does with the result. */
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
		do
		:: atomic {
			if
			:: life == Revoked -> life = Closed; break
			:: else -> asleep[me] = 1
			fi
		   };
		   !asleep[me]
		od;
#ifdef BREAK_UNDO_TWICE
		undo(me)
#endif
	:: else ->
		/* No task sleeps in take. */
		undo(me);
		/* ended */
		atomic { life = Closed; pending++ };
		notify_all()
	fi
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

inline close_left(me)
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

/* --- region.rs --- */

/* Dropping Held: the attachment, dma_unmap, put_pages, the use of the client. */
inline undo(me)
{
#ifdef BREAK_LOCK_HELD
	atomic { core_lock == NO_TASK -> core_lock = me };
#endif
	link = 0;
	if
	:: is_mapped -> dma_unmap(me); is_mapped = 0
	:: else
	fi;
	put_pages(me);
	held = NO_TASK;
	drop_use();
#ifdef BREAK_LOCK_HELD
	core_lock = NO_TASK
#endif
}

inline finish(me)
{
	ticket = 0;
	atomic { mine = acquired; acquired = 0 };
	if
	:: mine -> release(me); drop_use()
	:: else
	fi
}

/* The LOCAL_INV, with its wait. The MR must be there. */
inline fence()
{
#ifdef KEEPS
	assert(link);
	failed = 1
#else
	assert(mr && link);
	if
#ifdef NON_REVOCABLE
	:: !resisted -> resisted = 1; failed = 1
#endif
	:: can_touch = 0; failed = 0
	fi;
	assert(mr && link)
#endif
}

/* Afterwards `left`: the teardown was left to the driver. */
inline fence_and_undo(me, until_undone, leave_to_client, leave_to_driver)
{
	do
	:: take(me, until_undone);
	   if
	   :: !got -> break
	   :: else
	   fi;
	   failed = 0;
#ifdef KEEPS
	   if
	   :: leave_to_driver && !was_fenced ->
		hook = 1;
		/* unfenced */
		atomic { life = Live; held = STATE; left = 1; pending++ };
		notify_all();
		break
	   :: else
	   fi;
#endif
#ifndef BREAK_NO_FENCE
	   if
	   :: !was_fenced -> fence()
	   :: else
	   fi;
#endif
	   if
	   :: failed ->
		/* unfenced, and again a second later */
		atomic { life = Live; held = STATE; pending++ };
		notify_all()
	   :: else ->
		/* fenced */
		atomic { life = Revoking; fenced = 1; undoer = me };
#ifndef BREAK_NO_NOTIFY
		pending++;
		notify_all();
#endif
		if
		:: leave_to_client ->
#ifndef BREAK_LINK_LAST
			link = 0;
#endif
			atomic { undone_by_client = 1; held = NO_TASK };
			drop_use()
		:: else -> undo(me)
		fi;
		/* revoked */
		atomic { life = Revoked; pending++ };
		notify_all();
#ifdef BREAK_LINK_LAST
		link = 0;
#endif
		break
	   fi
	od
}

inline revoke(me)
{
	fence_and_undo(me, 1, 0, 0);
	in_table = 0;
	finish(me)
}

/* The adapter goes. */
inline part(me)
{
	left = 0;
	fence_and_undo(me, 1, 0, 1);
	in_table = 0;
	if
	:: left
	:: else -> finish(me)
	fi
}

/* --- the user's side: interpose.rs, hooks.rs, dispatch.rs, region.rs --- */

#ifdef FAILS
#define MAY_FAIL(where) :: goto where
#else
#define MAY_FAIL(where)
#endif

proctype register()
{
	bool locked, last, mine, handed;

	/* uverbs reads the operation, then calls it. */
	atomic {
		if
		:: our_reg -> reg_edge++
		:: else -> goto not_ours
		fi
	};
	assert(!gone);
	atomic { reg_edge--; registering++ };

	/* Client::enter, acquire */
	atomic {
		if
		:: leaving -> goto out
		:: else -> uses++
		fi
	};
	enter_client(T_REG);
	d_step { n_acquire++; leave_client() };

	/* Client::issue */
	if
	:: ticket = 1
	MAY_FAIL(no_ticket)
	fi;

	/* Region::build */
#ifndef BREAK_NO_LEAVING_CHECK
	if
	:: leaving -> goto abandon_empty
	:: else
	fi;
#endif
	enter_client(T_REG);
	if
	:: d_step { n_get++; pinned = 1; known = 1; leave_client() }
#ifdef FAILS
	/* It may have let the ticket out all the same. */
	:: d_step { known = 1; leave_client() }; goto abandon_empty
#endif
	fi;
	atomic { uses++; held = T_REG };
	if
	:: skip
	MAY_FAIL(abandon)		/* no memory for the table's entry */
	fi;
	if
	:: n_map++; mapped = 1; is_mapped = 1
	:: skip				/* a software device: no dma_map */
	MAY_FAIL(abandon)
	fi;
	link = 1;
	if
	:: atomic { assert(!invalidated); assert(!gone); mr = 1; can_touch = 1 }
	MAY_FAIL(abandon)
	fi;
	in_table = 1;
	acquired = 1;
	lives(T_REG, Registering);
	user_has_mr = 1;
	goto out;

abandon:
	acquired = 1;
	end(T_REG);
	finish(T_REG);
	goto out;

abandon_empty:
	acquired = 1;
	atomic { life = Closed; pending++ };
	notify_all();
	finish(T_REG);
	goto out;

no_ticket:
	/* No other task has seen the region. */
	life = Closed;
	release(T_REG);
	drop_use();

out:
	assert(!gone);
	atomic { registering--; reg_edge++ };
	assert(!gone);
	reg_edge--;
not_ours:
	returned = 1
}

/* The driver's own dereg_mr. It unmaps the memory; then the hook runs. */
inline original(me)
{
	atomic {
		assert(mr);
		if
#ifdef REFUSES
		:: !refused -> refused = 1; ok = 0
#endif
		:: mr = 0; can_touch = 0; ok = 1
		fi
	};
#ifdef KEEPS
	if
	:: ok && hook ->
		hook = 0;
		/* OnDetach::detached */
		close_left(me);
		if
		:: got -> end(me); finish(me)
		:: else
		fi
	:: else
	fi
#endif
}

/* Region::deregister */
inline deregister(me)
{
	close(me);
	/* No other task uses the MR from here on. */
	original(me);
	if
	:: found == Live && !ok -> lives(me, Closing)
	:: found == Live && ok -> in_table = 0; end(me); finish(me)
	:: found == Revoked && ok -> in_table = 0; finish(me)
	:: found == Closed && ok -> finish(me)
	:: found != Live && !ok
	fi
}

/* ib_dereg_mr_user, for ibv_dereg_mr() and for the end of the process. */
inline dereg_mr(me)
{
	returned;
	atomic { !uobject -> uobject = 1 };
	if
	:: user_has_mr ->
		atomic {
			if
			:: our_dereg -> dereg_edge++; ours = 1
			:: else -> ours = 0
			fi
		};
		if
		:: ours ->
			assert(!gone);
			atomic {
				dereg_edge--; deregistering++;
				has_region = in_table
			};
			if
			:: has_region -> deregister(me)
			:: else -> original(me)
			fi;
			assert(!gone);
			atomic { deregistering--; dereg_edge++ };
			assert(!gone);
			dereg_edge--
		:: else -> original(me)
		fi;
		if
		:: ok ->
			/* The user may deallocate the PD now. */
			assert(!link);
			user_has_mr = 0
		:: else
		fi
	:: else
	fi;
	uobject = 0
}

#ifdef DEREG
proctype dereg()
{
	bool locked, last, mine, handed, ok, ours, has_region, got;
	mtype found;

	dereg_mr(T_DEREG)
}
#endif

#ifdef EXIT
proctype exit()
{
	bool locked, last, mine, handed, ok, ours, has_region, got;
	mtype found;

	dereg_mr(T_EXIT);
	/* uverbs asks a driver that refuses once more. */
	if
	:: user_has_mr -> dereg_mr(T_EXIT)
	:: else
	fi
}
#endif

/* --- the client's side: abi.rs --- */

#ifdef UNMAPS
#define LEAVES	1
#else
#define LEAVES	0
#endif

/*
 * The invalidate callback, and what a client may believe when it returns. `me` may
 * hold the mutex.
 */
inline invalidate(me)
{
	atomic { has_region = listed && ticket };
	if
	:: has_region ->
#ifdef BREAK_LOCK_HELD
		core_lock == NO_TASK;
#endif
		fence_and_undo(me, 0, LEAVES, 0)
	:: else
	fi;
	atomic {
		invalidated = 1;
		assert(!can_touch);					/* 4 */
#ifndef UNMAPS
		/*
		 * The pages are put, unless another task has begun to undo: it may
		 * be waiting for the mutex that we hold.
		 */
		assert(!pinned || (undoer != NO_TASK && undoer != me))	/* 4 */
#endif
	}
}

#ifdef INV1
proctype inv1()
{
	bool locked, last, has_region, got, was_fenced, failed, left;

	/* Only once get_pages has returned; it takes the mutex too. */
	if
	:: atomic { known && mutex == NO_TASK -> mutex = T_INV1 };
	   invalidate(T_INV1);
	   mutex = NO_TASK
	:: atomic { returned && !known }
	fi
}
#endif

#ifdef INV2
proctype inv2()
{
	bool locked, last, has_region, got, was_fenced, failed, left;

	if
	:: known -> invalidate(T_INV2)
	:: atomic { returned && !known }
	fi
}
#endif

#ifdef UNREG
/* Registry::end */
proctype unregister()
{
	bool locked, last, mine, has_region, got, was_fenced, failed, left;

	leaving = 1;
	do
	:: atomic { has_region = ticket };
	   if
	   :: has_region -> revoke(T_UNREG)
	   :: else -> break
	   fi
	od;
#ifndef BREAK_NO_DRAIN
	wait_unused();
#endif
	listed = 0;
	atomic {
		unregistered = 1;
		assert(n_acquire == n_release);				/* 6 */
		assert(undone_by_client || (!pinned && !mapped));	/* 6 */
		assert(!can_touch)					/* 6 */
	}
}
#endif

#ifdef DETACH
/* Interposer::remove. A Tasks RCU grace period waits for the tasks on an edge. */
proctype detach()
{
	bool locked, last, mine, has_region, got, was_fenced, failed, left;

	our_reg = 0;
#ifndef BREAK_NO_GRACE
	reg_edge == 0;
#endif
	registering == 0;
	reg_edge == 0;
	do
	:: atomic { has_region = in_table };
	   if
	   :: has_region -> part(T_DETACH)
	   :: else -> break
	   fi
	od;
	our_dereg = 0;
	dereg_edge == 0;
	deregistering == 0;
	dereg_edge == 0;
	atomic {
		gone = 1;
#ifndef KEEPS
		assert(!can_touch && !link);
		assert(undone_by_client || (!pinned && !mapped))
#endif
	}
}
#endif

init {
	atomic {
		run register();
#ifdef INV1
		run inv1();
#endif
#ifdef INV2
		run inv2();
#endif
#ifdef DEREG
		run dereg();
#endif
#ifdef EXIT
		run exit();
#endif
#ifdef UNREG
		run unregister();
#endif
#ifdef DETACH
		run detach();
#endif
	}
	/* Everybody comes to an end; then all is balanced, or the region lives. */
	_nr_pr == 1;
	assert(mutex == NO_TASK && registering == 0 && deregistering == 0);
	if
	:: life == Live ->
		assert(can_touch && mr && pinned && (in_table || hook) && ticket);
		assert(n_put == 0 && n_unmap == 0 && n_release == 0)
	:: else ->
		assert(!can_touch && !link && held == NO_TASK);
		assert(n_put == n_get && n_unmap == n_map || undone_by_client);
		assert(n_release == n_acquire || (life == Revoked && user_has_mr && ticket));
		assert((n_acquire == n_release) == (uses == 0))
	fi
}
