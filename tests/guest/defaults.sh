# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What a suite has unless it says otherwise, and the test at the end of each.

# Seconds for one test; emulated, on a machine that may be busy, and on the debug kernel
# with every check on.
# shellcheck disable=SC2034 # init's
if [ "$KIND" = debug ]; then TEST_LIMIT=300; else TEST_LIMIT=180; fi

setup() {
	load_stack
	load_modules
	find_bars
}

# Nothing is left: no MR, nothing counted twice or not at all, modules that go.
test_clean() {
	if [ -d "$PEERS/io_peer_mem" ]; then eventually balanced; fi
	eventually nothing_registered
	unload_modules
	[ ! -e "$PEERS" ]
	[ ! -e /dev/io_peer_mem ]
}
