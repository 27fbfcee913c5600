# SPDX-License-Identifier: GPL-2.0
#
# Defaults of a suite, and the test at the end of each.

# Seconds after which a test is taken for one that does not end: many times what one takes on an
# idle machine. The debug kernel is slower.
# shellcheck disable=SC2034 # init's
if [ "$KIND" = debug ]; then TEST_LIMIT=900; else TEST_LIMIT=500; fi

setup() {
	load_stack
	load_bars
}

# Runs in the shell of each test but setup, before the test.
before_test() { true; }

# Nothing is left: no MR, counters balanced, no object or translation on the adapter, modules removable.
# The test adapters call themselves devices of soft RoCE, whose module then could not be removed.
test_clean() {
	if [ -d "$PEERS/io_peer_mem" ]; then eventually balanced; fi
	eventually nothing_registered
	eventually mlx5_nothing_left
	no_key_reaches
	! loaded peer_mem_test_adapter || rmmod peer_mem_test_adapter
	unload_modules
	[ ! -e "$PEERS" ]
	[ ! -e /dev/io_peer_mem ]
}
