# SPDX-License-Identifier: GPL-2.0
#
# The files of the packages (scripts/deb), unpacked into the guest: for a machine whose packages cannot be
# installed here, as programs of arm64 do not run on amd64. scripts/checks/installed installs those of
# amd64.

. ./steps.sh

# shellcheck disable=SC2034 # init's
CHAIN=yes

PACKAGES=/tmp/packages
MODULES=/lib/modules/$(uname -r)

setup() {
	load_stack
	share_of_host packages $PACKAGES
}

test_unpack() {
	local name
	# The modules of the kernel are read-only here.
	mkdir -p /tmp/modules/{files,work}
	mount -t overlay -o "lowerdir=$MODULES,upperdir=/tmp/modules/files,workdir=/tmp/modules/work" modules "$MODULES"
	for name in ib-peer-mem-common "ib-peer-mem-modules-$(uname -r)" iopm libiopm1; do
		dpkg-deb -x "$PACKAGES/${name}"_*.deb /
	done
	depmod
	ldconfig
}

test_bind_loads_the_modules() {
	local module
	iopm bind "$BDF_A"
	find_a
	for module in ib_peer_mem io_peer_mem; do
		loaded $module
		modinfo -n $module | grep "^$MODULES/updates/"
	done
}
find_a() { eventually test -c "$BAR_A"; }

test_iopm() {
	iopm list | grep "$BDF_A"
	iopm test "$DEV" "$BAR_A" | grep "^ok "
	iopm status
}

test_register_and_write() {
	"$RDMA" write -o 4096 -l 100000 -s 91 "$BAR_A"
	ask_host pattern a 4096 100000 91
	eventually balanced
}

# Every symbol that it needs is there.
test_library() {
	local library
	library=$(echo /usr/lib/*/libiopm.so.1)
	[ -e "$library" ]
	expect "" eval "LD_BIND_NOW=1 LD_PRELOAD=$library /bin/true 2>&1"
}

test_unbind_unloads_the_modules() {
	iopm unbind "$BDF_A"
	must_fail loaded io_peer_mem
	must_fail loaded ib_peer_mem
}
