/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of a region on an MR, as src/ has it, for the model checker spin.
 *
 * One client, one adapter, one process that registers one range once. Against each
 * other run, where a configuration has them (-D):
 *
 *	(always)  the process registers
 *	INV1      the client invalidates, holding its mutex
 *	INV2      the client invalidates, holding nothing
 *	DEREG     the process deregisters
 *	EXIT      the process exits, which deregisters
 *	UNREG     the client unregisters
 *	DETACH    the RDMA device is removed, by the interposer, uverbs and ib_core
 *	OTHER     the driver gives the address and the key of the MR to another one as
 *		  soon as it has freed them
 *
 *	UNMAPS    the client is PEER_MEM_INVALIDATE_UNMAPS
 *	FAILS     the registration may fail, at every step
 *	REFUSES   the driver may refuse to deregister, once
 *	REFUSES_ALWAYS  it always does
 *	NON_REVOCABLE  the adapter may refuse to be fenced, once
 *	NEVER_FENCED  it always does
 *	DEAD      the adapter dies at some time: it accesses no memory any more, and does
 *		  not answer
 *	LEAKS     the driver may fail after it has mapped the memory, and not unmap it
 *	UNDO      it does later
 *	KEEPS     the driver keeps the memory until the MR is deregistered: there is
 *		  no fence (nor an invalidation: a client that needs one is refused)
 *	LIVE      retries sleep until no other task can run: scripts/model then looks
 *		  for tasks that go on for ever
 *
 * Each BREAK_* makes one mistake; scripts/model demands that it is found.
 */
#include "lifecycle.pml"
#include "client.pml"
#include "interpose.pml"

/* The index of MRs by key: the region under test, another one, none. */
#define NO_REGION 0
#define THIS	1
#define ANOTHER	2
byte entry = NO_REGION;		/* Adapter::mrs */
bool id_known;			/* the Identity is there, and not `ending` */
bool mr_info;			/* Region::mrs is Some: a reference to the device */
bool hook;			/* Attachment::defer_to_dereg */
bool detached;			/* ghost: the device was removed, and did not answer */
bool leaked;			/* LEAKS: the memory is mapped for an import that has failed */
bool left_import;		/* DmaBufMr::failed is Some */
bool leak_hook, leak_gone;	/* Import::on_detach, Region::detached */
bool overdue;			/* Deadline: it has passed, or the device did not answer */

/* The adapter and the driver. */
bool removed;			/* DmaBuf::removed */
bool device_gone;		/* ib_core has unregistered the device */
bool mr;			/* the driver has the MR */
bool freed;			/* the driver has freed its address and its key */
bool dead;
bool refused, resisted;		/* REFUSES, NON_REVOCABLE: once is enough */

/* The process. uobject: uverbs lets one task at a time destroy an object. */
bool user_has_mr, uobject;

/* --- region.rs --- */

inline forget()
{
	mr_info = 0
}

inline forget_mrs()
{
	atomic {
		if
#ifdef BREAK_REMOVES_ANY
		:: entry != NO_REGION -> entry = NO_REGION
#else
		:: entry == THIS -> entry = NO_REGION
#endif
		:: else
		fi
	}
}

/* The LOCAL_INV, with its wait. The MR must be there. Without an attachment: done. */
inline fence()
{
#ifdef KEEPS
	assert(link);
	failed = 1
#else
	if
	:: !link -> assert(detached); failed = 0
	:: link && left_import ->
		/* A removed device is taken to be dead. */
		atomic {
			if
			:: removed -> can_touch = 0; failed = 0
			:: else -> failed = leaked
			fi
		}
	:: link && !left_import ->
		assert(mr);
		if
#ifdef NON_REVOCABLE
		:: !resisted -> resisted = 1; failed = 1
#endif
#ifdef NEVER_FENCED
		:: failed = 1
#elif defined(DEAD)
		:: atomic { dead -> failed = 1 }
		:: atomic { !dead -> can_touch = 0; failed = 0 }
#else
		:: can_touch = 0; failed = 0
#endif
		fi;
		assert(mr && link)
	fi
#endif
}

/* Region::end_if_detached, for an import that has failed. */
inline end_if_detached(me)
{
	if
	:: leak_gone ->
		close_deferred(me);
		if
		:: got -> end(me); finish(me)
		:: !got && life == Revoked -> finish(me)
		:: else
		fi
	:: else
	fi
}

/* Region::fence, of a removal: an MR that cannot be fenced is left to the driver. */
inline leave(me)
{
#ifdef KEEPS
	hook = 1;
	left = 1;
	unfenced()
#else
	skip
#endif
}

/* The same, after the fence has failed. */
inline detach_overdue()
{
#ifndef BREAK_NO_DEADLINE
	if
	/* Deadline: the fence has failed with ETIMEDOUT, or with another error. */
	:: dead -> overdue = 1
	:: skip
	fi;
	if
	:: overdue ->
		link = 0;
		detached = 1;
		left = 1;
		unfenced()
	:: else
	fi
#else
	skip
#endif
}

#include "revoke.pml"

inline disassociate(me)
{
	left = 0;
	revoke_for(me, 1, 0, 1);
	forget_mrs();
#ifndef BREAK_KEEPS_DEVICE
	mr_info = 0;
#endif
	when(!left, finish(me))
}

