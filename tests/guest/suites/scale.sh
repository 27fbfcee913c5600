# SPDX-License-Identifier: GPL-2.0
#
# Eight adapters, 64 processes on each, 1,000 MRs in each process, in a guest whose instructions are
# counted, for make scale. An MR may cost 1.2 times what it costs with one adapter. The file scale of
# the results has the rows of bench_scale. peer.processes= and peer.mrs= are other numbers.

# Of the guest's clock.
# shellcheck disable=SC2034 # init's
TEST_LIMIT=7200
PROCESSES=$(parameter processes 64)
MRS=$(parameter mrs 1000)
ALL=(mlx5_{0..7})
ONE=mlx5_7

# shellcheck disable=SC2034 # init's
CHAIN=yes

setup() {
	load_stack
	eventually eight_adapters
	: >"$OUT/scale"
}

eight_adapters() { [ "$(ls /sys/class/infiniband)" = "$(printf '%s\n' "${ALL[@]}")" ]; }

# The last adapter is removed; the client is unregistered when the last function is unbound.
remove() { echo "remove:1:echo $(DEV=$ONE mlx5_bdf) >/sys/bus/pci/drivers/mlx5_core/unbind"; }
unregister() { echo "unregister:$1:echo $BDF_A >/sys/bus/pci/drivers/io_peer_mem/unbind"; }

# round END... -- DEVICE...
round() {
	load_bars
	unbind "$BDF_B"
	/mnt/programs/bench_scale "$BAR_A" "$PROCESSES" "$MRS" "$@" | tee -a "$OUT/scale"
	expect "0 0 0" in_use_if_there
	unload_modules
	mlx5_bind
	eventually eight_adapters
}
in_use_if_there() { if [ -e "$PEERS/io_peer_mem" ]; then in_use; else echo 0 0 0; fi; }

test_one_adapter() {
	round kill:1 -- $ONE
	round "$(remove)" -- $ONE
	round "$(unregister 1)" -- $ONE
}

test_eight_adapters() {
	round kill:8 -- "${ALL[@]}"
	# These are the first registrations with seven of the adapters. All tasks wait in the driver, which
	# makes a queue pair first: more than the table of the exempt tasks has slots.
	must_fail log_has "cannot serve"
	round "$(remove)" "$(unregister 7)" -- "${ALL[@]}"
}

# Of several figures of an operation the highest.
test_figures() {
	local what bad=
	for what in register kill remove unregister; do
		awk -v what=$what '
			$2 == what && $4 > cost[$1] { cost[$1] = $4; mrs[$1] = $3 }
			END {
				if (!cost[1] || !cost[8]) exit 1
				printf "%s: %d MRs of 1 adapter %d instructions each, %d MRs of 8 adapters %d: ratio %.2f\n",
					what, mrs[1], cost[1], mrs[8], cost[8], cost[8] / cost[1]
				exit cost[8] > 1.2 * cost[1]
			}' "$OUT/scale" >/tmp/figure || bad+=" $what"
		note "$(cat /tmp/figure)"
	done
	[ -z "$bad" ] || fail "too much for 8 adapters:$bad"
}
