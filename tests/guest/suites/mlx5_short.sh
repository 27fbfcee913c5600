# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Revocation and removal with the stock mlx5 driver, in short form: for the debug kernel, where one
# removal takes half a minute. make soak runs the whole suites there.

. ./suites/revoke.sh
. ./suites/mlx5_gone.sh

# shellcheck disable=SC2034 # init's
TESTS="test_unbind_under_a_writer test_sysfs_remove_and_rescan"
