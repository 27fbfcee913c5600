# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The suite dmabuf in short form, for the debug kernel: dma-bufs of the test exporter that move and are
# revoked.

. ./suites/dmabuf.sh

# shellcheck disable=SC2034 # init's
TESTS="test_moves_under_a_writer test_revoked_under_a_writer"
