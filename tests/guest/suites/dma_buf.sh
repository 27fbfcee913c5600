# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # lkey and addr are of tests/guest/adapter.sh
#
# Peer memory for drivers that import dma-bufs, with the test adapter: what neither KUnit nor the ConnectX
# shows. edu0 imports as mlx5 does, edu1 as irdma, edu2 as efa and bnxt_re.

. ./steps.sh
. ./adapter.sh

DEVICES=/sys/kernel/debug/ib_peer_mem/devices

setup() {
	load_stack
	load_bars
	load_adapter dynamic,revocable,pinned
}

served() { awk -v dev="$1" '$1 == dev { $1 = $2 = ""; print }' "$DEVICES" | xargs; }

# io_peer_mem requires invalidation, which a pinning driver does not support.
test_pinning_driver_refuses_a_client_that_invalidates() {
	load_adapter dynamic,revocable,pinned
	logs_one "client io_peer_mem: cannot serve edu2: .*pins dma-bufs" \
		must_fail adapter_start none edu2 "$BAR_A" 0 4096
	expect "dma-buf no" served edu2
	# From now on its clients are not asked.
	log_step "pinned again"
	expect "error EREMOTEIO" adapter_start none edu2 "$BAR_A" 0 4096
	must_fail one_line .
	rejected "	edu2	-	(EREMOTEIO|Error\(121\))	no client claims the memory; those that require invalidation were not asked: "
	balanced
}

# The module stays while an importer is attached, also if its device or its memory goes, and no
# longer.
test_module_is_held_by_attachments() {
	local before bdf
	before=$(references)
	adapter_start user edu0 "$BAR_A" 0 65536
	[ "$(references)" -gt "$before" ]
	adapter_stop user
	eventually references_are "$before"
	adapter_start user edu0 "$BAR_A" 0 65536
	unbind_in_time "$BDF_A"
	balanced
	[ "$(references)" -gt "$before" ]
	adapter_stop user
	eventually references_are "$before"
	rebind "$BDF_A"
	bdf=$(adapter_bdf edu0)
	adapter_start user edu0 "$BAR_A" 0 65536
	unbind_in_time "$bdf"
	adapter_kill user
	eventually references_are "$before"
	adapter_bind "$bdf" edu0
}
references() { value_of /sys/module/ib_peer_mem/refcnt; }
references_are() { [ "$(references)" = "$1" ]; }

# A mapping of a dma-buf of another driver, registered by its address. Its exporter cannot move what an
# importer pins, and revokes it if the importer permits that.
test_mapped_dma_bufs() {
	local dev moved revoked
	load_exporter
	while read -r dev moved revoked; do
		adapter_start buf -s part "$dev" mapped:test 12345 40000
		adapter_say buf fill 63
		to_host "$dev" 63
		expect "$moved" eval 'adapter_say buf move | tail -n 1 | sed "s/.* //"'
		to_host "$dev" 63
		adapter_say buf look 63
		expect "$revoked" eval 'adapter_say buf revoke | tail -n 1 | sed "s/.* //"'
		if [ "$revoked" = ok ]; then
			expect EACCES adapter_dma "$dev" read "$lkey" "$addr" 1
		fi
		adapter_stop buf
	done <<-END
		edu1 $(is_7_0 && echo ok || echo EBUSY) ok
		edu2 EBUSY EBUSY
	END
	unload_exporter
}
# Soft RoCE imports no dma-bufs.
test_mapped_dma_bufs_and_soft_roce() {
	load_exporter
	logs_one "rxe0: cannot import 4096 bytes of a dma-buf of peer_mem_test_exporter: (EOPNOTSUPP|Error\(95\))" \
		expect "error EOPNOTSUPP" adapter_start none rxe0 mapped:test 0 4096
	unload_exporter
}

