# SPDX-License-Identifier: GPL-2.0
#
# Names: memory of which a process says of what dma-buf it is a part, by /dev/ib_peer_mem and by the
# protocol of /dev/dmabuf_reg. Their dma-bufs are those of udmabuf, or of a BAR: the debug kernel has
# no udmabuf.

NAMED=(python3 named.py)
BUFINFO=/sys/kernel/debug/dma_buf/bufinfo

setup() {
	modprobe ib_uverbs
	load_named
}

# load_named PARAMETER...: the modules, the core with these.
load_named() {
	unload_modules
	load_core "$@"
	[ ! -c /dev/udmabuf ] || return 0
	load_bars
}

# WITH: what the program runs with.
with() {
	WITH=(env)
	[ -c /dev/udmabuf ] || WITH+=("BAR=$BAR_A")
}
named() {
	with
	"${WITH[@]}" "${NAMED[@]}" "$@"
}

# held: the number of dma-bufs of the size that "named hold" has, of any process or of none.
held() { awk '$1 + 0 == 61 * 4096 { n++ } END { print n + 0 }' "$BUFINFO"; }
none_held() { [ "$(held)" = 0 ]; }

# hold WORD: "named hold WORD" in the background, as $HOLDER, whose input ends with the file
# descriptor 8.
hold() {
	rm -f /tmp/input
	mkfifo /tmp/input
	: >/tmp/hold
	with
	"${WITH[@]}" "${NAMED[@]}" hold "$1" </tmp/input >/tmp/hold 2>&1 &
	HOLDER=$!
	exec 8>/tmp/input
	wait_line /tmp/hold '^ready$'
	expect 2 held
}

test_errors() { named errors; }
test_names() { named names; }
test_fork() { named fork; }
test_replace() { named replace; }

# The references are those of the address space, not of the descriptor, which sleep(1) has too.
test_exec() {
	hold exec
	exec 8>&-
	eventually none_held
	grep -a ib_peer_mem < <(ls -l "/proc/$HOLDER/fd")
	gone "$HOLDER" && fail "it has ended"
	kill_and_wait "$HOLDER"
}

# The child has the descriptor of the device still.
test_exit() {
	local child
	hold child
	child=$(awk '$1 == "child" { print $2 }' /tmp/hold)
	exec 8>&-
	wait "$HOLDER"
	eventually none_held
	grep -a ib_peer_mem < <(ls -l "/proc/$child/fd")
	kill "$child"
}

test_kill() {
	hold ""
	kill -9 "$HOLDER"
	eventually none_held
	exec 8>&-
	wait "$HOLDER" || true
}

# The names go with the module, which an open device keeps, but a name does not.
# not on debug
test_unload() {
	hold closed
	rmmod ib_peer_mem
	eventually none_held
	gone "$HOLDER" && fail "it has ended"
	exec 8>&-
	wait "$HOLDER"
	load_named
}

test_limit() {
	load_named max_names=100
	logs '100 ranges of a process have names, which is the limit' named limit 100
	insmod_refuses_named max_names=1k "max_names=1k: not a number"
	load_named
}
insmod_refuses_named() {
	unload_modules
	insmod_refuses "$2" "$MODS/ib_peer_mem.ko" "$1"
}

# Not without the parameter.
test_dmabuf_reg() {
	must_fail test -e /dev/dmabuf_reg
	load_named dmabuf_reg=1
	eventually test -c /dev/dmabuf_reg
	expect 666 stat -c %a /dev/dmabuf_reg
	named -r dmabuf_reg
	insmod_refuses_named dmabuf_reg=2 "dmabuf_reg=2: not 0\|1"
	load_named
}
