# SPDX-License-Identifier: GPL-2.0

KDIR ?= /lib/modules/$(shell uname -r)/build
# The same folder as in scripts/lib.sh.
CACHE := $(or $(IB_PEER_MEM_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ib-peer-mem)

modules:
	+$(MAKE) -C $(KDIR) M=$(CURDIR) modules

# For Debian's kernel KVER, with its Rust metadata generated again; prints the folder.
stock:
	@scripts/build stock

# The same without the client modules in C, or for the debug kernel.
KERNEL ?= stock
build:
	@EXTERNAL=no scripts/build $(KERNEL)

# What client modules are built against.
DESTDIR ?=
SYMVERS ?= Module.symvers
installed := $(DESTDIR)/usr/src/ib-peer-mem
install-headers:
	install -d $(installed)/include/rdma
	install -m 644 include/rdma/ib_peer_mem.h include/rdma/peer_mem.h $(installed)/include/rdma
	install -m 644 $(SYMVERS) $(installed)/Module.symvers

# Gives the BARs' device nodes to the group rdma. Afterwards, or at the next boot:
# systemd-sysusers; udevadm control --reload; udevadm trigger --subsystem-match=misc
UDEVDIR ?= /usr/lib/udev
SYSUSERSDIR ?= /usr/lib/sysusers.d
install-udev:
	install -d $(DESTDIR)$(UDEVDIR)/rules.d $(DESTDIR)$(SYSUSERSDIR)
	install -m 644 udev/60-io-peer-mem.rules $(DESTDIR)$(UDEVDIR)/rules.d
	install -m 644 udev/io-peer-mem.conf $(DESTDIR)$(SYSUSERSDIR)

define help
Build and install
  make               the modules for the running kernel; KDIR=TREE: for any prepared
                     kernel tree with CONFIG_RUST
  make install-headers DESTDIR=DIR
                     the header and Module.symvers that client modules are built with
  make install-udev DESTDIR=DIR
                     udev rules: the BARs' device nodes for the group rdma
  make -C userspace install DESTDIR=DIR PREFIX=/usr/local
                     libiopm, the program iopm, and their manual pages

From nothing, in QEMU
  make demo          RDMA into PCI BAR memory on the stock kernel
  make check         all tests; scripts/check PART...: parts of them (scripts/parts)
  make soak HOURS=N  the long loops: hot unplug, fuzzing, stress (1 hour)
  make coverage      the lines of src/ that the tests run

While you work
  make build         the modules for Debian's kernel; KERNEL=debug: for the debug kernel
  make stock         the same, and the client modules in C
  make test SUITE="NAME NAME:TEST ..."
                     suites of tests/guest, or single tests; KERNEL=debug
  make shell         a guest with the modules loaded, on this terminal; KERNEL=debug
  make host-test     the tests of pure logic, on this machine
  make kunit         the KUnit suites; FILTER=SUITE.TEST, with * and ?
  make model         the model of the region protocol, checked completely
  make rust-analyzer rust-project.json, for editors

Source
  make fmt           rustfmt; FIX=1 writes
  make clippy        clippy, warnings are errors
  make doc           rustdoc of the modules
  make htmldocs      Documentation/ as HTML
  make static        all checks of the source itself

Clean
  make clean         what was built of this checkout
  make distclean     everything fetched or built: $(CACHE)

KVER=RELEASE names another kernel of Debian. All but the first group need root.
endef
export help
help:
	@printf '%s\n' "$$help"

demo:
	@scripts/demo

check:
	@scripts/check

HOURS ?= 1
soak:
	@scripts/soak $(HOURS)

SUITE ?=
test:
	@KERNEL='$(KERNEL)' scripts/test $(SUITE)

shell:
	@KERNEL='$(KERNEL)' scripts/shell

host-test:
	@scripts/host-test

kunit:
	@FILTER='$(FILTER)' scripts/check kunit

model:
	@scripts/model

coverage:
	@scripts/coverage

rust-analyzer:
	@scripts/rust-analyzer

fmt clippy doc htmldocs:
	@FIX='$(FIX)' scripts/static $@

static:
	@scripts/static

clean:
	scripts/clean
	[ ! -d $(KDIR) ] || $(MAKE) -C $(KDIR) M=$(CURDIR) clean

distclean:
	scripts/clean all

.PHONY: modules stock build install-headers install-udev help demo check soak test shell host-test \
	kunit model coverage rust-analyzer fmt clippy doc htmldocs static clean distclean
