# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # TEST_LIMIT is init's
#
# Random operations of users and of the administrator at once. A user is programs/fuzz.c, which
# maps, registers, re-registers and forks: on BARs with soft RoCE, or mlx5 (TOPOLOGY=connectx), and on
# dma-bufs of the test exporter, which move and are revoked, with the test adapters. The administrator unbinds,
# removes, rescans, unloads, limits and kills meanwhile. The order of the administrator's steps follows from the
# seed of the round, not their times. On the kernel command
# line: peer.torture_seed=N for the first round, peer.torture_seconds=N for more rounds, or
# peer.torture_rounds=N for just that many.

. ./steps.sh
. ./adapter.sh

FUZZ=/mnt/programs/fuzz
SEED=$(parameter torture_seed 1)
LASTS=$(parameter torture_seconds 15)
ROUNDS=$(parameter torture_rounds 0)
TEST_LIMIT=$((LASTS + 300))
FAILSLAB=/sys/kernel/debug/failslab
GROUP=/tmp/cgroup/torture
# A step's function is step_NAME.
STEPS=(unbind remove unload rdma adapter kill stop starve limit)
declare -A TAKEN
USERS=0 pid='' deleting='' killed=''
ADAPTERS=3
# How mlx5 leaves while it is in use is the suite mlx5_gone.
[ "$DEV" = rxe0 ] || STEPS=("${STEPS[@]/#rdma/unbind}")

setup() {
	load_stack
	load_core
	load_io_with ranges=2:0:0x200000
	find_bars
	load_exporter
	load_adapter dynamic,revocable,pinned
	# Allocations of tasks that ask for it fail, on the debug kernel.
	if [ -d $FAILSLAB ]; then
		echo Y >$FAILSLAB/task-filter
		echo N >$FAILSLAB/ignore-gfp-wait
		echo 0 >$FAILSLAB/verbose
		echo -1 >$FAILSLAB/times
		spare_9p
	fi
	# Control groups, on the stock kernel.
	if grep -qw cgroup2 /proc/filesystems; then
		make_cgroup torture +pids +rdma
	fi
}

