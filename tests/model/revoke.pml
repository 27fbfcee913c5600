/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Revocation: Region::revoke_for, and the tasks of the client that call it. The models
 * that include this define before, for the region that they have,
 *
 *	fence()		   sets `failed`
 *	leave(me)	   of a removal, may leave the region to the driver and set `left`
 *	detach_overdue()   the same, after a fence has failed
 *	forget_mrs(), forget()  the end of the region's MR, and of the region
 */

/*
 * The second between two attempts to fence: longer than any step of other tasks. Then
 * all tasks that sleep so wake up.
 */
#if defined(LIVE) && !defined(BREAK_NO_PAUSE)
bool sleeps[8];

inline pause(me)
{
	sleeps[me] = 1;
	do
	:: !sleeps[me] -> break
	:: atomic {
		timeout ->
		sleeps[T_INV1] = 0; sleeps[T_INV2] = 0; sleeps[T_UNREG] = 0; sleeps[T_DETACH] = 0
	   }
	od
}
#else
#define pause(me) skip
#endif

#ifdef UNMAPS
#define LEAVES	1
#else
#define LEAVES	0
#endif

/* Region::release, after which nothing refers to the region. Lifecycle::take_left is one step. */
inline finish(me)
{
	ticket = 0;
	atomic { mine = acquired; acquired = 0 };
	when(mine, release(me); drop_use(); forget())
}

/* Region::revoke_for. Afterwards `left`: the region ends later. */
inline revoke_for(me, until_torn_down, leave_to_client, removal)
{
	do
	:: take(me, until_torn_down);
	   when(!got, break);
	   failed = 0;
	   when(removal && !was_fenced, leave(me));
	   when(left, break);
#ifndef BREAK_NO_FENCE
	   when(!was_fenced, fence());
#endif
	   when(failed && removal, detach_overdue());
	   when(left, break);
	   if
	   :: failed ->
		unfenced();
		pause(me)
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
		:: else -> tear_down(me)
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

/* Region::revoke, of a client that unregisters */
inline revoke(me)
{
	left = 0;
	revoke_for(me, 1, 0, 0);
	forget_mrs();
	finish(me)
}

/* --- the client's tasks: abi.rs, registry.rs --- */

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
		left = 0;
		revoke_for(me, 0, LEAVES, 0)
	:: else
	fi;
	atomic {
		invalidated = 1;
		assert(!can_touch);					/* 4 */
#ifndef UNMAPS
		/*
		 * The pages are put, unless another task has begun to tear down: it may
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
/* registry::end */
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

/* When all tasks have ended: everything is balanced, unless the region lives. */
inline check_balance(lives, kept)
{
	assert(mutex == NO_TASK);
	if
	:: life == Live ->
		assert(lives);
		assert(pinned && ticket && n_put == 0 && n_unmap == 0 && n_release == 0)
	:: else ->
		assert(!can_touch && !link && held == NO_TASK);
		assert(n_put == n_get && n_unmap == n_map || undone_by_client);
		assert(n_release == n_acquire || (life == Revoked && ticket && kept));
		assert((n_acquire == n_release) == (uses == 0))
	fi
}
