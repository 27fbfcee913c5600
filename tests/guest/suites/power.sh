# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # pid is of tests/guest/steps.sh
#
# The machine changes under the modules: CPUs go and come.

. ./suites/load.sh

# shellcheck disable=SC2034 # init's
TESTS="test_cpus_go_and_come"

CPUS=(/sys/devices/system/cpu/cpu[1-9]/online)
set_cpus() { local file; for file in "${CPUS[@]}"; do echo "$1" >"$file"; done; }

# Tasks register, write and are revoked meanwhile. A call may begin on a CPU that is gone at its end; the
# removal of the modules counts it there.
test_cpus_go_and_come() {
	local file writer i pids=() lines
	[ -e "${CPUS[0]}" ] || skip "this guest has one CPU"
	trap 'set_cpus 1' EXIT
	rm -f /tmp/stop /tmp/[ab].err
	load_bars
	for i in a b; do
		registers $i &
		pids+=($!)
	done
	for file in "${CPUS[@]}"; do
		launch forever -t 600 "$BAR_A"
		writer=$pid
		lines=$(cat /tmp/a /tmp/b | wc -l)
		echo 0 >"$file"
		more_registered "$lines"
		must_fail grep error /tmp/forever
		unbind_in_time "$BDF_A"
		wait_line /tmp/forever 'remote access error'
		tries_again forever
		kill "$writer"
		ended "$writer"
		rebind "$BDF_A"
	done
	unload_modules
	more_registered "$(cat /tmp/a /tmp/b | wc -l)"
	load_bars
	set_cpus 1
	"$RDMA" write "$BAR_A"
	unload_modules
	: >/tmp/stop
	for i in "${pids[@]}"; do ended "$i"; done
	must_fail grep -h . /tmp/[ab].err
}