# ibv_reg_mr() and the other tests use write(2); -i uses ioctl(2).
test_both_system_calls() {
	adapter_start old edu0 "$BAR_A" 100 5000
	adapter_say old fill 95
	set -- "$lkey" "$addr"
	adapter_start new -i edu0 "$BAR_B" 4000 5000
	adapter_dma edu0 copy "$1" "$2" "$lkey" "$addr" 5000
	adapter_say new check 95
	adapter_stop new old
	expect "error EOPNOTSUPP" adapter_start none -i edu0 "$BAR_A" 0 4096 mw-bind
	rejected MW_BIND
	eventually balanced
}

# The driver of an adapter that pins is unbound while MRs exist: that of the one with invalidation is revoked;
# the other one lives until ib_uverbs disassociates the device and deregisters it.
test_adapter_goes() {
	local dev memory client bdf
	load_sample
	while read -r dev memory client; do
		bdf=$(adapter_bdf "$dev")
		adapter_start user "$dev" "$memory" 0 4096
		unbind_in_time "$bdf"
		balanced "$client"
		adapter_kill user
		adapter_bind "$bdf" "$dev"
	done <<-END
		edu1 $BAR_A io_peer_mem
		edu2 $SAMPLE_DEV peer_client_sample
	END
	unload_sample
	copies edu0
}

# The registration needs no free file descriptor of the process.
test_fd_table_full() {
	adapter_start full -f edu0 "$BAR_A" 0 4096
	adapter_stop full
	eventually balanced
}

# Peer memory does not count against RLIMIT_MEMLOCK.
test_memlock_does_not_count() (
	ulimit -l 0
	adapter_start user edu0 "$BAR_A" 0 1048576
	adapter_stop user
	expect "registration: ok" "$RDMA" reg -l 1048576 "$BAR_A"
)

# A dma-buf that MRs share lives as long as its device, so it must not keep the credentials of the
# process that is the first to register: they hold its keyrings, and its user namespace.
# not on debug, which has no keyrings
test_the_first_user_is_not_kept() {
	unload_modules
	load_bars
	adapter_start first -k peer_first edu0 "$BAR_A" 0 4096
	grep -w peer_first /proc/keys
	adapter_stop first
	eventually must_fail grep -w peer_first /proc/keys
	eventually balanced
}

# A BPF iterator holds a shared dma-buf while the module is removed. The removal waits for it, with a
# line in the log, and the devices have the operations of their drivers meanwhile.
# not on debug, which has no BPF
test_unload_waits_for_a_bpf_iterator() {
	local dev removal reader
	adapter_start host edu0 host 0 4096
	for dev in edu0 edu1; do
		adapter_start peer $dev "$BAR_A" 0 4096
		adapter_stop peer
	done
	mkfifo /tmp/iterator.in
	exec {reader}<>/tmp/iterator.in
	python3 dmabuf_iter.py $((1 << 57)) <&"$reader" >/tmp/iterator {reader}>&- 2>&1 &
	set -- $!
	wait_line /tmp/iterator '^(holding|no iterator)'
	grep -q '^holding' /tmp/iterator || skip "this kernel has no BPF iterator over dma-bufs"
	unload_io
	log_step "unload"
	rmmod ib_peer_mem &
	removal=$!
	eventually one_line "waiting until the last reference to a dma-buf"
	adapter_start other edu1 host 0 4096
	adapter_stop other host
	unload_adapter
	[ -e /sys/module/ib_peer_mem ]
	must_fail gone $removal
	kill "$1"
	ended $removal
	must_fail loaded ib_peer_mem
	load_bars
	load_adapter dynamic,revocable,pinned
	copies edu0
}

# The parameter of the administrator selects the backend.
test_backend_parameter() {
	unload_modules
	insmod_refuses "backend=zzz: not" "$MODS/ib_peer_mem.ko" backend=zzz
	insmod_refuses "backend=rxe0:: not" "$MODS/ib_peer_mem.ko" backend=rxe0:
	insmod "$MODS/ib_peer_mem.ko" backend=edu1:none,rxe0:dma_buf
	expect "dma-buf not seen yet" served edu0
	expect "" served edu1
	expect "" served rxe0
	load_bars
	expect "error EREMOTEIO" adapter_start none edu1 "$BAR_A" 0 4096
	copies edu0
	unload_modules
	load_bars
}
