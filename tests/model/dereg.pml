/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deregistration: Region::deregister, the hook in front of the driver's dereg_mr, and the
 * tasks that call it.
 */

/*
 * The driver's own dereg_mr. It unmaps the memory; then the hook runs. The address and
 * the key are free before it returns.
 */
inline original(me)
{
	atomic {
		assert(mr && !device_gone);
		if
#ifdef REFUSES_ALWAYS
		:: ok = 0
#else
#ifdef REFUSES
		:: !refused -> refused = 1; ok = 0
#endif
		:: mr = 0; can_touch = 0; freed = 1; ok = 1
#endif
		fi
	};
#ifdef KEEPS
	if
	:: ok && hook ->
		hook = 0;
		/* OnDetach::detached */
		close_deferred(me);
		when(got, end(me); finish(me))
	:: else
	fi
#endif
}

/* Region::call_driver */
inline call_driver(me)
{
	original(me);
	if
	:: ok -> forget_mrs()
	:: else -> id_known = 1
	fi
}

/* Region::deregister */
inline deregister(me)
{
	close(me);
	/* No other task uses the MR from here on. */
	if
	:: found == Live ->
		call_driver(me);
		if
		:: ok -> end(me); finish(me)
		:: else -> make_live(me, Closing)
		fi
	:: found == Revoked ->
		call_driver(me);
		when(ok, finish(me))
	:: else -> original(me)
	fi
}

/* ib_dereg_mr_user, for ibv_dereg_mr() and for the end of the process. */
inline dereg_mr(me)
{
	returned;
	atomic { !uobject -> uobject = 1 };
	if
	:: user_has_mr ->
		ours = our_dereg;
		if
		:: ours ->
			enter(deregistering, dereg_closed);
			if
			:: inside ->
				/* Adapter::region_to_deregister */
				atomic {
					has_region = (entry == THIS && id_known);
					if
#ifndef BREAK_ID_STAYS
					/* Region::begin_dereg */
					:: has_region -> id_known = 0
#endif
					:: else
					fi
				};
				if
				:: has_region -> deregister(me)
				:: else -> original(me)
				fi;
				atomic { assert(!gone); deregistering-- }
			:: else -> original(me)
			fi
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
	bool locked, last, mine, handed, ok, ours, has_region, got, inside;
	mtype found;

	dereg_mr(T_DEREG)
}
#endif

#ifdef EXIT
proctype exit()
{
	bool locked, last, mine, handed, ok, ours, has_region, got, inside;
	mtype found;

	dereg_mr(T_EXIT);
	/* uverbs asks a driver that refuses once more. */
	when(user_has_mr, dereg_mr(T_EXIT))
}
#endif

#ifdef OTHER
/* Another MR, on host memory or on that of another region. */
proctype other()
{
	bool peer;

	if
	:: freed ->
		if
		:: skip
		/* Index::insert replaces what was there. */
		:: atomic { our_reg && !reg_closed -> peer = 1; entry = ANOTHER }
		fi;
		/* The look-up of its deregistration. */
		atomic {
			assert(!(entry == THIS && id_known));		/* 7 */
			if
			:: peer && our_dereg && !dereg_closed ->
				assert(entry == ANOTHER);		/* 7 */
				entry = NO_REGION
			:: else
			fi
		}
	:: skip
	fi
}
#endif
