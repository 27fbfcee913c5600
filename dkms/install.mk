# SPDX-License-Identifier: GPL-2.0
#
# Installation, for "make install" and for the packages: included by the Makefile.

DESTDIR ?=
PREFIX ?= /usr/local
# The directory of the modules and of their Module.symvers.
MODULES ?= .
SYMVERS ?= $(MODULES)/Module.symvers
UDEVDIR ?= /usr/lib/udev
SBINDIR ?= /usr/sbin
SYSUSERSDIR ?= /usr/lib/sysusers.d
STRIP ?= strip
# A command that signs the file behind it, as scripts/sign-file HASH KEY CERTIFICATE of the kernel.
SIGN ?=

moddir := /usr/lib/modules/$(release)/updates/ib-peer-mem
installed := /usr/src/ib-peer-mem
dkms_module := ib-peer-mem/$(PEER_MEM_VERSION)
dkms_dir := $(DESTDIR)/usr/src/ib-peer-mem-$(PEER_MEM_VERSION)
data := install -m 644

install-modules:
	install -d $(DESTDIR)$(moddir)
	$(data) $(MODULES)/ib_peer_mem.ko $(MODULES)/io_peer_mem.ko $(DESTDIR)$(moddir)
	$(STRIP) -g $(DESTDIR)$(moddir)/*.ko
	$(if $(SIGN),for module in $(DESTDIR)$(moddir)/*.ko; do $(SIGN) $$module || exit 1; done)

# What client modules are built against: headers for all kernels, symbols for each.
install-include:
	install -d $(DESTDIR)$(installed)/include/rdma
	$(data) include/rdma/ib_peer_mem.h include/rdma/peer_mem.h $(DESTDIR)$(installed)/include/rdma

install-headers: install-include
	install -d $(DESTDIR)$(installed)/$(release)
	$(data) $(SYMVERS) $(DESTDIR)$(installed)/$(release)/Module.symvers
	ln -sfn ../include $(DESTDIR)$(installed)/$(release)/include

# Gives the BARs' device nodes to the group rdma. Afterwards, or at the next boot:
# systemd-sysusers; udevadm control --reload; udevadm trigger --subsystem-match=misc
install-udev:
	install -d $(DESTDIR)$(UDEVDIR)/rules.d $(DESTDIR)$(SYSUSERSDIR)
	$(data) system/60-io-peer-mem.rules $(DESTDIR)$(UDEVDIR)/rules.d
	$(data) system/sysusers.conf $(DESTDIR)$(SYSUSERSDIR)/io-peer-mem.conf

# ib_peer_mem is loaded before drivers that are its clients, and not by itself: applications take its
# symbols for device memory that can be registered. Earlier versions had it loaded at boot.
install-system: install-udev
	rm -f $(DESTDIR)/usr/lib/modules-load.d/ib-peer-mem.conf
	install -d $(DESTDIR)/usr/lib/modprobe.d $(DESTDIR)$(SBINDIR)
	$(data) system/modprobe.conf $(DESTDIR)/usr/lib/modprobe.d/ib-peer-mem.conf
	install -m 755 dkms/compat $(DESTDIR)$(SBINDIR)/ib-peer-mem-compat
	install -d $(DESTDIR)/usr/share/man/man8
	$(data) dkms/ib-peer-mem-compat.8 $(DESTDIR)/usr/share/man/man8

# The source of the two modules, and what dkms.conf runs; nothing that was built or that tests.
dkms_source := Kbuild version.mk include rust src samples/io_peer_mem scripts/inner/kernel-stock \
	dkms/build dkms/compat dkms/kernel-tree
# The releases that the modules build for, oldest first.
kernels = $(shell awk '/^[0-9]/ { print $$1 }' scripts/kernels | sort -Vu)
install-dkms-source:
	rm -rf $(dkms_dir)
	install -d $(dkms_dir)
	find $(dkms_source) -type f ! -name '*.o' ! -name '.*' ! -name '*_generated.rs' ! -name '*.rmeta' \
		! -name '*_inline.c' -exec cp --parents -t $(dkms_dir) {} +
	$(MAKE) install-dkms-conf DESTDIR=$(DESTDIR)
install-dkms-conf:
	sed -e 's/#MODULE_VERSION#/$(PEER_MEM_VERSION)/' -e 's/#OLDEST_KERNEL#/$(firstword $(kernels))/' \
		-e 's/#NEWEST_KERNEL#/$(lastword $(kernels))/' dkms/dkms.conf >$(dkms_dir)/dkms.conf

install-userspace:
	$(MAKE) -C userspace install DESTDIR=$(DESTDIR) PREFIX=$(PREFIX)

# On this machine, not into a DESTDIR.
here := $(if $(DESTDIR),true,sh -ec)
install: install-modules install-headers install-system install-userspace
	$(here) 'depmod $(release); ldconfig; systemd-sysusers io-peer-mem.conf; ib-peer-mem-compat add $(release); \
		udevadm control --reload || true; udevadm trigger --subsystem-match=misc || true'

# Of a version that is there already too: other source may have it. If the build fails, the modules stay, for
# which dkms(8) has to have what it had built.
install-dkms: install-include install-dkms-source install-system install-userspace
	$(here) 'ldconfig; systemd-sysusers io-peer-mem.conf; \
		built=/var/lib/dkms/$(dkms_module)/$(release) kept=$$(mktemp -d); trap "rm -r $$kept" EXIT; \
		[ ! -e $$built ] || cp -a $$built $$kept; \
		dkms build --force $(dkms_module) -k $(release) || \
			{ rm -rf $$built; [ ! -e $$kept/* ] || mv $$kept/* $$built; exit 1; }; \
		dkms install --force $(dkms_module) -k $(release)'

install-compat:
	ib-peer-mem-compat enable

uninstall-compat:
	ib-peer-mem-compat disable

uninstall:
	-[ -n "$(DESTDIR)" ] || [ ! -d /var/lib/dkms/ib-peer-mem ] || dkms remove $(dkms_module) --all
	-[ -n "$(DESTDIR)" ] || ib-peer-mem-compat purge
	rm -rf $(DESTDIR)$(moddir) $(DESTDIR)$(installed) $(dkms_dir) $(DESTDIR)/var/cache/ib-peer-mem
	rm -f $(addprefix $(DESTDIR), $(UDEVDIR)/rules.d/60-io-peer-mem.rules $(SYSUSERSDIR)/io-peer-mem.conf \
		/usr/lib/modules-load.d/ib-peer-mem.conf /usr/lib/modprobe.d/ib-peer-mem.conf \
		$(SBINDIR)/ib-peer-mem-compat /usr/share/man/man8/ib-peer-mem-compat.8)
	$(MAKE) -C userspace uninstall DESTDIR=$(DESTDIR) PREFIX=$(PREFIX)
	$(here) 'depmod $(release); ldconfig; udevadm control --reload || true'

.PHONY: install-modules install-include install-headers install-udev install-system install-dkms-source install-dkms-conf \
	install-userspace install install-dkms install-compat uninstall-compat uninstall
