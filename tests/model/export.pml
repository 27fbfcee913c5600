/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of a region that is exported as a dma-buf, for several importers, and of
 * a umem on such a region: src/region/export_fd.rs, rust/ext/dma_buf/export.rs and
 * tables.rs. For the model checker spin; see region.pml.
 *
 *	(always)  the process exports, and closes the file descriptor
 *	IMPORT1   a device imports, maps, unmaps and detaches
 *	IMPORT2   another MR, on that device or on another one
 *	KEEPS_MR  the second importer may never detach
 *	PIN       an importer may be one that cannot revoke, such as a umem
 *	LATE      an importer may not unmap when it is notified, but later
 *	INV1, INV2, UNREG, FAILS, UNMAPS, LIVE: as in region.pml
 */
#include "lifecycle.pml"
#include "client.pml"

#define I1	0		/* importers: numbers for arrays */
#define I2	1

/* export.rs: Phase and State */
mtype = { Fresh, Mapping, Mapped, Ended };
mtype phase = Fresh;
byte importers, non_revocable, dev, buf_uses;
bool buf;			/* State::buf is not NULL */
bool revoked;
bool wait_phase[2];		/* Shared::changed: importers that sleep */
bool release_asleep;		/* the same: release */
byte n_ended;

/* tables.rs */
bool tables_revoked;
byte tables;			/* State::mapped */
bool asked;			/* the importers have been notified once */

/* dma-buf and importers */
byte files;			/* references to the file */
bool open_fd;			/* the process has the file descriptor */
bool freed_buf;
bool resv;			/* the reservation lock */
bool has_table[2], can_revoke[2];
bool with_buf;			/* a revocation uses the dma-buf */
bool made;			/* ghost: there was a dma-buf */
bool kept;			/* KEEPS_MR: the importer is still attached */

#ifdef LATE
#define SLOW	1
#else
#define SLOW	0
#endif

#define forget()	skip
#define forget_mrs()	skip
#define leave(me)	skip
#define detach_overdue() skip

inline notify_changed()
{
	d_step { wait_phase[I1] = 0; wait_phase[I2] = 0; release_asleep = 0 }
}

/* Tables::unmap, by an importer that holds the reservation lock. */
inline unmap_table(i)
{
	atomic {
		assert(has_table[i]);
		has_table[i] = 0;
		tables--;
		can_touch = (tables > 0)
	}
}

/* Shared::revoke */
inline fence()
{
	assert(link);
	atomic {
		if
		:: non_revocable > 0 -> failed = 1
		:: else ->
			failed = 0;
#ifndef BREAK_LATE_REVOKED
			revoked = 1;
#endif
			with_buf = buf;
			when(buf, buf_uses++)
		fi
	};
	if
	:: !failed && with_buf ->
		/* Tables::invalidate: importers that can revoke unmap. */
		atomic { assert(!freed_buf); !resv -> resv = 1 };
		tables_revoked = 1;
		if
		:: !asked && has_table[I1] && can_revoke[I1] -> unmap_table(I1)
		:: !asked && has_table[I1] && can_revoke[I1] && SLOW
		:: else
		fi;
		if
		:: !asked && has_table[I2] && can_revoke[I2] -> unmap_table(I2)
		:: !asked && has_table[I2] && can_revoke[I2] && SLOW
		:: else
		fi;
		asked = 1;
		atomic { assert(!freed_buf); resv = 0 };
		/* the wait for the importers, with its bound */
		if
		:: tables == 0
		:: tables > 0 -> failed = 1
		fi;
#ifdef BREAK_LATE_REVOKED
		revoked = 1;
#endif
		atomic { assert(!freed_buf); buf_uses-- };
		notify_changed()
	:: else
	fi
}

#include "revoke.pml"

/* Region::ended */
inline ended(me)
{
	n_ended++;
	assert(n_ended == 1);
	close(me);
	when(found == Live, end(me));
	finish(me)
}

/* dma_buf_put of the last reference: Shared::release */
inline put_file(me)
{
	atomic { files--; was_last = (files == 0) };
	if
	:: was_last ->
		buf = 0;
		wait_for(release_asleep, buf_uses == 0, skip);
		atomic {
			was_ended = (phase == Ended);
			phase = Ended
		};
		when(!was_ended, ended(me));
		freed_buf = 1
	:: else
	fi
}

/* --- the process --- */

