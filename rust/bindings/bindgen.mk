# SPDX-License-Identifier: GPL-2.0
#
# Rust declarations for headers that kernel::bindings does not cover, made as the
# kernel makes its own (the C flags are cut from the kernel's rust/Makefile), but:
# only items of the named headers are emitted, so that every other type resolves
# to the kernel crate's; and layout tests stay on, so that a type that does not
# match is a compile error. That non-recursive mode takes foreign types for not
# Copy, hence the custom derives and the ManuallyDrop rewrite.

ext_bindgen_flags_mk := $(obj)/.bindgen-c-flags.mk
$(shell mkdir -p $(obj) && sed -n '/^ifdef CONFIG_CC_IS_CLANG$$/,/^bindgen_c_flags_final/p' \
	$(srctree)/rust/Makefile > $(ext_bindgen_flags_mk))
include $(ext_bindgen_flags_mk)
ext_bindgen_params := $(shell grep -Ev '^#|^$$' $(srctree)/rust/bindgen_parameters)

quiet_cmd_ext_bindgen = BINDGEN $@
      cmd_ext_bindgen = \
	$(BINDGEN) $< $(ext_bindgen_params) $(bindgen_target_flags) --rust-target 1.85 \
		--use-core --with-derive-default --ctypes-prefix ffi \
		--no-debug '.*' --enable-function-attribute-detection \
		--no-recursive-allowlist --no-copy '.*' \
		--default-non-copy-union-style manually_drop \
		--with-derive-custom-struct '.*=Copy,Clone' \
		--with-derive-custom-union '.*=Copy,Clone' \
		-o $@ -- $(bindgen_c_flags_final) -I$(ext_src)/include -DMODULE \
	; sed -Ei 's/::core::mem::ManuallyDrop<(.*)>,$$/\1,/' $@
