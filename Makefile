# SPDX-License-Identifier: GPL-2.0

KDIR ?= /lib/modules/$(shell uname -r)/build
# The same folder as scripts/lib.sh has.
CACHE := $(or $(IB_PEER_MEM_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ib-peer-mem)

modules:
	+$(MAKE) -C $(KDIR) M=$(CURDIR) modules

# What other modules are built against.
DESTDIR ?=
SYMVERS ?= Module.symvers
installed := $(DESTDIR)/usr/src/ib-peer-mem
install-headers:
	install -d $(installed)/include/rdma
	install -m 644 include/rdma/ib_peer_mem.h include/rdma/peer_mem.h $(installed)/include/rdma
	install -m 644 $(SYMVERS) $(installed)/Module.symvers

help:
	@echo 'make            the modules for this machine'"'"'s kernel; KDIR=TREE: for any prepared'
	@echo '                kernel tree with CONFIG_RUST'
	@echo 'make install-headers DESTDIR=DIR'
	@echo '                the header and Module.symvers that client modules are built with'
	@echo 'make demo       from nothing: RDMA into PCI BAR memory on the stock kernel in QEMU'
	@echo 'make check      from nothing: all tests'
	@echo 'make kunit      the KUnit suites alone; FILTER=GLOB, as kunit.filter_glob'
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

fmt clippy doc:
	@FIX='$(FIX)' scripts/static $@

clean:
	scripts/clean
	[ ! -d $(KDIR) ] || $(MAKE) -C $(KDIR) M=$(CURDIR) clean

distclean:
	scripts/clean all

.PHONY: modules install-headers help demo check kunit model fmt clippy doc clean distclean
