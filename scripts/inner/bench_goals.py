# SPDX-License-Identifier: GPL-2.0
"""What the figures are to be, for bench.py: a table of the goals with what is reached."""

from bench_tables import THREADS, memory_added, size_name, table, threads_off

KIB, MIB = 1 << 10, 1 << 20


class Goals:
    """Adds what a device reaches to `reached`, which has a dict of the devices for each goal and limit.
    A goal whose rows were not measured has no entry."""

    def __init__(self, rows, device, reached):
        self.rows, self.device, self.reached = rows, device, reached

    def put(self, name, limit, text):
        self.reached.setdefault((name, limit), {})[self.device] = text

    def cost(self, label, target, size, operation="both"):
        return self.rows.get(self.device, label, target, size, operation)

    def add(self, name, limit, reached, least=False):
        if reached is None:
            return
        met = reached >= limit if least else reached <= limit
        whole = "{:,.0f}" if limit > 100 else "{:.3f}" if limit < 1.1 else "{:.2f}"
        figure = whole.format(reached)
        self.put(name, f"{'≥' if least else '≤'} {limit:,}", figure if met else f"**{figure}**")

    def ratio(self, name, limit, cost, of):
        self.add(name, limit, None if cost is None or not of else cost / of)

    def registration(self):
        bar = {size: self.cost("io_peer_mem", "bar", size)
               for size in self.rows.sizes(self.device, "bar")}
        driver = {size: self.cost("io_peer_mem", "dmabuf", size)
                  for size in self.rows.sizes(self.device, "dmabuf")}
        host = self.cost("io_peer_mem", "host", 4 * KIB)
        self.ratio("host memory, 4 KiB, 8 clients / stock", 1.02, self.cost("8-clients", "host", 4 * KIB),
                   self.cost("stock", "host", 4 * KIB))
        if driver:
            own = {size: bar[size] - driver[size] for size in bar if size in driver}
            self.ratio("BAR above reg_dmabuf_mr, 32 MiB / 4 KiB", 1.3, own.get(32 * MIB),
                       own.get(4 * KIB))
        else:
            self.ratio("BAR, 4 KiB / host memory", 3, bar.get(4 * KIB), host)
            self.ratio("BAR, 32 MiB / 4 KiB", 1.3, bar.get(32 * MIB), bar.get(4 * KIB))
        for size in driver:
            if size == 4 * KIB or size >= 2 * MIB:
                for operation in ("register", "deregister"):
                    self.ratio(f"BAR, {size_name(size)}, {operation} / reg_dmabuf_mr",
                               1.3 if size < MIB else 1.15,
                               self.cost("io_peer_mem", "bar", size, operation),
                               self.cost("io_peer_mem", "dmabuf", size, operation))

    def mapped(self):
        for size in self.rows.sizes(self.device, "heap"):
            for operation in ("register", "deregister"):
                self.ratio(f"mapped dma-buf, {size_name(size)}, {operation} / reg_dmabuf_mr",
                           1.15, self.cost("io_peer_mem", "heap", size, operation),
                           self.cost("io_peer_mem", "heap-dmabuf", size, operation))

    def many(self):
        for end, name in (("invalidate", "invalidation"), ("unregister", "unregistration")):
            counts = [int(label) for label in self.rows.labels(self.device, "many-memory")
                      if self.cost(label, "many-memory", 4 * KIB, end) is not None]
            if len(counts) > 1:
                self.ratio(f"{name}, each of {max(counts):,} regions / one", 1.2,
                           self.cost(str(max(counts)), "many-memory", 4 * KIB, end),
                           self.cost("1", "many-memory", 4 * KIB, end))
        for size, ours in memory_added(self.rows, self.device).items():
            self.add(f"bytes above the driver's, BAR, {size_name(size)}", 2048, ours)

    def threads(self):
        for target, name in (("host", "host memory"), ("bar", "BAR")):
            for devices in ("one", "two"):
                relative = self.cost(devices + "-io_peer_mem", "threads-" + target, 4 * KIB, "relative")
                name_of_row = f"two threads / one, {name}, devices: {devices}"
                off = threads_off(self.rows, self.device, devices, "io_peer_mem", target)
                if relative is not None and off:
                    self.put(name_of_row, f"≥ {THREADS}", f"cannot judge: {off}")
                else:
                    self.add(name_of_row, THREADS, None if relative is None else relative / 1000, True)


def goals_table(rows, titles):
    """A line for each goal and limit, and a column for each device, by its title."""
    reached = {}
    for part in (Goals.registration, Goals.mapped, Goals.many, Goals.threads):
        for device in titles:
            part(Goals(rows, device, reached))
    lines = [list(goal) + [cells.get(device, "\\-") for device in titles]
             for goal, cells in reached.items()]
    return table(["goal", "limit"] + list(titles.values()), lines)
