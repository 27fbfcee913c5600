# SPDX-License-Identifier: GPL-2.0
"""Tables of reStructuredText, for bench.py: those of many MRs, of transfers and of threads."""

NAMES = {"host": "host memory", "bar": "BAR", "dmabuf": "BAR, ``ibv_reg_dmabuf_mr``",
         "memory": "RAM of a client"}
ENDS = {"invalidate": "invalidation", "unregister": "unregistration of the client",
        "exit": "SIGKILL of the process", "remove": "removal of the device"}
KINDS = ("memory", "memory-slab", "memory-vmalloc", "memory-charged")


def size_name(size):
    return f"{size / (1 << 20):.4g} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def table(head, lines):
    """A simple table of reStructuredText."""
    cells = [head] + lines
    width = [max(len(row[i]) for row in cells) for i in range(len(head))]
    rule = "  ".join("=" * w for w in width)
    text = ["  ".join(c.ljust(w) for c, w in zip(row, width)).rstrip() for row in cells]
    return "\n".join([rule, text[0], rule] + text[1:] + [rule])


def _keys(rows, device, prefix):
    """The keys of the rows whose target begins with `prefix`, without it."""
    return [(label, target[len(prefix):], size, operation)
            for dev, label, target, size, operation in rows.cost
            if dev == device and target.startswith(prefix)]


def many_table(rows, device):
    """What the end of many MRs costs for each."""
    keys = [key for key in _keys(rows, device, "many-") if key[3] in ENDS and key[0] != "0"]
    counts = sorted({int(key[0]) for key in keys})
    lines = []
    for target, size, operation in dict.fromkeys(key[1:] for key in keys):
        cost = [rows.per_mr(device, str(n), "many-" + target, size, operation) for n in counts]
        there = [c for c in cost if c is not None]
        ratio = there[-1] / there[0] if len(there) > 1 and there[0] > 0 else None
        lines.append([f"{ENDS[operation]}, {NAMES[target]}"] +
                     ["\\-" if c is None else rows.text(device, str(n), "many-" + target, size, operation)
                      for c, n in zip(cost, counts)] +
                     ["\\-" if ratio is None else f"{ratio:.2f}"])
    head = ["instructions for each MR"] + [f"of {n:,}" for n in counts] + ["most / fewest"]
    return table(head, lines) if lines else ""


def memory_added(rows, device):
    """The bytes of an MR on a BAR above those of an MR that the driver makes by itself: on the same
    memory if it can, else on host memory. By size."""
    keys = [key for key in _keys(rows, device, "many-") if key[3] == "memory"]
    driver = "dmabuf" if any(key[1] == "dmabuf" for key in keys) else "host"
    cost = {key[1:3]: rows.per_mr(device, key[0], "many-" + key[1], key[2], "memory") for key in keys}
    return {size: cost["bar", size] - cost[driver, size]
            for target, size in cost if target == "bar" and (driver, size) in cost}


def memory_table(rows, device):
    """The kernel memory of an MR."""
    added = memory_added(rows, device)
    lines = []
    for label, target, size, operation in _keys(rows, device, "many-"):
        if operation == "memory":
            kinds = [rows.per_mr(device, label, "many-" + target, size, kind) for kind in KINDS]
            own = f"{added[size]:,.0f}" if target == "bar" and size in added else "\\-"
            lines.append([NAMES[target], size_name(size), f"{int(label):,}"] +
                         [f"{kind:,.0f}" for kind in kinds] + [own])
    head = ["bytes for each MR", "size", "MRs", "all", "slab", "vmalloc", "charged", "added"]
    return table(head, lines) if lines else ""


def data_table(rows, device):
    """The data path: both sides of a message."""
    lines = []
    for _, target, size, operation in _keys(rows, device, "data-"):
        if target != "host":
            host, bar = (rows.get(device, "perftest", "data-" + there, size, operation)
                         for there in ("host", "bar"))
            text = [rows.text(device, "perftest", "data-" + there, size, operation)
                    for there in ("host", "bar")]
            lines.append([f"``ib_{operation}_bw``", size_name(size)] + text + [f"{bar / host:.3f}"])
    head = ["instructions for each message", "size", "host memory", "BAR", "BAR / host"]
    return table(head, lines) if lines else ""


# Of what a loop reaches, what two threads are to reach.
THREADS = 0.95
# What a loop reaches with two threads on a machine that has two CPUs for them.
LOOP = (1.8, 2.1)


def threads_off(rows, device, devices, state, target):
    """Why a row of two threads says nothing: its controls are off. Its own loop shows whether the
    machine had two CPUs, and the registrations without the modules whether a loop and registrations
    can be compared at all. Returns "" if they are not off."""
    def control(state, target, one):
        return rows.cost.get((device, f"{devices}-{state}", "threads-" + target, 4 << 10, one))

    loop, stock = control(state, target, "loop"), control("stock", "host", "relative")
    if loop is None or not LOOP[0] <= loop / 1000 <= LOOP[1]:
        return "a loop was not measured" if loop is None else f"a loop reaches {loop / 1000:.2f}"
    if stock is None or abs(stock / 1000 - 1) > 1 - THREADS:
        return "stock was not measured" if stock is None else f"stock reaches {stock / 1000:.2f} of it"
    return ""


def threads_table(rows, device):
    """How much more two threads do than one, beside a loop in the same windows of time."""
    lines = []
    for label, target, size, operation in _keys(rows, device, "threads-"):
        if operation == "ratio":
            key = (device, label, "threads-" + target, size)
            ratio, loop, relative, busy, busy_two = (
                rows.cost[key + (one,)] / 1000
                for one in ("ratio", "loop", "relative", "busy", "busy-two"))
            least, most = (figure / 1000 for figure in rows.spread[key + ("relative",)])
            which, _, state = label.partition("-")
            off = threads_off(rows, device, which, state, target)
            lines.append([f"{NAMES[target]}, {state}", which, f"{ratio:.2f}", f"{loop:.2f}",
                          f"{relative:.2f} ({least:.2f} to {most:.2f})", f"{busy:.2f}, {busy_two:.2f}",
                          f"off: {off}" if off else "good"])
    head = ["two threads / one", "devices", "registrations", "a loop", "registrations / a loop",
            "CPUs busy, one and two", "controls"]
    return table(head, lines) if lines else ""
