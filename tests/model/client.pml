/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The client of a region: its callbacks, the tasks in it, and the teardown that calls
 * it. A callback is a step of its own.
 */

/* callbacks.rs, client.rs, region.rs */
bool acquired;			/* the context is not released */
bool is_mapped;			/* Acquired::mapped is Some */
bool link;			/* the Attachment is there */
bool leaving;			/* Gate::closed */
byte uses;			/* InFlightCount::count */
bool drain_asleep;		/* Client::drained */
bool listed = 1;		/* the client is in CLIENTS */
bool ticket;			/* the region is in Client::regions */

/* The client: its mutex, and what it has been called for. */
byte mutex = NO_TASK;
byte n_acquire, n_get, n_map, n_unmap, n_put, n_release;
bool pinned, mapped, known;	/* known: it has the ticket from get_pages */
bool undone_by_client;		/* UNMAPS */

bool can_touch;			/* an adapter can access the memory */
bool returned;			/* the registration has returned */

/* What has been promised. */
bool invalidated;		/* an invalidation of the region has returned */
bool unregistered;		/* ib_unregister_peer_memory_client() has returned */

#ifdef BREAK_LOCK_HELD
byte core_lock = NO_TASK;	/* a lock of the core that is held across callbacks */
#endif

#ifdef FAILS
#define MAY_FAIL(where) :: goto where
#else
#define MAY_FAIL(where)
#endif

/* --- callbacks --- */

/*
 * All take the client's mutex, except in the task that holds it: the client recognizes
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
	when(locked, mutex = NO_TASK)
}

inline dma_unmap(me)
{
	enter_client(me);
	d_step {
		assert(n_map == 1 && n_unmap == 0 && n_put == 0);	/* 2 */
		assert(!can_touch);					/* 4 */
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
	when(last, drain_asleep = 0)
}

inline wait_unused()
{
	wait_for(drain_asleep, uses == 0, skip)
}

/* --- region.rs --- */

/* Dropping Resources: the attachment, dma_unmap, put_pages, the use of the client. */
inline tear_down(me)
{
#ifdef BREAK_LOCK_HELD
	atomic { core_lock == NO_TASK -> core_lock = me };
#endif
	link = 0;
	when(is_mapped, dma_unmap(me); is_mapped = 0);
	put_pages(me);
	held = NO_TASK;
	drop_use();
#ifdef BREAK_LOCK_HELD
	core_lock = NO_TASK
#endif
}
