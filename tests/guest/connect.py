# SPDX-License-Identifier: GPL-2.0
"""Two queue pairs of pyverbs that are connected to each other."""

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.qp import QPAttr

REMOTE = e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC
ALL = e.IBV_ACCESS_LOCAL_WRITE | REMOTE


def connect(qps, context, index):
    """Both are of this device; index is that of the GID."""
    for qp, other in zip(qps, reversed(qps)):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ALL
        attr.path_mtu = e.IBV_MTU_1024
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 4
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.ah_attr = AHAttr(port_num=1, is_global=1,
                              gr=GlobalRoute(dgid=context.query_gid(1, index), sgid_index=index))
        attr.dest_qp_num = other.qp_num
        attr.sq_psn, attr.rq_psn = qp.qp_num, other.qp_num
        qp.to_rts(attr)
