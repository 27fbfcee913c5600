# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The distribution's drivers of RDMA adapters beside us: loaded and unloaded, before
# us and after us, in any order, and RDMA on rxe works throughout. They find no
# adapter here: what they do to ours and we to theirs is all there is to see.

# shellcheck disable=SC2034 # init's
TEST_LIMIT=180

# Drivers in the source of Linux; a distribution builds some of them. Those that
# people have most. Not hfi1: loading it alone makes Linux 7.3 warn.
NAMED="mlx5_ib irdma bnxt_re efa mana_ib ionic_rdma"
KNOWN="$NAMED mlx4_ib erdma bng_re hns-roce-hw-v2 iw_cxgb4 ib_mthca ocrdma qedr
	usnic_verbs vmw_pvrdma siw"

# Those that this kernel has: loaded once, with all that they need, by test_alone,
# and those that then load and unload.
drivers() { cat /tmp/drivers; }
named() { grep -xE "${NAMED// /|}" /tmp/drivers; }

setup() {
	load_stack
	unload_modules
	# The stack has it loaded.
	! loaded mlx5_ib || rmmod mlx5_ib
	: >/tmp/drivers
}

# What a driver needs stays loaded: only the driver itself comes and goes.
unload() { rmmod "$1"; must_fail loaded "$1"; }
# Names of files may have hyphens, those of modules have none.
load() { modprobe "$1"; loaded "$1"; }

rdma_works() {
	if loaded io_peer_mem; then
		find_bars
		"$RDMA" write -l 50000 "$BAR_A"
	else
		"$RDMA" write -l 50000 host
	fi
}

test_which_are_there() {
	local d there=() not=()
	[ "$KIND" != debug ] || skip "this kernel is built without drivers of adapters"
	for d in $KNOWN; do
		if modinfo "$d" >/dev/null 2>&1; then there+=("$d"); else not+=("$d"); fi
	done
	note "this kernel has ${there[*]}"
	note "it does not have ${not[*]}"
	printf '%s\n' "${there[@]//-/_}" >/tmp/there
	[ -s /tmp/there ]
}

# What does not load without us is no matter of ours.
test_alone() {
	local d
	must_fail loaded ib_peer_mem
	while read -r d; do
		if load "$d" && unload "$d"; then
			echo "$d" >>/tmp/drivers
		else
			note "without us, and without its adapter, $d does not load and unload"
		fi
	done </tmp/there
	[ -s /tmp/drivers ]
}

# in_order STEP...: with each of the named drivers the same steps.
in_order() {
	local d step
	for d in $(named); do
		for step; do
			case $step in
			+driver) load "$d" ;;
			-driver) unload "$d" ;;
			+us) load_modules ;;
			-us) unload_modules ;;
			rdma) rdma_works ;;
			esac
		done
	done
}

test_driver_comes_first_and_goes_first() { in_order +driver +us rdma -driver rdma -us; }
test_driver_comes_first_and_goes_last() { in_order +driver +us rdma -us rdma -driver; }
test_driver_comes_last_and_goes_first() { in_order +us +driver rdma -driver rdma -us; }
test_driver_comes_last_and_goes_last() { in_order +us +driver rdma -us rdma -driver; }

test_all_together() {
	local d
	for d in $(drivers); do load "$d"; done
	load_modules
	rdma_works
	note "loaded beside us at once: $(drivers | paste -sd ' ')"
	# We go and come while they stay, and they while we stay.
	unload_modules
	rdma_works
	load_modules
	rdma_works
	for d in $(drivers); do unload "$d"; done
	rdma_works
	for d in $(drivers | tac); do load "$d"; done
	rdma_works
	unload_modules
	for d in $(drivers); do unload "$d"; done
	rdma_works
}

# Thirty times one of them, or in every fourth step we, come or go; the same in each run.
test_any_order() {
	local all i what
	mapfile -t all < <(drivers)
	RANDOM=1
	for ((i = 0; i < 30; i++)); do
		if ((i % 4 == 0)); then
			if loaded ib_peer_mem; then unload_modules; else load_modules; fi
		else
			what=${all[RANDOM % ${#all[@]}]}
			if loaded "$what"; then unload "$what"; else load "$what"; fi
		fi
		rdma_works
	done
}

# As the suites before and after have it.
test_stack_as_before() {
	local d
	for d in $(drivers); do load "$d"; done
	# With what they needed and nobody else does.
	# shellcheck disable=SC2046 # words are meant
	modprobe -ra $(drivers)
	for d in $(drivers); do must_fail loaded "$d"; done
	load mlx5_ib
	rdma_works
}

[ "$KIND" != debug ] || TESTS=test_which_are_there
