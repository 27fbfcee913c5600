# SPDX-License-Identifier: GPL-2.0
#
# The stock mlx5 driver behind a strict IOMMU, in short form: what revokes, releases or changes
# MRs, and umems in a BAR. An address that is unmapped while the adapter can still use it is an
# error there. make soak runs the whole suites.

. ./suites/kill.sh
. ./suites/revoke.sh
. ./suites/mlx5_gone.sh
. ./suites/mlx5_mr.sh

# shellcheck disable=SC2034 # init's
TESTS="test_reregistration test_same_key_after_a_revocation test_revoke_waits_for_the_adapter
	test_sigkill_while_writing test_link_deleted_with_mrs test_unbind_core_under_a_writer"
