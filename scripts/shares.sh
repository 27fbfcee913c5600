# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # out, args, pkg, root are of scripts/qemu
#
# The directories that a guest shares with this machine: by 9p, which QEMU serves, or by virtiofs, with
# a process for each directory, if the kernel has no 9p. Sourced by scripts/qemu.

share_pids=() share_by=9p

# shares_begin: finds what the kernel of the guest has; sets $share_by.
shares_begin() {
	[ ! -e "${pkg:-}/config" ] || grep -q '^CONFIG_NET_9P=' "$pkg/config" || share_by=virtiofs
}

# share TAG DIR rw|ro: adds what QEMU needs for it to args.
share() {
	local tag=$1 dir=$2 mode=$3 program socket=$CACHE/share-$$-$1.sock cache=(--cache=always)
	if [ "$share_by" = 9p ]; then
		args+=(-virtfs "local,mount_tag=$tag,path=$dir,security_model=none,multidevs=remap$([ "$mode" = rw ] || echo ,readonly=on)")
		return
	fi
	program=$("$TOP/scripts/make/package" virtiofsd)/usr/libexec/virtiofsd
	case $mode in
	# This machine reads and answers while the guest runs.
	rw) cache=(--cache=never) ;;
	ro) cache+=(--readonly) ;;
	esac
	rm -f "$socket"
	# Not in the toolchain rootfs, on which file systems are mounted there, but with its libraries.
	"$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$program" \
		--sandbox=none "${cache[@]}" --shared-dir="$dir" --socket-path="$socket" \
		</dev/null >"$out/share-$tag.log" 2>&1 &
	share_pids+=($!)
	until [ -S "$socket" ]; do
		kill -0 "${share_pids[-1]}" 2>/dev/null || { cat "$out/share-$tag.log" >&2; die "virtiofsd does not start"; }
		sleep 0.1
	done
	args+=(-chardev "socket,id=share-$tag,path=$socket" -device "vhost-user-fs-pci,chardev=share-$tag,tag=$tag")
}

# shares_kill: whatever has happened. The processes end by themselves when QEMU does.
shares_kill() {
	[ ${#share_pids[@]} = 0 ] || kill -9 "${share_pids[@]}" 2>/dev/null || true
	rm -f "$CACHE/share-$$"-*.sock*
}
