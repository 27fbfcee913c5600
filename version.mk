# SPDX-License-Identifier: GPL-2.0
#
# The version of all that this tree builds: modules, library, program, packages. A release
# changes it here, in CHANGELOG.md, in debian/changelog and in the Cargo.toml of the crates;
# "scripts/static version" compares them.
PEER_MEM_VERSION := 1.0.0
