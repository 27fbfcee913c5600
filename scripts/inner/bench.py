#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""bench.py BUDGETS DEVICE=FILE... runs inside the rootfs, for scripts/bench: prints the rows of the
programs bench_* in the files, and fails for each row of these devices that is above its budget."""

import collections
import sys


def read(files):
    """Figures by (device, label, target, size, operation). Rows of many MRs have the number of the MRs as
    their label, and the cost of all of them."""
    figures = collections.defaultdict(list)
    for device, name in (item.split("=", 1) for item in files):
        with open(name, encoding="ascii") as file:
            for label, target, size, operation, figure, *_ in map(str.split, file):
                figures[device, label, target, int(size), operation].append(int(figure))
    # The least of repeated ones; the lower median of many MRs, which scatter.
    return {key: sorted(all_of)[(len(all_of) - 1) // 2 if key[2].startswith("many-") else 0]
            for key, all_of in figures.items()}


def cost(rows, device, label, target, size, operation):
    """The cost of a row, of one MR if it is of many, or None; "both" is a registration and its
    deregistration."""
    if operation == "both":
        pair = [cost(rows, device, label, target, size, one) for one in ("register", "deregister")]
        return None if None in pair else sum(pair)
    found = rows.get((device, label, target, size, operation))
    if found is None or not target.startswith("many-"):
        return found
    # Without MRs the operation costs something as well.
    return (found - rows.get((device, "0", target, size, operation), 0)) / int(label)


def check(rows, budgets):
    """Prints a line for each budget of the devices in the rows. Returns whether all are kept."""
    verdicts = []
    with open(budgets, encoding="utf-8") as file:
        lines = [line.split(None, 7) for line in file if line.strip() and not line.startswith("#")]
    for device, label, target, size, operation, limit, of, reason in lines:
        if device not in {key[0] for key in rows}:
            continue
        found, base = cost(rows, device, label, target, int(size), operation), 1
        if of != "-":
            other = of.split(":")
            base = cost(rows, device, other[0], other[1], int(other[2]), other[3])
        measured = None not in (found, base)
        verdicts.append(measured and found <= float(limit) * base)
        ratio = f" = {found / base:.4f} of {of}" if measured and of != "-" and base else ""
        print("ok  " if verdicts[-1] else "FAIL", f"{device} {label} {target} {size} {operation}:",
              f"{found:,.0f}{ratio}," if measured else "not measured,", f"limit {limit} ({reason.strip()})")
    if not verdicts:
        print("FAIL no row has a budget")
    return bool(verdicts) and all(verdicts)


if __name__ == "__main__":
    ROWS = read(sys.argv[2:])
    for row in dict.fromkeys(key[:4] for key in ROWS if key[1] != "0"):
        print(*row, *(f"{key[4]} {cost(ROWS, *key):,.0f}" for key in ROWS if key[:4] == row))
    sys.exit(not check(ROWS, sys.argv[1]))
