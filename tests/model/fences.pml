/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long the end of several regions on dma-bufs waits for fences: rust/ext/dma_buf/
 * fences.rs and tables.rs, and the loops of src/registry.rs over the regions. Each
 * region is a dma-buf to which its owner adds fences, at any time, that need not be
 * signalled; see export.pml for one region in detail.
 *
 *	UNREG	  the client is unregistered
 *	INVALIDATES  it invalidates the regions one after the other
 *	UNMAPPED  no importer maps a region
 *
 * The time is counted in steps of which all waits for fences may take TIME. The model
 * leaves out that time comes back to the budget while no task waits.
 */
#define REGIONS	3
#define TIME	2

bool revoked[REGIONS];		/* State::revoked */
bool mapped[REGIONS];		/* State::mapped > 0 */
bool accessed[REGIONS];		/* State::accessed */
bool fence[REGIONS];		/* one that is not signalled */
bool torn_down[REGIONS];
byte spent;			/* FenceBudget */
byte waited;			/* ghost: the time that the operation has waited for fences */
bool over;

/* Tables::begin_revoke: importers that have a table unmap, now or later. */
inline begin_revoke(i)
{
	revoked[i] = 1
}

/* Tables::wait_revoked */
inline wait_revoked(i)
{
#ifdef BREAK_WAIT_EACH
	spent = 0;
#endif
	if
#ifdef BREAK_WAIT_UNUSED
	:: skip ->
#else
	:: accessed[i] ->
#endif
		/* FenceBudget::wait */
		do
		:: atomic { !fence[i] -> break }
		:: atomic { fence[i] && spent == TIME -> break }
		:: atomic {
			fence[i] && spent < TIME ->
			spent++;
			waited++;
			assert(accessed[i]);
			assert(waited <= TIME)
		   }
		od;
#ifndef BREAK_TAKE_MAPPED
		!mapped[i]
#endif
#ifndef BREAK_WAIT_UNUSED
	:: else
#endif
	fi;
	/* dma_unmap and put_pages */
	atomic { assert(!mapped[i]); torn_down[i] = 1 }
}

/* A device, in its turn with each region: its MR may be there before. */
proctype importer(byte i)
{
#ifndef UNMAPPED
	if
	:: atomic {
		!revoked[i] ->
		assert(!torn_down[i]);
		mapped[i] = 1;
		accessed[i] = 1
	   };
	   atomic {
		revoked[i] -> assert(!torn_down[i]);
		mapped[i] = 0
	   }
	:: revoked[i]
	fi
#else
	skip
#endif
}

/* The process that has the file descriptors. */
proctype owner()
{
	byte i;

	do
	:: over -> break
	:: !over ->
		select(i : 0 .. REGIONS - 1);
		if
		:: fence[i] = 1
		:: fence[i] = 0
		fi
	od
}

/* registry::end, or a client's calls of its invalidate function */
proctype client()
{
	byte i;

#ifdef UNREG
	/* region::prepare_all */
	for (i : 0 .. REGIONS - 1) {
		begin_revoke(i)
	}
	spent = 0;
#endif
	for (i : 0 .. REGIONS - 1) {
		begin_revoke(i);
		wait_revoked(i)
	}
	over = 1
}

init {
	byte i;

	atomic {
		for (i : 0 .. REGIONS - 1) {
			run importer(i)
		}
		run owner();
		run client()
	}
	_nr_pr == 1;
	for (i : 0 .. REGIONS - 1) {
		assert(torn_down[i] && !mapped[i])
	}
}
