/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen: the ioctl ABI of both modules. */
#include <uapi/ib_peer_mem.h>
#include <uapi/io_peer_mem.h>
