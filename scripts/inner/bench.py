#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""bench.py runs inside the rootfs, for scripts/bench:

  collect JSON KERNEL DEVICE=ROWS...  makes JSON of the lines of bench_mr
  compare OLD NEW                     lists the rows that differ by more than 1 % and their spread
  check JSON BUDGETS                  fails for each row above its budget
  render JSON DOCUMENT                prints the tables; writes them into DOCUMENT.rst: the goals and
                                      the plots at RESULTS, the rest at FIGURES; and the plots beside
                                      it, as DOCUMENT-DEVICE-KIND.svg
"""

import json
import os
import sys

from bench_goals import goals_table
from bench_plot import plot
from bench_tables import data_table, many_table, memory_table, size_name, table, threads_table

# The lines in the document before and after what is written there.
RESULTS = (".. The results are written by scripts/bench.", ".. End of the results.")
FIGURES = (".. The figures from here on are written by scripts/bench.", ".. End of the figures.")
# Of the memory of many MRs, in bytes: what a slab more or less is.
SLAB = 32 << 10
TITLES = {"rxe0": "rdma_rxe", "mlx5_0": "mlx5_ib, emulated ConnectX"}
PAIR = ("register", "deregister")


class Rows:
    """Figures by (device, label, target, size, operation), and the least and the most of repeated
    ones. Rows of many MRs have the number of the MRs as their label, and the cost of all of them."""

    def __init__(self, path):
        with open(path, encoding="ascii") as file:
            data = json.load(file)
        self.kernel = data["kernel"]
        self.cost, self.spread = {}, {}
        for r in data["rows"]:
            key = (r["device"], r["label"], r["target"], r["size"], r["operation"])
            self.cost[key], self.spread[key] = r["cost"], (r.get("least"), r.get("most"))

    def per_mr(self, device, count, target, size, operation):
        """The cost of each of `count` MRs; without them the operation costs something as well."""
        cost = self.cost.get((device, count, target, size, operation))
        none = self.cost.get((device, "0", target, size, operation), 0)
        return None if cost is None or count == "0" else (cost - none) / int(count)

    def range(self, device, label, target, size, operation):
        """The least and the most that a figure can be by repeated ones, as get() has it."""
        least, most = self.spread[device, label, target, size, operation]
        if not target.startswith("many-"):
            return least, most
        none_least, none_most = self.spread.get((device, "0", target, size, operation), (0, 0))
        return (least - none_most) / int(label), (most - none_least) / int(label)

    def text(self, *key):
        """The figure of a row, as get() has it, with those of repeated ones that differ by 1 %."""
        figure, (least, most) = self.get(*key), self.range(*key)
        if least < 0.99 * figure:
            return f"{figure:,.0f} ({least:,.0f} to {most:,.0f})"
        return f"{figure:,.0f}" + (f" to {most:,.0f}" if most > 1.01 * figure else "")

    def get(self, device, label, target, size, operation):
        """The cost of a row, of one MR if it is of many, or None; "both" is a registration and its
        deregistration."""
        if target.startswith("many-"):
            return self.per_mr(device, label, target, size, operation)
        if operation != "both":
            return self.cost.get((device, label, target, size, operation))
        pair = [self.get(device, label, target, size, one) for one in PAIR]
        return None if None in pair else sum(pair)

    def devices(self):
        return list(dict.fromkeys(key[0] for key in self.cost))

    def labels(self, device, target, prefix=""):
        return list(dict.fromkeys(k[1] for k in self.cost
                                  if k[0] == device and k[2] == target and k[1].startswith(prefix)))

    def sizes(self, device, target):
        return sorted({key[3] for key in self.cost if key[0] == device and key[2] == target})


def collect(path, kernel, *files):
    """A row is the least of repeated ones, or the median (the lower one of two) for the data path and
    many MRs, with their spread. Those by the clock have their own."""
    figures, clock = {}, {}
    for item in files:
        device, name = item.split("=", 1)
        with open(name, encoding="ascii") as file:
            for line in file:
                label, target, size, operation, figure, least, most = line.split()
                key = (device, label, target, int(size), operation)
                figures.setdefault(key, []).append(int(figure))
                if target.startswith("threads-"):
                    clock[key] = (int(least), int(most))
    cost, spread = {}, {}
    for key, repeated in figures.items():
        repeated.sort()
        scattered = key[2].startswith(("data-", "many-"))
        cost[key] = repeated[(len(repeated) - 1) // 2 if scattered else 0]
        spread[key] = clock.get(key, (repeated[0], repeated[-1]))
    names = ("device", "label", "target", "size", "operation")
    rows = [dict(zip(names, key), cost=value, least=spread[key][0], most=spread[key][1])
            for key, value in cost.items()]
    with open(path, "w", encoding="ascii") as file:
        json.dump({"kernel": kernel, "unit": "instructions", "rows": rows}, file, indent=1)


def differ(old, new, key):
    """Whether a row of two runs differs by more than 1 %, and by more than its spread in each."""
    before, after = old.get(*key), new.get(*key)
    if abs(after - before) <= abs(before) / 100:
        return False
    if key[4].startswith("memory") and abs(new.cost[key] - old.cost[key]) <= SLAB:
        return False
    ranges = [rows.range(*key) for rows in (old, new)]
    return ranges[0][0] > ranges[1][1] or ranges[1][0] > ranges[0][1]


def compare(old, new):
    old, new = Rows(old), Rows(new)
    there = [key for key in new.cost if key in old.cost and None not in (old.get(*key), new.get(*key))]
    changed = [key for key in there if differ(old, new, key)]
    for key in changed:
        before, after = old.get(*key), new.get(*key)
        part = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
        print(f"{' '.join(map(str, key))}: {before:,.0f} -> {after:,.0f}{part}")
    print(f"{len(changed)} of {len(there)} rows differ from the last run by more than 1 % and their spread")


def check(path, budgets):
    rows, failed, checked = Rows(path), 0, 0
    with open(budgets, encoding="ascii") as file:
        lines = [line.split(None, 7) for line in file if line.strip() and not line.startswith("#")]
    for device, label, target, size, operation, limit, of, reason in lines:
        if device not in rows.devices():
            continue
        name = f"{device} {label} {target} {size_name(int(size))} {operation}"
        cost = rows.get(device, label, target, int(size), operation)
        budget = float(limit)
        if of != "-":
            other = of.split(":")
            base = rows.get(device, other[0], other[1], int(other[2]), other[3])
            budget = None if base is None else budget * base
        unit = "bytes" if operation.startswith("memory") else "instructions"
        checked += 1
        if cost is None or budget is None:
            failed += 1
            print(f"FAIL {name}: not measured")
        elif cost > budget:
            failed += 1
            print(f"FAIL {name}: {cost:,.0f} {unit}, budget {budget:,.0f} ({reason.strip()})")
        else:
            print(f"ok   {name}: {cost:,.0f} {unit}, budget {budget:,.0f}")
    if not checked:
        print("FAIL no row has a budget")
    sys.exit(1 if failed or not checked else 0)


def host_table(rows, device):
    sizes = rows.sizes(device, "host")
    lines = []
    for label in rows.labels(device, "host"):
        line = [label]
        for size in sizes:
            pair = [rows.get(device, label, "host", size, one) for one in PAIR]
            stock = rows.get(device, "stock", "host", size, "both")
            ratio = "" if label == "stock" or not stock else f" ({sum(pair) / stock:.3f})"
            line.append(f"{pair[0]:,} / {pair[1]:,}{ratio}")
        lines.append(line)
    return table(["host memory"] + [size_name(size) for size in sizes], lines)


def bar_table(rows, device):
    sizes = rows.sizes(device, "bar")
    lines = []
    for target, name in (("bar", "``ibv_reg_mr``"), ("first", "the first of a PD"), ("dmabuf", "``ibv_reg_dmabuf_mr``"),
                         ("heap", "mapped dma-buf, ``ibv_reg_mr``"),
                         ("heap-dmabuf", "the same, ``ibv_reg_dmabuf_mr``"), ("host", "host memory")):
        line = [name]
        for size in sizes:
            pair = [rows.get(device, "io_peer_mem", target, size, one) for one in PAIR]
            line.append("\\-" if None in pair else f"{pair[0]:,} / {pair[1]:,}")
        if any(cell != "\\-" for cell in line[1:]):
            lines.append(line)
    return table(["BAR"] + [size_name(size) for size in sizes], lines)


def other_table(rows, device):
    """The operations on one range besides registration and deregistration."""
    lines = [[operation if label == "io_peer_mem" else f"{operation}, ``{label}``",
              size_name(size), f"{cost:,}"]
             for (dev, label, target, size, operation), cost in rows.cost.items()
             if dev == device and target in ("dmabuf", "export", "map") and operation not in PAIR]
    return table(["BAR", "size", "instructions"], lines) if lines else ""


def size_plot(rows, device):
    sizes = sorted(set(rows.sizes(device, "host")) | set(rows.sizes(device, "bar")))
    wanted = [("host, stock", "stock", "host"), ("host, 8 clients", "8-clients", "host"),
              ("BAR", "io_peer_mem", "bar"), ("BAR, reg_dmabuf_mr", "io_peer_mem", "dmabuf")]
    lines = {}
    for name, label, target in wanted:
        points = [(i, rows.get(device, label, target, size, "both")) for i, size in enumerate(sizes)]
        points = [point for point in points if point[1] is not None]
        if points:
            lines[name] = points
    return plot(f"{TITLES[device]}: register and deregister, instructions", "size", lines,
                [size_name(size) for size in sizes], True)


def client_plot(rows, device):
    ours = [label for label in rows.labels(device, "host") if label[0].isdigit()]
    counts = sorted({int(label.split("-")[0]) for label in ours})
    sizes = rows.sizes(device, "host")
    if not sizes:
        return None
    size = sizes[0]

    def line(label):
        points = [(i, rows.get(device, label.format(n), "host", size, "both"))
                  for i, n in enumerate(counts)]
        return [point for point in points if point[1] is not None]

    lines = {"stock": line("stock"), "ib_peer_mem": line("{}-clients"),
             "vendor-style": line("vendor-{}-clients")}
    return plot(f"{TITLES[device]}: {size_name(size)} of host memory, instructions", "clients", lines,
                [str(n) for n in counts], False)


def device_tables(rows, device):
    title = TITLES[device]
    tables = [title + "\n" + "-" * len(title)]
    if rows.sizes(device, "host"):
        tables.append(host_table(rows, device))
    if rows.sizes(device, "bar"):
        tables.append(bar_table(rows, device))
    tables += [make(rows, device) for make in (other_table, many_table, memory_table, data_table,
                                               threads_table)]
    return [text for text in tables if text]


def write_plots(rows, document, kind, make):
    """Writes a plot for each device that has rows for one. Returns the line that shows them beside each
    other, and the definitions of its names."""
    names, definitions = [], []
    for device in rows.devices():
        picture = make(rows, device)
        if picture is None:
            continue
        path = f"{document}-{device.split('_')[0]}-{kind}.svg"
        name = os.path.basename(path).removesuffix(".svg")
        with open(path, "w", encoding="ascii") as file:
            file.write(picture)
        names.append(f"|{name}|")
        definitions.append(f".. |{name}| image:: {name}.svg\n   :width: 49%\n"
                           f"   :alt: {TITLES[device]}: instructions by {kind}")
    return " ".join(names), definitions


def between(text, marks, parts):
    """Returns `text` with `parts` between the lines `marks`."""
    begin, end = marks
    before, rest = text.split(begin)
    return before + begin + "\n\n" + "\n\n".join(parts) + "\n\n" + end + rest.split(end)[1]


def render(path, document):
    rows = Rows(path)
    figures = [text for device in rows.devices() for text in device_tables(rows, device)]
    goals = goals_table(rows, {device: TITLES[device].split(",")[0] for device in rows.devices()})
    print("\n\n".join(figures + [goals]) + "\n")
    sizes, definitions = write_plots(rows, document, "size", size_plot)
    clients, more = write_plots(rows, document, "clients", client_plot)
    results = [text for text in (f"Kernel {rows.kernel}.", sizes, goals, clients) if text] + definitions + more
    name = document + ".rst"
    with open(name, encoding="utf-8") as file:
        text = file.read()
    text = between(between(text, RESULTS, results), FIGURES, figures)
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    {"collect": collect, "compare": compare, "check": check, "render": render}[sys.argv[1]](*sys.argv[2:])
