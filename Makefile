# SPDX-License-Identifier: GPL-2.0
#
# make            build the modules for this machine's kernel, or KDIR=TREE for
#                 any prepared kernel tree with CONFIG_RUST
# make demo       everything from nothing: RDMA into PCI BAR memory in QEMU
# make check      everything from nothing: all tests

KDIR ?= /lib/modules/$(shell uname -r)/build

modules:
	+$(MAKE) -C $(KDIR) M=$(CURDIR) modules

clean:
	+$(MAKE) -C $(KDIR) M=$(CURDIR) clean

.PHONY: modules clean
