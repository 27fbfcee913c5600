# SPDX-License-Identifier: GPL-2.0

KDIR ?= /lib/modules/$(shell uname -r)/build
# The same folder as scripts/lib.sh has.
CACHE := $(or $(IB_PEER_MEM_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ib-peer-mem)

modules:
	+$(MAKE) -C $(KDIR) M=$(CURDIR) modules

help:
	@echo 'make            the modules for this machine'"'"'s kernel; KDIR=TREE: for any prepared'
	@echo '                kernel tree with CONFIG_RUST'
	@echo 'make demo       from nothing: RDMA into PCI BAR memory on the stock kernel in QEMU'
	@echo 'make check      from nothing: all tests'
	@echo 'make kunit      the KUnit suites alone; FILTER=GLOB, as kunit.filter_glob'
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

fmt clippy doc:
	@FIX='$(FIX)' scripts/static $@

clean:
	scripts/clean
	[ ! -d $(KDIR) ] || $(MAKE) -C $(KDIR) M=$(CURDIR) clean

distclean:
	scripts/clean all

.PHONY: modules help demo check kunit fmt clippy doc clean distclean
