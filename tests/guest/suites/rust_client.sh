# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # card.sh's
#
# The report card of the sample client in Rust.

KIT=/mnt/tree/samples/rust_client
. ./card.sh
