# SPDX-License-Identifier: GPL-2.0
#
# The tests that scripts/demo shows where soft RoCE is not there, or gets no memory of BARs: those of
# demo on the stock mlx5 driver.

. ./suites/demo.sh

setup() { load_stack; }

# shellcheck disable=SC2034 # init's
TESTS="test_mlx5_is_stock $ON_MLX5"
