# SPDX-License-Identifier: GPL-2.0

KDIR ?= /lib/modules/$(shell uname -r)/build
# The same folder as scripts/lib.sh has.
CACHE := $(or $(IB_PEER_MEM_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ib-peer-mem)

modules:
	+$(MAKE) -C $(KDIR) M=$(CURDIR) modules

# For Debian's kernel KVER, its Rust metadata made again; prints the folder.
stock:
	@scripts/build stock

# What other modules are built against.
DESTDIR ?=
SYMVERS ?= Module.symvers
installed := $(DESTDIR)/usr/src/ib-peer-mem
install-headers:
	install -d $(installed)/include/rdma
	install -m 644 include/rdma/ib_peer_mem.h include/rdma/peer_mem.h $(installed)/include/rdma
	install -m 644 $(SYMVERS) $(installed)/Module.symvers

# The BARs' devices for the group rdma; then, or when the machine starts next:
# systemd-sysusers; udevadm control --reload; udevadm trigger --subsystem-match=misc
UDEVDIR ?= /usr/lib/udev
SYSUSERSDIR ?= /usr/lib/sysusers.d
install-udev:
	install -d $(DESTDIR)$(UDEVDIR)/rules.d $(DESTDIR)$(SYSUSERSDIR)
	install -m 644 udev/60-io-peer-mem.rules $(DESTDIR)$(UDEVDIR)/rules.d
	install -m 644 udev/io-peer-mem.conf $(DESTDIR)$(SYSUSERSDIR)

help:
	@echo 'make            the modules for this machine'"'"'s kernel; KDIR=TREE: for any prepared'
	@echo '                kernel tree with CONFIG_RUST'
	@echo 'make stock      the modules for Debian'"'"'s kernel KVER, in the toolchain rootfs'
	@echo 'make install-headers DESTDIR=DIR'
	@echo '                the header and Module.symvers that client modules are built with'
	@echo 'make install-udev DESTDIR=DIR'
	@echo '                udev rules: the devices of BARs for the group rdma'
	@echo 'make -C userspace install DESTDIR=DIR PREFIX=/usr/local'
	@echo '                libiopm, the program iopm, and their manual pages'
	@echo 'make demo       from nothing: RDMA into PCI BAR memory on the stock kernel in QEMU'
	@echo 'make check      from nothing: all tests'
	@echo 'make kunit      the KUnit suites alone; FILTER=GLOB, as kunit.filter_glob'
	@echo 'make coverage   which lines of src/ the tests run'
	@echo 'make model      the model of the region protocol, checked completely'
	@echo 'make fmt        rustfmt; FIX=1 writes'
	@echo 'make clippy     clippy, warnings are errors'
	@echo 'make doc        rustdoc of the modules'
	@echo 'make clean      what was built of this checkout'
	@echo 'make distclean  all that was fetched or built: $(CACHE)'
	@echo 'KVER=RELEASE names the kernel for all but the first; they need root.'

demo:
	@scripts/demo

check:
	@scripts/check

kunit:
	@FILTER='$(FILTER)' scripts/check kunit

model:
	@scripts/model

coverage:
	@scripts/coverage

fmt clippy doc:
	@FIX='$(FIX)' scripts/static $@

clean:
	scripts/clean
	[ ! -d $(KDIR) ] || $(MAKE) -C $(KDIR) M=$(CURDIR) clean

distclean:
	scripts/clean all

.PHONY: modules stock install-headers install-udev help demo check kunit coverage model fmt clippy doc clean distclean
