# SPDX-License-Identifier: GPL-2.0
#
# What the kernel has, found in its tree: rust/probe prints this once for a tree, and keeps it in the
# object directory. For each feature Rust has --cfg have_NAME, and C has -DHAVE_NAME. Only the files
# that scripts/inner/layers.py lists as the room for differences use them.

# Not for "make clean", which needs no prepared tree.
ifneq ($(.DEFAULT_GOAL),__clean)
ext_features := $(shell mkdir -p $(obj) && $(CONFIG_SHELL) $(ext_src)/rust/probe $(ext_obj)/.features $(srctree) $(objtree) \
	$(RUSTC) $(KBUILD_RUSTFLAGS) $(RUSTFLAGS_KASAN) @$(objtree)/include/generated/rustc_cfg)
ifneq ($(.SHELLSTATUS),0)
$(error ib_peer_mem: the features of the kernel are not known)
endif
endif
ext_defines := $(addprefix -DHAVE_, $(shell echo $(ext_features) | tr a-z A-Z))
ccflags-y += $(ext_defines)
rustflags-y += $(addprefix --cfg have_, $(ext_features))
clean-files += .features
