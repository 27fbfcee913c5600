# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The counters in sysfs: exact while MRs exist, balanced after their release.

. ./steps.sh

test_zero_before() {
	balanced
	expect 0 counter num_alloc_mrs
	note "before: $(in_use) MRs, pages and bytes in use"
}

test_during() {
	local pid mrs pages
	mrs=$(counter num_alloc_mrs)
	pages=$(counter num_dereg_pages)
	# Three MRs that begin and end inside pages: 20000 bytes span 5 pages.
	launch hold -n 3 -o 100 -l 20000 "$BAR_A"
	expect "3 15 60000" in_use
	note "with three MRs: $(in_use)"
	kill_and_wait "$pid"
	eventually balanced
	note "after: $(in_use); in total $(counter num_alloc_mrs) MRs, $(counter num_reg_pages) pages"
	expect $((mrs + 3)) counter num_alloc_mrs
	expect $((pages + 15)) counter num_dereg_pages
}

test_host_memory_does_not_count() {
	local before
	before=$(counter num_alloc_mrs)
	"$RDMA" write host
	expect "$before" counter num_alloc_mrs
}

test_no_invalidation() { expect 0 counter num_free_callbacks; }
