# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # card.sh's
#
# The report card of the sample client without struct pages, on the stock mlx5 driver.

KIT=/mnt/tree/samples/mmio_client
. ./card.sh
