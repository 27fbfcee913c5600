#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""bench.py BUDGETS DEVICE=FILE... runs inside the rootfs, for scripts/bench: prints the rows of the
programs bench_* in the files, and fails for each row of these devices that is above its budget."""

import sys

PAIR = ("register", "deregister")


class Rows:
    """Figures by (device, label, target, size, operation). Rows of many MRs have the number of the MRs as
    their label, and the cost of all of them."""

    def __init__(self, files):
        figures = {}
        for device, name in (item.split("=", 1) for item in files):
            with open(name, encoding="ascii") as file:
                for line in file:
                    label, target, size, operation, figure, *_ = line.split()
                    figures.setdefault((device, label, target, int(size), operation), []).append(int(figure))
        # The least of repeated ones; the lower median of many MRs, which scatter.
        self.cost = {key: sorted(all_of)[(len(all_of) - 1) // 2 if key[2].startswith("many-") else 0]
                     for key, all_of in figures.items()}

    def get(self, device, label, target, size, operation):
        """The cost of a row, of one MR if it is of many, or None; "both" is a registration and its
        deregistration."""
        if operation == "both":
            pair = [self.get(device, label, target, size, one) for one in PAIR]
            return None if None in pair else sum(pair)
        cost = self.cost.get((device, label, target, size, operation))
        if cost is None or not target.startswith("many-"):
            return cost
        # Without MRs the operation costs something as well.
        return (cost - self.cost.get((device, "0", target, size, operation), 0)) / int(label)


def show(rows):
    ranges = dict.fromkeys(key[:4] for key in rows.cost if key[1] != "0")
    for key in ranges:
        figures = [f"{operation} {rows.get(*key, operation):,.0f}"
                   for *of, operation in rows.cost if tuple(of) == key]
        print(*key, *figures)


def check(rows, budgets):
    """Whether all budgets are kept."""
    failed, checked = 0, 0
    with open(budgets, encoding="utf-8") as file:
        lines = [line.split(None, 7) for line in file if line.strip() and not line.startswith("#")]
    for device, label, target, size, operation, limit, of, reason in lines:
        if device not in {key[0] for key in rows.cost}:
            continue
        checked += 1
        name = f"{device} {label} {target} {size} {operation}"
        cost, base = rows.get(device, label, target, int(size), operation), 1
        if of != "-":
            other = of.split(":")
            base = rows.get(device, other[0], other[1], int(other[2]), other[3])
        if cost is None or base is None:
            failed += 1
            print(f"FAIL {name}: not measured")
            continue
        failed += cost > float(limit) * base
        verdict = "FAIL" if cost > float(limit) * base else "ok  "
        ratio = f" = {cost / base:.4f} of {of}" if of != "-" and base else ""
        print(f"{verdict} {name}: {cost:,.0f}{ratio}, limit {float(limit):,} ({reason.strip()})")
    if not checked:
        print("FAIL no row has a budget")
    return checked and not failed


if __name__ == "__main__":
    ROWS = Rows(sys.argv[2:])
    show(ROWS)
    sys.exit(0 if check(ROWS, sys.argv[1]) else 1)
