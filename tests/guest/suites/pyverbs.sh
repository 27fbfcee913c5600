# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests of the verbs, with Debian's pyverbs: each has the same
# outcome, passed, skipped or failed, with and without our modules. A test that fails on
# the stock stack fails both times.

# Each of the two runs takes about a minute, or several if the host is busy.
# shellcheck disable=SC2034 # init's
TEST_LIMIT=600
DIR=/mnt/rdma-core-tests

# All except the vendor-specific ones, which skip every test on rxe.
MODULES=(test_mr test_odp test_qp test_qpex test_atomic test_pd test_srq test_cq
	test_cqex test_cq_events test_addr test_device test_parent_domain test_shared_pd
	test_relaxed_ordering test_flow test_rss_traffic test_tag_matching test_rdmacm test_fork)
[ "$DEV" = rxe0 ] || MODULES+=(test_mlx5_devx test_mlx5_raw_wqe test_mlx5_mkey)

# shellcheck disable=SC2034 # init's
CHAIN=yes

setup() {
	load_stack
	unload_modules
	share_of_host rdma-tests $DIR
}

# run_all NAME: the results are in /tmp/pyverbs-NAME, and copied to the host.
run_all() {
	# Some tests skip without huge pages.
	echo 16 >/proc/sys/vm/nr_hugepages
	# Whatever these tests try.
	connectx_refuses fn
	python3 run_pyverbs.py $DIR --dev "$DEV" --gid "$(gid_index)" "${MODULES[@]}" >"/tmp/pyverbs-$1"
	echo 0 >/proc/sys/vm/nr_hugepages
	cp "/tmp/pyverbs-$1" "$OUT/tests/pyverbs-$1"
	counts "$1"
}
counts() {
	awk '{ n[$2]++ } END { printf "%d passed %d skipped %d failed\n", n["passed"], n["skipped"], n["failed"] }' \
		"/tmp/pyverbs-$1"
}

test_without_the_modules() {
	must_fail loaded ib_peer_mem
	run_all without
	# These tests do not skip.
	grep -q '^tests.test_mr.* passed$' /tmp/pyverbs-without
	grep -q '^tests.test_odp.* passed$' /tmp/pyverbs-without
}

test_with_the_modules() {
	load_bars
	run_all with
}

# Modules of which soft RoCE skips all tests, as it has no such feature. Of all others some tests
# must pass.
ALL_SKIPPED='test_flow|test_parent_domain|test_rss_traffic|test_shared_pd|test_tag_matching|test_mlx5_.*'
test_tests_have_run() {
	local module
	for module in "${MODULES[@]}"; do
		grep -q "^tests\.$module\." /tmp/pyverbs-without || fail "no result of $module"
		[[ $DEV != rxe0 || $module =~ ^($ALL_SKIPPED)$ ]] || grep -q "^tests\.$module\..* passed$" /tmp/pyverbs-without ||
			fail "no test of $module passes"
	done
}

test_same_results() {
	diff /tmp/pyverbs-without /tmp/pyverbs-with
	note "pyverbs: $(counts without) without the modules, the same with them"
}

# No MR was claimed as peer memory, not even temporarily.
test_no_mr_was_claimed() {
	expect 0 counter num_alloc_mrs
	expect 0 counter num_reg_pages
}
