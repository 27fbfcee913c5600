# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # failed and out are of the script that sources this
#
# Shared by the tests that scripts/checks/vendor-builds runs in trees of their own. $out is a
# directory for logs; $failed is set to 1 if a check fails.

check() { # check NAME COMMAND...
	local name=$1 rc
	shift
	# In a condition set -e would not hold.
	set +e
	(set -e; "$@") >"$out/log" 2>&1
	rc=$?
	set -e
	if [ $rc = 0 ]; then
		echo "ok    $name"
	else
		echo "FAIL  $name"
		sed 's/^/      /' "$out/log"
		failed=1
	fi
}
not() { if "$@"; then return 1; fi; }

# needs_core MODULE, lacks_core MODULE: it is linked against ib_peer_mem, or it is not.
links_core() {
	local depends
	depends=$(modinfo -F depends "$1") || { echo "no module: $1"; exit 1; }
	[[ ,$depends, = *,ib_peer_mem,* ]]
}
needs_core() { links_core "$1" || { echo "$1 does not need ib_peer_mem"; return 1; }; }
lacks_core() { if links_core "$1"; then echo "$1 needs ib_peer_mem"; return 1; fi; }
