# SPDX-License-Identifier: GPL-2.0
#
# DOC=1: rustdoc of the modules into doc/; kbuild has no rule for that out of tree.

quiet_cmd_ext_rustdoc = RUSTDOC $@
      cmd_ext_rustdoc = \
	OBJTREE=$(abspath $(objtree)) RUST_MODFILE=$(ext_crate) $(RUSTDOC) \
	$(filter-out --remap-path-scope=% -Wclippy::% -Aclippy::%,$(rust_flags)) $(ext_cfg) \
	-Arustdoc::private_intra_doc_links \
	-Zallow-features=$(rust_allowed_features) -Zcrate-attr=no_std \
	-Zcrate-attr='feature($(rust_allowed_features))' -Zunstable-options \
	--extern pin_init --extern kernel --extern zerocopy --extern zerocopy_derive \
	--crate-type rlib -L $(objtree)/rust/ --sysroot=/dev/null --cfg MODULE \
	--document-private-items --crate-name $(ext_crate) \
	--extern-html-root-url kernel=https://rust.docs.kernel.org/ \
	--output $(obj)/doc $<; touch $@

# doc CRATE DIRECTORY CFGS
define doc
$(obj)/doc-$(1).stamp: private ext_crate = $(1)
$(obj)/doc-$(1).stamp: private ext_cfg = $(3)
$(obj)/doc-$(1).stamp: $(src)/$(2)/main.rs $(addprefix $(obj)/, $(generated)) FORCE
	+$$(call if_changed,ext_rustdoc)
always-y += doc-$(1).stamp
targets += doc-$(1).stamp
endef
$(eval $(call doc,ib_peer_mem,src,--cfg ext_rdma))
$(eval $(call doc,io_peer_mem,samples/io_peer_mem,--cfg ext_p2pdma))
$(eval $(call doc,peer_client_rust,samples/rust_client))
