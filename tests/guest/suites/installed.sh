# SPDX-License-Identifier: GPL-2.0
#
# A Debian system with the packages installed, after its boot (scripts/checks/installed): the tests
# load modules as an administrator does, and make no group and set no permission.

. ./steps.sh
# shellcheck disable=SC2034 # init's
CHAIN=yes

TESTS="test_nothing_is_loaded"
# What README.md says to type after the reboot, if the system was installed as it says.
README=/build/after-boot
[ ! -e $README ] || TESTS+=" test_readme"
# A driver in the manner of NVIDIA's, if DKMS has built it.
! modinfo vendor_client >/dev/null 2>&1 || TESTS+=" test_driver_of_dkms"
TESTS+=" test_bind_loads_the_modules test_stack_is_stock test_no_unit_failed test_bars_are_for_the_group
	test_rdma_by_a_member_of_the_group test_others_are_refused test_doctor test_metrics_unit
	test_doctor_after_an_upgrade
	test_order_of_clients test_unbind_unloads_the_modules test_functions_of_the_boot"

# The RDMA device is the administrator's.
setup() { load_stack; }

# Applications look for both, and take them for device memory that can be registered.
is_seen() { [ -e "$PEERS" ] || grep -q ' ib_register_peer_memory_client\b' /proc/kallsyms; }

test_nothing_is_loaded() {
	local module
	must_fail is_seen
	for module in ib_peer_mem io_peer_mem; do
		must_fail loaded $module
		modinfo -n $module | grep "^/lib/modules/$(uname -r)/updates/"
		expect "$(sed -n 's/^PEER_MEM_VERSION := //p' /mnt/tree/version.mk)" modinfo -F version $module
	done
	note "after the boot of $(uname -r): $(modinfo -n ib_peer_mem), not loaded"
}

test_bind_loads_the_modules() {
	iopm bind "$BDF_A"
	client_is io_peer_mem
	grep -q ' ib_register_peer_memory_client\b' /proc/kallsyms
	iopm bind "$BDF_B"
}

test_unbind_unloads_the_modules() {
	iopm unbind "$BDF_A"
	client_is io_peer_mem
	iopm unbind "$BDF_B"
	must_fail is_seen
	must_fail loaded io_peer_mem
}

# As README.md says.
test_functions_of_the_boot() {
	echo "options io_peer_mem ids=$IDS" >/etc/modprobe.d/io_peer_mem.conf
	echo io_peer_mem >/etc/modules-load.d/io_peer_mem.conf
	systemctl restart systemd-modules-load
	find_bars
	client_is io_peer_mem
	iopm unbind "$BDF_A"
	iopm unbind "$BDF_B"
	soon client_is ""
	# It waits for functions with this id.
	loaded io_peer_mem
	rm /etc/modprobe.d/io_peer_mem.conf /etc/modules-load.d/io_peer_mem.conf
}

test_stack_is_stock() {
	local module
	for module in ib_core ib_uverbs rdma_rxe; do
		modinfo -n $module | grep "^/lib/modules/$(uname -r)/kernel/"
	done
}

test_no_unit_failed() {
	expect "" systemctl list-units --failed --no-legend --plain 'systemd-modules-load*' 'systemd-udev*' 'systemd-sysusers*'
}

test_bars_are_for_the_group() {
	udevadm verify /usr/lib/udev/rules.d/60-io-peer-mem.rules
	find_bars
	eventually expect "root:rdma 660" owner "$BAR_A"
	eventually expect "root:root 666" owner /dev/ib_peer_mem
}

test_rdma_by_a_member_of_the_group() {
	as rdma "$RDMA" write -o 4097 -l 70003 -s 91 "$BAR_A" | tee /tmp/write
	host_has a /tmp/write wrote
	note "as a user of the group rdma: $(cat /tmp/write)"
}

test_others_are_refused() {
	refuses 'Permission denied' as nogroup "$RDMA" reg "$BAR_A"
}

# The program of the package.
test_doctor() {
	iopm doctor --test rxe0 | tee /tmp/doctor
	grep "ok .*rxe0, $BDF_A/bar2: 64 KiB written and read, bytes compared" /tmp/doctor
	note "iopm doctor: $(tail -n 1 /tmp/doctor)"
}

# The unit may read debugfs, open the BARs and write the file, and nothing to which a link leads.
test_metrics_unit() {
	local dir=/var/lib/prometheus/node-exporter file
	mkdir -p $dir
	for file in /root/outside /dev/shm/outside /dev/kmsg; do
		ln -sfn $file $dir/ib_peer_mem.prom
		must_fail systemctl start iopm-metrics
	done
	rm $dir/ib_peer_mem.prom
	systemctl reset-failed iopm-metrics
	systemctl start iopm-metrics
	expect active systemctl is-active iopm-metrics.timer
	grep -x 'ib_peer_mem_details_readable 1' $dir/ib_peer_mem.prom
	grep "^ib_peer_mem_pool_size_bytes{.*$BDF_A/bar2.*} [1-9]" $dir/ib_peer_mem.prom
	note "systemd-analyze security: $(systemd-analyze security iopm-metrics | tail -n 1)"
	rm -r $dir
}

# Another version runs than the installed one.
test_doctor_after_an_upgrade() {
	local file=/sys/module/ib_peer_mem/version
	must_fail grep 'is installed$' /tmp/doctor
	echo 0.9 >/tmp/version
	mount --bind /tmp/version $file
	iopm doctor rxe0 >/tmp/doctor || true
	umount $file
	cat /tmp/doctor
	grep "^  warn  ib_peer_mem 0.9 is loaded, but $(cat $file) is installed$" /tmp/doctor
}

# A client's module comes after ours, also if it looks the symbol up by symbol_request().
test_order_of_clients() {
	local line
	modprobe -c >/tmp/softdeps
	grep ^softdep /mnt/tree/system/modprobe.conf >/tmp/wanted
	while read -r line; do grep -x "$line" /tmp/softdeps; done </tmp/wanted
	expect ib_peer_mem modprobe -R symbol:ib_register_peer_memory_client
}

test_driver_of_dkms() {
	modprobe vendor_client
	[ -d "$PEERS/vendor_client" ]
	expect "DKMS module signing key" modinfo -F signer vendor_client
	rmmod vendor_client
	rmmod ib_peer_mem
	must_fail is_seen
}

test_readme() {
	note "after the reboot: $(paste -sd ';' $README)"
	bash -e $README
}