proctype register()
{
	bool locked, last, mine, handed, was_last, was_ended;
	mtype found;

	atomic {
		if
		:: leaving -> goto out
		:: else -> uses++
		fi
	};
	enter_client(T_REG);
	d_step { n_acquire++; leave_client() };
	ticket = 1;
	when(leaving, goto unpinned);
	enter_client(T_REG);
	if
	:: d_step { n_get++; pinned = 1; known = 1; leave_client() }
#ifdef FAILS
	:: d_step { known = 1; leave_client() }; goto unpinned
#endif
	fi;
	atomic { uses++; held = T_REG };
	if
	:: atomic { link = 1; buf = 1; files = 1; made = 1 }
	MAY_FAIL(abandon)
	fi;
	acquired = 1;
	make_live(T_REG, Registering);
	open_fd = 1;
	returned = 1;
	/* The process may keep the descriptor as long as it likes. */
	atomic { open_fd = 0 };
	put_file(T_REG);
	goto done;

abandon:
	acquired = 1;
	end(T_REG);
	finish(T_REG);
	goto out;

unpinned:
	acquired = 1;
	abandon_empty();
	finish(T_REG);

out:
	returned = 1;
done:
	skip
}

/* --- importers --- */

/* Shared::attach, of an importer on `device`. Afterwards `ok`. */
inline attach(i, me, device)
{
	first = 0;
	do
	:: atomic {
		if
		:: revoked -> ok = 0; break
		:: !revoked && phase == Fresh -> phase = Mapping; first = 1; break
		:: !revoked && phase == Mapping -> wait_phase[i] = 1
		:: !revoked && phase == Mapped ->
			ok = (dev == device);
			if
			:: ok -> assert(!tables_revoked); importers++; non_revocable = non_revocable + !can_revoke[i]
			:: else
			fi;
			break
		:: !revoked && phase == Ended -> ok = 0; break
		fi
	   };
	   !wait_phase[i]
	od;
	if
	:: first ->
		/* Memory::map in Lifecycle::with_live; dma_map takes no lock. */
#ifdef BREAK_MAP_OPEN
		found = life;
#else
		close(me);
#endif
		ok = 0;
		if
		:: found == Live ->
			if
			:: d_step {
				assert(n_map == 0 && n_put == 0);	/* 2 */
				n_map++; mapped = 1; is_mapped = 1; ok = 1
			   }
#ifdef FAILS
			:: skip
#endif
			fi;
#ifndef BREAK_MAP_OPEN
			make_live(me, Closing)
#endif
		:: else
		fi;
		atomic {
			if
			:: ok && !revoked ->
				assert(!tables_revoked);		/* 4 */
				phase = Mapped; dev = device; importers = 1;
				non_revocable = !can_revoke[i]
			:: else -> ok = 0; phase = Fresh
			fi
		};
		notify_changed()
	:: else
	fi
}

/* Shared::detach */
inline detach(i, me)
{
	atomic {
		assert(phase == Mapped && importers > 0);
		non_revocable = non_revocable - !can_revoke[i];
		importers--;
#ifdef BREAK_FIRST_ENDS
		first = 1;
#else
		first = (importers == 0);
#endif
		when(first, phase = Ended)
	};
	when(first, ended(me))
}

/* One MR on the dma-buf, or one umem. */
inline import(i, me)
{
	if
	:: atomic { open_fd -> files++ };
	   if
	   :: can_revoke[i] = 1
#ifdef PIN
	   :: can_revoke[i] = 0
#endif
	   fi;
	   if
	   :: device = 1
	   :: i == I2 -> device = 2
	   fi;
	   attach(i, me, device);
	   if
	   :: ok ->
		/* map_dma_buf, under the reservation lock */
		atomic { !resv -> resv = 1 };
		atomic {
			if
			:: !tables_revoked ->
				assert(is_mapped);
				has_table[i] = 1; tables++; can_touch = 1
			:: else
			fi
		};
		resv = 0;
#ifdef KEEPS_MR
		if
		:: skip
		:: i == I2 -> kept = 1; goto over
		fi;
#endif
		atomic { !resv -> resv = 1 };
		when(has_table[i], unmap_table(i));
		resv = 0;
		detach(i, me)
	   :: else
	   fi;
	   put_file(me)
	:: atomic { returned && !open_fd }
	fi
}

#ifdef IMPORT1
proctype import1()
{
	bool locked, last, mine, handed, was_last, was_ended, ok, first;
	byte device;
	mtype found;

	import(I1, T_DEREG);
over:	skip
}
#endif

#ifdef IMPORT2
proctype import2()
{
	bool locked, last, mine, handed, was_last, was_ended, ok, first;
	byte device;
	mtype found;

	import(I2, T_EXIT);
over:	skip
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
#ifdef IMPORT1
		run import1();
#endif
#ifdef IMPORT2
		run import2();
#endif
#ifdef UNREG
		run unregister();
#endif
	}
	_nr_pr == 1;
	assert(!resv && buf_uses == 0 && files == kept);
	/* Without importers and a descriptor it has ended. */
	check_balance(kept && can_touch, kept);
	assert(n_ended == (made && !kept))
}
