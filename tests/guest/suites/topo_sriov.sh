# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # init's; lkey and addr are set by adapter.sh
#
# Virtual functions: MRs on their BARs, by the client for memory without struct pages, while the physical
# function takes them away or is reset. The stock driver igb, QEMU's 82576.

. ./steps.sh
. ./adapter.sh

CLIENT=mmio_client_sample
CHAIN=yes
PF=$(dirname "$(grep -l 0x10c9 /sys/bus/pci/devices/*/device)")
# The only memory in BAR 0 of a virtual function: its mailbox, behind the word by which igb greets.
MAILBOX=2064 LENGTH=48

setup() {
	modprobe -a ib_uverbs igb
	load_core
	load_adapter dynamic
	echo 0 >"$PF/sriov_drivers_autoprobe"
	insmod "$MODS/external/samples/mmio_client/$CLIENT.ko" bar=0
}

# have N: the physical function has so many; the first ones are on the BARs $VF_0, $VF_1.
have() {
	local i bdf
	echo "$1" >"$PF/sriov_numvfs"
	for ((i = 0; i < $1; i++)); do
		bdf=$(basename "$(readlink -f "$PF/virtfn$i")")
		echo $CLIENT >"/sys/bus/pci/devices/$bdf/driver_override"
		echo "$bdf" >/sys/bus/pci/drivers/$CLIENT/bind
		declare -g "VF_$i=/dev/mmio_client_$bdf"
		eventually test -c "/dev/mmio_client_$bdf"
	done
}

# writer: in the background, from host memory into the first one, until the adapter is refused.
writer() {
	adapter_start host edu0 host 0 $LENGTH
	adapter_say host fill 71
	host="$lkey $addr"
	adapter_start vf edu0 "$VF_0" $MAILBOX $LENGTH
	vf="$lkey $addr"
	while answer=$(adapter_dma edu0 "copy $host $vf $LENGTH"); do echo "$answer"; done >/tmp/writes &
	writer=$!
	wait_line /tmp/writes ok
}
# still_writes: it makes further writes.
still_writes() {
	local before
	before=$(grep -c ok /tmp/writes)
	eventually eval "[ \$(grep -c ok /tmp/writes) -gt $((before + 3)) ]"
}
# writer_is_denied: the writer has ended, and the adapter cannot read the memory either.
writer_is_denied() {
	ended "$writer"
	expect EACCES adapter_dma edu0 "copy $host $vf $LENGTH"
	expect EACCES adapter_dma edu0 "copy $vf $host $LENGTH"
	expect revoked adapter_mr edu0 "${vf% *}" state
	[ ! -e "$VF_0" ]
	adapter_stop vf host
	eventually balanced "$CLIENT"
}

test_adapter_writes_to_each() {
	local seed
	have 2
	for seed in 0 1; do
		declare -n node=VF_$seed
		adapter_start "vf$seed" edu0 "$node" $MAILBOX $LENGTH
		from_host edu0 "6$seed"
	done
	to_host edu0 61
	adapter_stop vf1
	adapter_start again edu0 "$VF_0" $MAILBOX $LENGTH
	to_host edu0 60
	adapter_stop again vf0
	balanced $CLIENT
	echo 0 >"$PF/sriov_numvfs"
}

test_they_go_under_a_writer() {
	local host vf writer answer
	have 2
	writer
	echo 0 >"$PF/sriov_numvfs"
	writer_is_denied
}

# One without a driver, mapped from sysfs.
test_a_mapping_goes_under_a_writer() {
	local host vf writer answer CLIENT=io_peer_mem VF_0=$PF/virtfn0/resource0
	load_io_with mmio=sysfs
	echo 1 >"$PF/sriov_numvfs"
	writer
	echo 0 >"$PF/sriov_numvfs"
	writer_is_denied
	unload_io
}

# The kernel gives the virtual functions their BARs back: the MR stays, and can be revoked. What the
# emulated igb keeps in its mailbox is not compared.
test_reset_of_the_physical_function() {
	local host vf writer answer
	have 1
	writer
	echo 1 >"$PF/reset"
	still_writes
	echo 0 >"$PF/sriov_numvfs"
	writer_is_denied
}

test_unload() { rmmod $CLIENT; }
