# SPDX-License-Identifier: GPL-2.0
#
# The distribution's drivers of RDMA adapters are loaded and unloaded before and after
# our modules, and RDMA on rxe works throughout. The guest lacks their
# adapters: this tests the interaction of the modules alone.

# NAMED: the drivers of common adapters that Debian builds. KNOWN: all drivers of Linux that a distribution
# may build, except hfi1: loading it makes Linux 7.3 warn.
NAMED="mlx5_ib irdma bnxt_re mana_ib"
KNOWN="$NAMED efa ionic_rdma mlx4_ib erdma bng_re hns-roce-hw-v2 iw_cxgb4 ib_mthca ocrdma qedr
	usnic_verbs vmw_pvrdma siw"

# The drivers of this kernel, and those of them with a name above.
drivers() { cat /tmp/drivers; }
named() { grep -xE "${NAMED// /|}" /tmp/drivers; }

setup() {
	local d
	load_stack
	unload_modules
	for d in $KNOWN; do
		! modinfo "$d" >/dev/null 2>&1 || printf '%s\n' "${d//-/_}"
	done >/tmp/drivers
}

# Unloads the driver itself; its dependencies stay loaded.
unload() { rmmod "$1"; must_fail loaded "$1"; }
# File names may have hyphens, module names have none.
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
	[ "$KIND" != debug ] || skip "this kernel is built without drivers of adapters"
	note "of the drivers $KNOWN this kernel has $(drivers | paste -sd ' ')"
	expect "${NAMED// /$'\n'}" named
}

# not on debug
test_all_together() {
	local d
	for d in $(drivers); do load "$d"; done
	load_modules
	rdma_works
	# Reload our modules with the drivers loaded, then the drivers with our modules.
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
