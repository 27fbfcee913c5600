# SPDX-License-Identifier: GPL-2.0

include version.mk

# The kernel release to build and install for. KVER= is for scripts/make/kernel-version as well,
# which takes Debian's newest known one without it.
release := $(or $(KVER),$(shell uname -r))
# The same directory as in scripts/lib.sh.
CACHE := $(or $(IB_PEER_MEM_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ib-peer-mem)

# For an installed kernel; KDIR=TREE: for a tree that is prepared for modules in Rust.
modules:
	$(if $(KDIR),+$(MAKE) -C $(KDIR) M=$(CURDIR) modules,dkms/build $(release))

# For Debian's kernel KVER, with its Rust metadata generated again; prints the directory.
stock:
	@scripts/build stock

# The same without the client modules in C, or for the debug kernel.
KERNEL ?= stock
build:
	@EXTERNAL=no scripts/build $(KERNEL)

include dkms/install.mk

define help
Build and install
  make deb           Debian packages, checked by lintian; prints their directory
  make repo KEY=FILE an apt repository with signed modules for every supported kernel, for
                     machines without a compiler; GPG_KEY=FILE signs the repository; DEBIAN=14:
                     for machines with Debian 14
  make               the modules for the running kernel, with its headers and source of the
                     distribution; KDIR=TREE: for any prepared kernel tree with CONFIG_RUST
  make install       modules, headers, system configuration, libiopm and iopm, without
                     packages; DESTDIR=DIR, PREFIX=/usr/local; make uninstall removes them
  make install-dkms  the source for dkms(8) instead of the modules
  make install-compat
                     lets the builds of NVIDIA's, AMD's and other drivers find the modules
  make install-headers, install-udev, install-system
                     parts of make install

From nothing, in QEMU
  make demo          RDMA into PCI BAR memory on the stock kernel
  make check         all tests; scripts/check PART...: parts of them (scripts/parts)
  make check-apps    third-party applications on BARs, fetched when they are first needed
  make check-kernels builds for and boots every supported kernel that Debian has
  make soak HOURS=N  the long loops: hot unplug, fuzzing, stress (1 hour)
  make scale         eight adapters with 64,000 MRs each, and what an MR costs then (40 minutes)
  make coverage, make bench
                     the lines that the tests run; what registrations cost, in instructions

While you work
  make build         the modules for Debian's kernel; KERNEL=debug: for the debug kernel
  make stock         the same, and the client modules in C
  make test SUITE="NAME NAME:TEST ..."
                     suites of tests/guest, or single tests; KERNEL=debug
  make check-client CLIENT=DIR
                     the report card of a client that you write; KERNEL=debug
  make shell         a guest with the modules loaded, on this terminal; KERNEL=debug
  make kunit         the KUnit suites; FILTER=SUITE.TEST, with * and ?
  make model         the model of the region protocol, checked completely
  make rust-analyzer rust-project.json, for editors

Source
  make static        all checks of the source itself; fmt (FIX=1 writes), clippy, doc, htmldocs: one of them

Clean
  make clean         what was built of this checkout
  make distclean     everything fetched or built: $(CACHE)

KERNEL_TREE=DIR with demo, check, soak, build, stock, test, shell, kunit: the kernel that is built from the
source DIR, in its default configuration or that of KERNEL_CONFIG=FILE, with what the suites need
(tests/kernel/tree.config); check-kernels TREES="DIR...": trees as well.
KVER=RELEASE names another kernel of Debian. ARCH=arm64 with stock, build, test, shell, demo: for
Debian's arm64 kernel, cross-built, in an emulated arm64 guest. All but "make" need root.
endef
export help
help:
	@printf '%s\n' "$$help"

# These take no arguments, or find them in the environment.
demo check check-kernels deb model coverage bench rust-analyzer:
	@scripts/$@

check-apps:
	@WHEN=apps scripts/check

repo:
	@KEY='$(KEY)' GPG_KEY='$(GPG_KEY)' DEBIAN='$(DEBIAN)' scripts/repo $(KVER)

HOURS ?= 1
soak:
	@scripts/soak $(HOURS)

# The adapter is a process with a clock of its own: an idle guest must not run ahead.
scale:
	@ACCEL=single QEMU_ARGS='-icount shift=0,sleep=on' TIMEOUT=3600 CONNECTX_VERBOSE=0 WHEN=scale scripts/check

SUITE ?=
test:
	@KERNEL='$(KERNEL)' scripts/test $(SUITE)

check-client:
	@KERNEL='$(KERNEL)' scripts/check-client '$(CLIENT)'

shell:
	@KERNEL='$(KERNEL)' scripts/shell

kunit:
	@FILTER='$(FILTER)' scripts/check kunit

fmt clippy doc htmldocs:
	@FIX='$(FIX)' scripts/static $@

static:
	@scripts/static

clean:
	scripts/clean
	rm -f $(addprefix *., ko mod mod.c mod.o o order symvers) .*.cmd .*.o.d .module-common.o .bindgen-c-flags.mk .features
	find src rust samples tests \( -name '*.o' -o -name '*.o.d' -o -name '.*.cmd' -o -name '.*.o.d' \
		-o -name '*.rmeta' -o -name '*_generated.rs' -o -name '*_inline.c' \) -delete

distclean:
	scripts/clean all

.PHONY: modules stock build help demo check check-kernels check-apps deb repo soak scale test check-client shell \
	kunit model coverage bench rust-analyzer fmt clippy doc htmldocs static clean distclean
