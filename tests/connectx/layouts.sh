#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# layouts.sh MLX5_IFC_H: print, as Rust, where each field of the structs of the kernel's
# mlx5_ifc.h is. There a field of N bits is a "u8 name[N]", so what pahole says in bytes is in bits.
# A struct becomes a module of constants of type Field, each command a constant in the module op.

set -euo pipefail
object=$(mktemp)
gcc -g -fno-eliminate-unused-debug-types -w -Du8=char '-DBIT(n)=(1ull << (n))' -DBIT_ULL=BIT \
	'-DDECLARE_FLEX_ARRAY(T, N)=T N[0]' -x c -c -o "$object" "$1"
echo '// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause'
pahole "$object" | sed -nE '
	/^union/,/^\}/d; /\breserved_at/d
	/^struct/{s/_bits \{$/ {/; s/^struct (mlx5_ifc_)?(.*)/pub mod r#\2/p}
	s,^\t.* (\w+)(\[.*\])?; +/\* +([0-9]+) +([0-9]+) \*/$,pub const r#\1: super::Field = super::Field::new(\3\, \4);,p
	s,^\t/\* size: ([0-9]+)\, .*,pub const BYTES: usize = \1 / 8;,p
	s/^\};$/}/p'
rm "$object"
commands=$(sed -nE 's/^\s*MLX5_CMD_OP_(\w+)\s*=\s*(0x[0-9a-f]+),.*/\1 \2/p' "$1" | sed -E '/^(GENERAL|MOD)_/d; s/^[0-9]/_&/')
echo 'pub mod op {'
sed -E 's/(.*) (.*)/pub const \1: u16 = \2;/' <<<"$commands"
echo 'pub const NAMES: &[(u16, &str)] = &['
sed -E 's/(.*) (.*)/(\2, "\1"),/' <<<"$commands"
echo ']; }'
