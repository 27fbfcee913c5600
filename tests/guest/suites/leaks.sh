# SPDX-License-Identifier: GPL-2.0
#
# Runs last on the debug kernel: finds the leaks of all suites.

setup() { [ -e /sys/kernel/debug/kmemleak ]; }

# An object counts once it is older than 5 s and unreferenced in two scans.
test_kmemleak() {
	echo scan >/sys/kernel/debug/kmemleak
	sleep 6
	echo scan >/sys/kernel/debug/kmemleak
	cat /sys/kernel/debug/kmemleak
	[ -z "$(cat /sys/kernel/debug/kmemleak)" ]
}
