# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034 # card.sh's
#
# The report card of anybody's client, for scripts/check-client.

KIT=$MODS/external/client
[ -e "$KIT/kit" ] || KIT=/mnt/tree/$(parameter kit '')
. ./card.sh
