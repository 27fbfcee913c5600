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

$(obj)/doc-ib_peer_mem.stamp: private ext_crate = ib_peer_mem
$(obj)/doc-ib_peer_mem.stamp: private ext_cfg = --cfg ext_rdma
$(obj)/doc-ib_peer_mem.stamp: $(src)/src/main.rs $(addprefix $(obj)/, $(generated)) FORCE
	+$(call if_changed,ext_rustdoc)
$(obj)/doc-io_peer_mem.stamp: private ext_crate = io_peer_mem
$(obj)/doc-io_peer_mem.stamp: private ext_cfg = --cfg ext_p2pdma --cfg ext_pci_driver
$(obj)/doc-io_peer_mem.stamp: $(src)/samples/io_peer_mem/main.rs $(addprefix $(obj)/, $(generated)) FORCE
	+$(call if_changed,ext_rustdoc)
$(obj)/doc-peer_client_rust.stamp: private ext_crate = peer_client_rust
$(obj)/doc-peer_client_rust.stamp: $(src)/samples/rust_client/main.rs $(addprefix $(obj)/, $(generated)) FORCE
	+$(call if_changed,ext_rustdoc)

docs := doc-ib_peer_mem.stamp doc-io_peer_mem.stamp doc-peer_client_rust.stamp
always-y += $(docs)
targets += $(docs)
