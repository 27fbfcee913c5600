# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Rootless podman in a Debian system with the packages installed (scripts/checks/installed): containers
# of ordinary users, with the devices of the specification that iopm cdi writes, register a BAR and
# transfer bytes. Each runs in a unit of systemd with a limit of its memory cgroup.

. ./steps.sh

QUOTA=/sys/module/io_peer_mem/parameters/quota
# The users that scripts/checks/installed has made: of the group rdma; of no group.
MEMBER=member OTHER=other
LIMIT=150M

setup() {
	local user
	load_stack
	iopm bind "$BDF_A"
	BAR_A=$(bar "$BDF_A")
	eventually expect "root:rdma 660" owner "$BAR_A"
	mkdir -p /etc/cdi
	iopm cdi --output /etc/cdi/ib-peer-mem.json
	make_image /tmp/image
	for user in $MEMBER $OTHER; do
		mkdir -m 700 "/tmp/home-$user"
		chown "$user" "/tmp/home-$user"
		tar -C /tmp/image -cf - . | in_unit "$user" podman import - peer
		in_unit "$user" podman images -n | grep localhost/peer
	done
}

# make_image DIR: the program, and what libibverbs needs.
make_image() {
	local file
	mkdir -p "$1"/{bin,tmp,proc,sys,dev,etc}
	cp "$RDMA" "$1/bin"
	cp -rL --parents /etc/libibverbs.d /usr/lib/*/libibverbs "$1"
	for file in "$RDMA" /usr/lib/*/libibverbs/librxe*.so; do ldd "$file"; done |
		grep -o '/[^ ]*' | sort -u | xargs cp -L --parents -t "$1"
	chmod -R go+rX "$1"
}

# in_unit USER COMMAND...: as systemd runs a user's service. The home is a tmpfs, for podman's layers.
in_unit() {
	systemd-run --quiet --wait --pipe --uid="$1" --working-directory=/tmp --setenv=HOME="/tmp/home-$1" \
		--setenv=XDG_RUNTIME_DIR="/tmp/home-$1/run" --property=MemoryMax=$LIMIT --property=MemorySwapMax=0 \
		sh -ec 'mkdir -p -m 700 "$XDG_RUNTIME_DIR"; exec "$@"' sh "${@:2}"
}
# container USER OPTION... peer ARGUMENT...: with the BAR and the RDMA device.
container() {
	without_bar "$1" --device "ib-peer-mem/device=$BDF_A-bar2" "${@:2}"
}
without_bar() {
	in_unit "$1" podman run --rm --cgroups=disabled --network=host --log-driver=none --group-add=keep-groups \
		--device "ib-peer-mem/device=$DEV" "${@:2}"
}
# The image, and its program.
PEER=(peer /bin/peer_rdma)

test_root_of_a_container() {
	container $MEMBER "${PEER[@]}" write -o 4097 -l 70003 -s 91 "$BAR_A" | tee /tmp/write
	host_has a /tmp/write wrote
	note "podman $(podman --version | cut -d' ' -f3), rootless: $(grep -m 1 wrote /tmp/write)"
}

# No capability is needed.
test_without_capabilities() {
	container $MEMBER --cap-drop=all --security-opt=no-new-privileges --read-only "${PEER[@]}" \
		write -o 300 -l 60000 -s 93 "$BAR_A" | tee /tmp/write
	host_has a /tmp/write wrote
}

# Device memory is not charged to the memory cgroup.
test_memory_cgroup() {
	local LIMIT=60M size=$((62 << 20))
	container $MEMBER "${PEER[@]}" reg -m $size "$BAR_A" | grep -x 'registration: ok'
	note "an MR of $size bytes in a cgroup of $LIMIT"
}

test_other_users_are_refused() {
	refuses 'Permission denied' container $OTHER "${PEER[@]}" reg "$BAR_A"
}

test_bar_that_is_not_given() {
	refuses 'No such file' without_bar $MEMBER "${PEER[@]}" reg "$BAR_A"
}

# hold USER OPTION...: a container that holds 3 MiB of the BAR.
hold() {
	local user=$1
	shift
	container "$user" --name holder "$@" "${PEER[@]}" hold -n 1 -m $((3 << 20)) "$BAR_A" >/tmp/hold 2>&1 &
	wait_line /tmp/hold '^holding'
}
end_hold() {
	in_unit $MEMBER podman kill holder
	wait
}

test_killed_container() {
	hold $MEMBER
	expect "1 " eval 'in_use | cut -c 1-2'
	end_hold
	all_released
}

# All uids of a user's containers share the quota of the user.
test_quota() {
	echo $((4 << 20)) >$QUOTA
	hold $MEMBER --user 1000:1000
	refuses 'Disk quota exceeded' container $MEMBER --user 2000:2000 "${PEER[@]}" reg -m $((2 << 20)) "$BAR_A"
	container $MEMBER --user 2000:2000 "${PEER[@]}" reg -m $((1 << 20)) "$BAR_A" | grep -x 'registration: ok'
	end_hold
	all_released
	container $MEMBER --user 2000:2000 "${PEER[@]}" reg -m $((2 << 20)) "$BAR_A" | grep -x 'registration: ok'
	echo >$QUOTA
}

# The client is unregistered under a container.
test_unbind_under_a_container() {
	hold $MEMBER
	iopm unbind "$BDF_A"
	client_is ""
	end_hold
	eventually nothing_registered
}