# Allocations of 9p succeed. A Tclunk that fails when a killed user closes its files leaves the
# fid in use on the host, and a look-up with the same number fails with EINVAL from then on.
spare_9p() {
	local range
	range=$(awk '$3 == "_etext" { exit } $3 ~ /^p9_(is|client|virtio)_/ { if (!first) first = $1; last = $1 }
		END { print first, last }' /proc/kallsyms)
	echo "0x${range% *}" >$FAILSLAB/reject-start
	echo "0x${range#* }" >$FAILSLAB/reject-end
}

# did NAME: counts a step.
did() { TAKEN[$1]=$((${TAKEN[$1]:-0} + 1)); }

# --- the user ---

# begin_user SEED CALLS THREADS: starts one; its pid is in $pid, its output in /tmp/fuzz.
begin_user() {
	local options=(-u -s "$1" -n "$2" -t "$3" -d "$DEV") i
	for ((i = 0; i < ADAPTERS; i++)); do options+=(-d "edu$i"); done
	[ ! -d $FAILSLAB ] || options+=(-m)
	! is_7_0 || options+=(-r)
	no_limits
	: >/tmp/fuzz
	(
		[ ! -d $GROUP ] || echo $BASHPID >$GROUP/cgroup.procs
		exec "$FUZZ" "${options[@]}" "$BAR_A" "$BAR_B" >/tmp/fuzz 2>&1
	) &
	pid=$!
	killed=''
	USERS=$((USERS + 1))
	eventually running
	grep -q '^fuzz: running' /tmp/fuzz || { cat /tmp/fuzz; false; }
}
running() { gone "$pid" || grep -q '^fuzz: running' /tmp/fuzz; }

# end_user: waits for it. It has found nothing wrong, and left nothing behind.
end_user() {
	local rc=0
	# Above memory.high it makes hardly any progress.
	no_limits
	eventually gone "$pid"
	wait "$pid" || rc=$?
	if [ "$rc" != 0 ] && [ "$rc$killed" != 137yes ]; then
		cat /tmp/fuzz
		fail "the user ended with status $rc"
	fi
	if [ -n "$deleting" ]; then
		ended "$deleting"
		deleting=''
	fi
	all_released
	eventually nothing_imported
}

kill_user() {
	killed=yes
	kill -9 "$pid" 2>/dev/null || true
}

no_limits() {
	[ ! -d $FAILSLAB ] || echo 0 >$FAILSLAB/probability
	[ ! -d $GROUP ] || set_limits max max max
}
# set_limits MEMORY TASKS OBJECTS
set_limits() {
	echo "$1" >$GROUP/memory.high
	echo "$2" >$GROUP/pids.max
	[ ! -e "/sys/class/infiniband/$DEV" ] || echo "$DEV hca_object=$3" >$GROUP/rdma.max || true
}

# --- the administrator; $1 is a random number ---

one_of_the_bars() { if [ $(($1 % 2)) = 0 ]; then bdf=$BDF_A; else bdf=$BDF_B; fi; }

step_unbind() {
	one_of_the_bars "$1"
	unbind_in_time "$bdf"
	bind "$bdf"
}
step_remove() {
	one_of_the_bars "$1"
	echo 1 >"/sys/bus/pci/devices/$bdf/remove" &
	ended $!
	echo 1 >/sys/bus/pci/rescan
	eventually test -c "$(bar "$bdf")"
}
# The module is in use, unless the user has just no file of it.
step_unload() {
	if rmmod io_peer_mem 2>/dev/null; then load_io_with ranges=2:0:0x200000; fi
}
# ib_uverbs ends the MRs of the user, whose calls fail with EIO from then on.
step_rdma() {
	[ -z "$deleting" ] || return 0
	rdma link delete rxe0 &
	deleting=$!
}
# The calls of the user on this adapter fail with EIO from then on.
step_adapter() {
	local device=edu$(($1 % ADAPTERS)) bdf
	bdf=$(adapter_bdf "$device")
	unbind "$bdf" &
	ended $!
	adapter_bind "$bdf" "$device"
}
step_kill() { kill_user; }
step_stop() {
	kill -STOP "$pid" 2>/dev/null || return 0
	nap 0.1
	kill -CONT "$pid" 2>/dev/null || true
}
step_starve() { [ ! -d $FAILSLAB ] || echo $(($1 % 20)) >$FAILSLAB/probability; }
step_limit() { [ ! -d $GROUP ] || set_limits $((4 + $1 % 16))M $((4 + $1 % 8)) $((4 + $1 % 32)); }

# --- the rounds ---

# round SEED: draws all random numbers first, so that they do not depend on what happens.
round() {
	local seed=$1 calls threads end reload step numbers=() names=() i
	RANDOM=$seed
	threads=$((1 + RANDOM % 4)) end=$((RANDOM % 3)) reload=$((RANDOM % 4))
	calls=$((200 + RANDOM % 1000))
	for ((i = 1 + RANDOM % 6; i > 0; i--)); do
		names+=("${STEPS[RANDOM % ${#STEPS[@]}]}")
		numbers+=("$RANDOM")
	done
	echo "round with the seed $seed: $threads threads, ${names[*]}"
	log_step "torture seed $seed: $threads threads, ${names[*]}"
	add_device
	find_bars
	# A user that makes its calls and ends, or one that is killed.
	[ "$end" = 0 ] || calls=1000000
	begin_user "$seed" "$calls" "$threads"
	for i in "${!names[@]}"; do
		nap "0.$((numbers[i] % 8))"
		"step_${names[i]}" "${numbers[i]}"
		did "${names[i]}"
	done
	[ "$end" = 0 ] || kill_user
	end_user
	if [ "$reload" = 0 ]; then
		unload_modules
		load_core
		load_io_with ranges=2:0:0x200000
		did reload
	fi
}

test_everything_at_once() {
	local end=$((SECONDS + LASTS)) rounds=0 steps=0 name list=''
	connectx_refuses '*'
	# Drivers do not ask the kernel to be quiet about allocations that step_starve has fail.
	[ ! -d $FAILSLAB ] || log_may '(page allocation failure|vmalloc error): '
	while [ $SECONDS -lt $end ] && { [ "$ROUNDS" = 0 ] || [ $rounds -lt "$ROUNDS" ]; }; do
		round $((SEED + rounds))
		rounds=$((rounds + 1))
	done
	no_limits
	for name in "${!TAKEN[@]}"; do
		steps=$((steps + TAKEN[$name]))
		list+="$name ${TAKEN[$name]}, "
	done
	note "torture: $rounds rounds, $USERS users, $((SECONDS - end + LASTS)) s, seeds $SEED to $((SEED + rounds - 1))"
	note "administrator, $steps steps: ${list%, }"
	[ $rounds -gt 0 ]
}
