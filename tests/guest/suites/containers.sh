# SPDX-License-Identifier: GPL-2.0
#
# Rootless podman in a Debian system with the packages installed (scripts/checks/installed): containers
# of ordinary users, with the devices of the specification that iopm cdi writes, register a BAR and
# transfer bytes. Each runs in a unit of systemd with a limit of its memory cgroup.

. ./steps.sh

QUOTA=$PARAMETERS/quota
# The user of the group rdma that scripts/checks/installed has made.
MEMBER=member
LIMIT=150M

setup() {
	load_stack
	iopm bind "$BDF_A"
	BAR_A=$(bar "$BDF_A")
	eventually expect "root:rdma 660" owner "$BAR_A"
	mkdir -p /etc/cdi
	iopm cdi --output /etc/cdi/ib-peer-mem.json
	make_image /tmp/image
	mkdir -m 700 /tmp/home
	chown $MEMBER /tmp/home
	tar -C /tmp/image -cf - . | in_unit podman import - peer
	in_unit podman images -n | grep localhost/peer
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

# in_unit COMMAND...: as systemd runs the user's service. The home is a tmpfs, for podman's layers.
in_unit() {
	systemd-run --quiet --wait --pipe --uid=$MEMBER --working-directory=/tmp --setenv=HOME=/tmp/home \
		--setenv=XDG_RUNTIME_DIR=/tmp/home/run --property=MemoryMax=$LIMIT --property=MemorySwapMax=0 \
		sh -ec 'mkdir -p -m 700 "$XDG_RUNTIME_DIR"; exec "$@"' sh "$@"
}
# container OPTION... peer ARGUMENT...: with the BAR and the RDMA device.
container() {
	in_unit podman run --rm --cgroups=disabled --network=host --log-driver=none --group-add=keep-groups \
		--device "ib-peer-mem/device=$BDF_A-bar2" --device "ib-peer-mem/device=$DEV" "$@"
}
# The image, and its program.
PEER=(peer /bin/peer_rdma)

# No capability is needed.
test_root_of_a_container() {
	container --cap-drop=all --security-opt=no-new-privileges --read-only "${PEER[@]}" \
		write -o 4097 -l 70003 -s 91 "$BAR_A" | tee /tmp/write
	host_has a /tmp/write wrote
}

# Device memory is not charged to the memory cgroup.
test_memory_cgroup() {
	local LIMIT=60M size=$((62 << 20))
	container "${PEER[@]}" reg -m $size "$BAR_A" | grep -x 'registration: ok'
}

# hold OPTION...: a container that holds 3 MiB of the BAR.
hold() {
	container --name holder "$@" "${PEER[@]}" hold -n 1 -m $((3 << 20)) "$BAR_A" >/tmp/hold 2>&1 &
	wait_line /tmp/hold '^holding'
}
end_hold() {
	in_unit podman kill holder
	wait
}

test_killed_container() {
	hold
	expect "1 " eval 'in_use | cut -c 1-2'
	end_hold
	all_released
}

# All uids of a user's containers share the quota of the user.
test_quota() {
	echo $((4 << 20)) >"$QUOTA"
	hold --user 1000:1000
	refuses 'Disk quota exceeded' container --user 2000:2000 "${PEER[@]}" reg -m $((2 << 20)) "$BAR_A"
	container --user 2000:2000 "${PEER[@]}" reg -m $((1 << 20)) "$BAR_A" | grep -x 'registration: ok'
	end_hold
	all_released
	container --user 2000:2000 "${PEER[@]}" reg -m $((2 << 20)) "$BAR_A" | grep -x 'registration: ok'
	echo >"$QUOTA"
}

# The client is unregistered under a container.
test_unbind_under_a_container() {
	hold
	iopm unbind "$BDF_A"
	client_is ""
	end_hold
	eventually nothing_registered
}
