# SPDX-License-Identifier: GPL-2.0
#
# Mooncake's transfer engine, unmodified, on mapped BARs of two hosts: an application that registers
# memory by address and connects by a handshake of its own. Sourced by the suites mooncake_a and
# mooncake_b, which make check-apps runs.

. ./two.sh

DIR=/mnt/mooncake

# setup_engine IP OTHER-IP
setup_engine() {
	setup_host "$1" "$2"
	share_of_host mooncake $DIR
}

# engine ROLE [ARGUMENT...]: see mooncake_bar.py.
engine() {
	local role=$1
	shift
	PYTHONPATH=$DIR MC_GID_INDEX=$GID PYTHONDONTWRITEBYTECODE=1 \
		timeout "$PATIENCE" python3 mooncake_bar.py "$role" "$IP" "$DEV" "$BAR_A" "$@"
}

# one_mr BEFORE: since then an MR on the BAR was made.
one_mr() { [ $(($(counter num_alloc_mrs) - $1)) -ge 1 ] || fail "no MR on a BAR"; }