/* --- the user's side: interpose.rs, hooks.rs, dispatch.rs, region.rs --- */

proctype register()
{
	bool locked, last, mine, handed, inside, got;

	/* uverbs reads the operation, then calls it. */
	when(!our_reg, goto drivers);
	enter(registering, reg_closed);
	when(!inside, goto drivers);

	/* Client::enter, acquire */
	atomic {
		if
		:: leaving -> goto out
		:: else -> uses++
		fi
	};
	enter_client(T_REG);
	d_step { n_acquire++; leave_client() };

	/* Region::new */
	if
	:: ticket = 1
	MAY_FAIL(no_ticket)
	fi;

	/* Region::pin */
#ifndef BREAK_NO_LEAVING_CHECK
	when(leaving, goto unpinned);
#endif
	enter_client(T_REG);
	if
	:: d_step { n_get++; pinned = 1; known = 1; leave_client() }
#ifdef FAILS
	/* It may have let the ticket out all the same. */
	:: d_step { known = 1; leave_client() }; goto unpinned
#endif
	fi;
	atomic { uses++; held = T_REG };

	/* Region::make_mr */
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
	:: atomic { assert(!invalidated); assert(!gone); mr = 1; can_touch = !dead }
#ifdef LEAKS
	:: atomic { assert(!invalidated); assert(!gone); leaked = 1; can_touch = 1 }; goto leak
#endif
	MAY_FAIL(abandon)
	fi;
	atomic { mr_info = 1; id_known = 1 };
	entry = THIS;
	acquired = 1;
	make_live(T_REG, Registering);
	user_has_mr = 1;
	goto out;

#ifdef LEAKS
leak:
	/* Import::close: the driver unmaps in time, or not. */
#ifdef BREAK_WAITS_FOR_DRIVER
	do
	:: leaked
	:: else -> goto abandon
	od;
#endif
	if
	:: !leaked -> goto abandon
#ifdef BREAK_FORGETS_IMPORT
	:: goto abandon
#endif
	:: left_import = 1
	fi;
	acquired = 1;
	atomic {
		if
		:: leaked -> leak_hook = 1
		:: else -> leak_gone = 1
		fi
	};
	make_live(T_REG, Registering);
	end_if_detached(T_REG);
	goto out;
#endif

abandon:
	acquired = 1;
	end(T_REG);
	finish(T_REG);
	goto out;

unpinned:
	acquired = 1;
	abandon_empty();
	finish(T_REG);
	goto out;

no_ticket:
	/* No other task has seen the region. */
	life = Closed;
	release(T_REG);
	drop_use();

out:
	atomic { assert(!gone); registering-- };
drivers:
	returned = 1
}

#include "dereg.pml"

#ifdef UNDO
/* The driver detaches from an import that has failed. No MR is there to be deregistered. */
proctype undo()
{
	bool locked, last, mine, handed, got, noticed;

	if
	:: leaked ->
		atomic {
			leaked = 0; can_touch = 0;
			noticed = leak_hook; leak_hook = 0
		};
		if
		/* OnDetach::detached */
		:: noticed -> leak_gone = 1; end_if_detached(T_DEREG)
		:: else
		fi
	:: atomic { returned && !leaked }
	fi
}
#endif

/* --- the device --- */

#ifdef DEAD
proctype death()
{
	atomic { dead = 1; can_touch = 0 }
}
#endif

#ifdef DETACH
proctype clock()
{
	reg_closed;
#ifdef DEAD
	overdue = 1
#endif
}

proctype detach()
{
	bool locked, last, mine, handed, has_region, got, was_fenced, failed, left, ok;
	mtype found;

	/* Interposer::remove */
	our_reg = 0;
	CLOSE(reg_closed, registering);
	/* Hooks::remove */
	do
	:: atomic { has_region = (entry == THIS) };
	   if
	   :: has_region -> disassociate(T_DETACH)
	   :: else -> break
	   fi
	od;
	our_dereg = 0;
	CLOSE(dereg_closed, deregistering);
	data = 0;
#ifndef BREAK_NO_GRACE
	/* An RCU grace period. */
	readers == 0;
#endif
	atomic {
		gone = 1;
		removed = 1;
#ifndef KEEPS
		assert(left_import || (!can_touch && !link));
		assert(left_import || detached || undone_by_client || (!pinned && !mapped))
#endif
	};
	/* uverbs: the driver deregisters what the user has. */
	atomic { !uobject -> uobject = 1 };
	when(user_has_mr, original(T_DETACH); user_has_mr = 0);
	uobject = 0;
	/* ib_core waits for the references to the device. */
	!mr_info;
	device_gone = 1
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
#ifdef OTHER
		run other();
#endif
#ifdef UNDO
		run undo();
#endif
#ifdef UNREG
		run unregister();
#endif
#ifdef DETACH
		run detach();
#ifdef DEAD
		run clock();
#endif
#endif
#ifdef DEAD
		run death();
#endif
	}
	_nr_pr == 1;
	assert(registering == 0 && deregistering == 0);
	check_balance((can_touch && mr && entry == THIS) || hook || leak_hook || detached || dead,
		      user_has_mr || detached || leak_hook)
}
