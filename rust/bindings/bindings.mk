# SPDX-License-Identifier: GPL-2.0
#
# Rust declarations for headers that kernel::bindings does not cover, generated as the
# kernel generates its own (the C flags are cut from the kernel's rust/Makefile), with two
# differences: only items of the named headers are emitted, so that every other type
# resolves to that of the kernel crate; and layout tests stay on, so that a type with
# another layout is a compile error. In this non-recursive mode bindgen assumes that
# foreign types are not Copy, hence the custom derives and the ManuallyDrop rewrite. Of the kernel's
# rust/bindgen_parameters nothing else makes a difference here, and headers packages lack that file.

ext_bindgen_flags_mk := $(obj)/.bindgen-c-flags.mk
$(shell mkdir -p $(obj) && sed -n '/^ifdef CONFIG_CC_IS_CLANG$$/,/^bindgen_c_flags_final/p' \
	$(srctree)/rust/Makefile > $(ext_bindgen_flags_mk))
include $(ext_bindgen_flags_mk)
ext_bindgen_params := --no-doc-comments \
	--with-derive-custom-struct '.*=MaybeZeroable' --with-derive-custom-union '.*=MaybeZeroable'

quiet_cmd_ext_bindgen = BINDGEN $@
      cmd_ext_bindgen = \
	$(BINDGEN) $< $(ext_bindgen_params) $(bindgen_target_flags) --rust-target 1.85 \
		--use-core --with-derive-default --ctypes-prefix ffi \
		--no-debug '.*' --enable-function-attribute-detection \
		--no-recursive-allowlist --no-copy '.*' \
		--default-non-copy-union-style manually_drop \
		--with-derive-custom-struct '.*=Copy,Clone' \
		--with-derive-custom-union '.*=Copy,Clone' \
		-o $@ -- $(bindgen_c_flags_final) -I$(ext_src)/include $(ext_defines) -DMODULE \
	; sed -Ei -e 's/::core::mem::ManuallyDrop<(.*)>,$$/\1,/' -e 's/pub const EXT_CONST_/pub const /' $@

generated := $(addprefix rust/bindings/, $(addsuffix _generated.rs, rdma helpers peer uapi))
targets += $(generated) tests/kunit/helpers_generated.rs
clean-files += $(addprefix rust/bindings/, rdma_inline.c helpers_inline.c) .bindgen-c-flags.mk

# The static inlines become C wrappers in *_inline.c.
ext_bindgen_wrap = --experimental --wrap-static-fns --wrap-static-fns-path $(obj)/rust/bindings/$(1)_inline.c
$(addprefix $(obj)/rust/bindings/, rdma_inline.c helpers_inline.c): %_inline.c: %_generated.rs ;
ext_inline_flags := -I$(ext_src) -I$(ext_src)/rust/bindings -Wno-missing-prototypes -Wno-missing-declarations

# All of rdma/*.h, and interpose.h.
$(obj)/rust/bindings/rdma_generated.rs: private bindgen_target_flags = \
	--allowlist-file '.*/include/(uapi/rdma/ib_user_ioctl_verbs|rdma/[a-z_]*)\.h|(.*/)?rust/(bindings/\.\./)?(c/interpose|helpers/compat_rdma)\.h' \
	--allowlist-type 'ifla_vf_(guid|stats|info)|rdma_cgroup|rdmacg_device|irq_poll|irq_poll_fn|dim|dim_.*|tph_mem_type|possible_net_t|netdevice_tracker|iphdr.*|rdma_driver_id|rdma_nl_(notify_event_type|counter_mode|counter_mask|dev_type|name_assign_type)|ib_uverbs_query_port_resp' \
	--blocklist-type 'ib_user_mad_reg_req.*' \
	$(call ext_bindgen_wrap,rdma)
# The hook knows the calls of this module by their return address: no wrapper may jump to a hooked function.
CFLAGS_rust/bindings/rdma_inline.o := $(ext_inline_flags) -fno-optimize-sibling-calls
CFLAGS_rust/bindings/helpers_inline.o := $(ext_inline_flags)

$(obj)/rust/bindings/helpers_generated.rs: private bindgen_target_flags = \
	--allowlist-file '(.*/)?rust/(bindings/\.\./)?(helpers/[a-z_]+|c/logic)\.h' \
	--allowlist-function 'anon_inode_create_getfile|device_(try|un)lock|dma_buf_attach_revocable|dma_get_max_seg_size|dma_mapping_error|is_pci_p2pdma_page|memalloc_noreclaim_(save|restore)|mmu_interval_(set_seq|read_retry)|pci_domain_nr|security_locked_down|sg_(page|is_last|phys)' \
	--allowlist-var '(DMA_BUF|SYSFS)_MAGIC' \
	$(call ext_bindgen_wrap,helpers)

$(obj)/rust/bindings/peer_generated.rs: private bindgen_target_flags = \
	--allowlist-file '(.*/)?ib_peer_mem\.h' --allowlist-var '(IB_)?PEER_MEM.*' \
	--blocklist-type 'device|sg_table'

$(obj)/rust/bindings/uapi_generated.rs: private bindgen_target_flags = \
	--allowlist-file '(.*/)?uapi/i[bo]_peer_mem\.h' --allowlist-type 'dmabuf_reg_request' \
	--allowlist-var 'EXT_CONST_.*'

$(obj)/rust/bindings/%_generated.rs: $(src)/rust/bindings/%.h $(src)/rust/bindings/bindings.mk FORCE
	$(call if_changed_dep,ext_bindgen)

$(obj)/tests/kunit/helpers_generated.rs: private bindgen_target_flags = \
	--allowlist-function 'kt_.*'
$(obj)/tests/kunit/helpers_generated.rs: $(src)/tests/kunit/helpers.h \
		$(src)/rust/bindings/bindings.mk FORCE
	$(call if_changed_dep,ext_bindgen)
$(obj)/tests/kunit/main.o: $(obj)/tests/kunit/helpers_generated.rs
