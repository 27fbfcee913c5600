/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rust/ext/rdma/interpose/verbs.rs and rust/ext/task/calls.rs: the operations of the device, the
 * tasks in them, and what waits for these.
 */

bool our_reg = 1, our_dereg = 1;	/* the operations of the device are the core's */
bool data = 1;				/* the client data is set */
bool reg_closed, dereg_closed;		/* InFlight::close was called */
byte registering, deregistering;	/* calls in InFlight */
byte readers;				/* tasks in an RCU read-side section */
bool gone;				/* the client data is freed, `remove` has returned */

/* --- calls.rs: tasks in code that goes away with the module --- */

#ifdef UNLOAD
bool edge[8];			/* a task in the code, but not counted */
byte calls, entered;
bool unloaded;
/* In the step in which a task reads the pointer; then in the function; at its end. */
#define READ_POINTER(me)  edge[me] = 1
#define COUNT_IN(me)	atomic { assert(!unloaded); edge[me] = 0; calls++; entered++ }
#define COUNT_OUT(me)	atomic { assert(!unloaded); edge[me] = 1; calls-- }; \
			atomic { assert(!unloaded); edge[me] = 0 }

/* Calls::drain */
inline drain()
{
	do
	:: atomic { calls == 0 -> before = entered };
#ifdef BREAK_COUNT_LATE
	   before = entered;
#endif
	   /* An RCU-tasks grace period. */
#ifndef BREAK_NO_TASKS_RCU
	   !edge[T_REG];
	   !edge[T_DEREG];
	   !edge[T_EXIT];
#endif
	   if
	   :: entered == before -> break
	   :: else
	   fi
	od;
	unloaded = 1
}
#else
#define READ_POINTER(me)  skip
#define COUNT_IN(me)	skip
#define COUNT_OUT(me)	skip
#endif

/* --- interpose/verbs.rs --- */

/* Interposer::enter: afterwards `inside` */
inline enter(count, closed)
{
	atomic { readers++; inside = data };
	if
	:: inside ->
		assert(!gone);
		/* percpu_ref_tryget_live_rcu() */
		if
		:: closed -> inside = 0
		:: else -> atomic { assert(!gone); count++ }
		fi
	:: else
	fi;
	readers--
}

/* InFlight::close: an RCU grace period, then no call is counted any more. */
#ifdef BREAK_NO_GRACE
#define CLOSE(gate, calls)  gate = 1; calls == 0
#else
#define CLOSE(gate, calls)  gate = 1; readers == 0; calls == 0
#endif
