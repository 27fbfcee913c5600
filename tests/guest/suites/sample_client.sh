# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # card.sh's
#
# The report card of the sample client in C, built out of the tree against the installed files.

KIT=/mnt/tree/samples/peer_client
. ./card.sh
