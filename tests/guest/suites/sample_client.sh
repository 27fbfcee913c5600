# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # init's
#
# The sample client in C, built out of the tree against the installed files, and the two
# exported symbols that clients use.

CLIENT=peer_client_sample
EXTERNAL=$MODS/external
MODULE=$EXTERNAL/samples/peer_client/$CLIENT.ko
READ_ONLY=EFAULT
. ./sample.sh

TESTS="test_symvers test_kallsyms test_load test_write_and_read_back
	test_atomics test_memory_that_it_rejects test_invalidate_without_regions
	test_invalidated_while_held test_invalidated_under_a_writer
	test_invalidated_while_registering test_again test_mapping_holds_the_module test_unload
	test_client_of_a_closed_driver"

test_symvers() {
	local f
	for f in ib_register_peer_memory_client ib_unregister_peer_memory_client; do
		grep -E "^0x[0-9a-f]+	$f	ib_peer_mem	EXPORT_SYMBOL_GPL	*$" \
			"$MODS"/installed/usr/src/ib-peer-mem/*/Module.symvers
	done
}

test_kallsyms() {
	local f
	for f in ib_register_peer_memory_client ib_unregister_peer_memory_client; do
		grep -E "^[0-9a-f]+ [tT] $f	\[ib_peer_mem\]$" /proc/kallsyms
	done
}

test_unload() {
	rmmod $CLIENT
	[ ! -e "$PEERS/$CLIENT" ]
	[ ! -e "$SAMPLE" ]
	# The adapter still works.
	"$RDMA" write host
}

# As README.md says of NVIDIA's closed modules. The last one: the kernel is tainted afterwards.
test_client_of_a_closed_driver() {
	insmod "$EXTERNAL/tests/symbols/closed_provider.ko"
	refuses 'Unknown symbol' insmod "$EXTERNAL/tests/symbols/closed_client.ko"
	log_since test | grep 'closed_client: module .*uses symbols .*from proprietary module closed_provider'
	rmmod closed_provider
}
