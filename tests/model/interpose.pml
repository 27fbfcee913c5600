/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rust/ext/rdma/interpose/verbs.rs: the operations of the device, the tasks in them, and what waits
 * for these.
 */

bool our_reg = 1, our_dereg = 1;	/* the operations of the device are the core's */
bool data = 1;				/* the client data is set */
bool reg_closed, dereg_closed;		/* InFlight::close was called */
byte registering, deregistering;	/* calls in InFlight */
byte readers;				/* tasks in an RCU read-side section */
bool gone;				/* the client data is freed, `remove` has returned */

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
