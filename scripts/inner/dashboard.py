# SPDX-License-Identifier: GPL-2.0
"""dashboard.py DASHBOARD METRICS DIR PICTURE: draws the panels of a dashboard for Grafana from samples of
metrics, with the answers of Prometheus to the queries of the panels. DIR is empty."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from bench_plot import HEIGHT, WIDTH, plot

SERVER = "127.0.0.1:19090"
STEP = 15
INSTANCE = "node1"
COLUMNS = 24
# What a long name needs beside its plot.
LEGEND = 40


def samples(text):
    """The lines of METRICS, with the label that Prometheus adds when it asks a machine."""
    lines = []
    for line in text.splitlines():
        name, labels, rest = re.fullmatch(r"(\w+)(?:\{(.*)\})? (.*)", line).groups()
        labels = ",".join(filter(None, [labels, f'instance="{INSTANCE}"']))
        lines.append(f"{name}{{{labels}}} {rest}")
    return lines


def ask(query, times):
    arguments = {"query": query, "start": times[0], "end": times[-1], "step": STEP}
    url = f"http://{SERVER}/api/v1/query_range?{urllib.parse.urlencode(arguments)}"
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)["data"]["result"]


def lines_of(panel, times):
    lines = {}
    for target in panel["targets"]:
        query = target["expr"].replace("$instance", ".*")
        for series in ask(query, times):
            name = re.sub(r"\{\{(\w+)\}\}", lambda m: series["metric"].get(m[1], ""), target["legendFormat"])
            # The instance is the same everywhere.
            name = " ".join(word for word in name.split() if word != INSTANCE)
            points = ((round((at - times[0]) / STEP), float(value)) for at, value in series["values"])
            lines[name or INSTANCE] = [point for point in points if point[1] == point[1]]
    return lines


def picture(dashboard, times):
    labels = [f"{i * STEP // 60}" if i * STEP % 120 == 0 else "" for i in range(len(times))]
    out, height = [], 0
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        svg = plot(panel["title"], "minutes", lines_of(panel, times), labels, False)
        if svg is None:
            sys.exit(f"{panel['title']}: no data")
        x, y = grid["x"] * (2 * WIDTH + LEGEND) // COLUMNS, grid["y"] // grid["h"] * HEIGHT
        height = max(height, y + HEIGHT)
        svg = svg[svg.index("<svg"):]
        out.append(svg.replace("<svg", f'<svg x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" overflow="visible"', 1))
    return "\n".join([
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH + LEGEND} {height}">',
        f'<rect width="{2 * WIDTH + LEGEND}" height="{height}" fill="white"/>',
        *out,
        "</svg>",
        "",
    ])


def wait_until_ready():
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://{SERVER}/-/ready").close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    sys.exit("Prometheus does not start")


def main():
    dashboard, metrics, directory, result = sys.argv[1:]
    with open(dashboard) as file:
        dashboard = json.load(file)
    with open(metrics) as file:
        lines = samples(file.read())
    stamps = [int(line.rsplit(" ", 1)[1]) for line in lines]
    times = list(range(min(stamps), max(stamps) + 1, STEP))
    # An exposition has each metric in one piece.
    lines.sort(key=lambda line: line.split("{")[0])
    with open(f"{directory}/metrics", "w") as file:
        file.write("\n".join(lines) + "\n# EOF\n")
    with open(f"{directory}/prometheus.yml", "w"):
        pass
    subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", f"{directory}/metrics",
                    f"{directory}/data"], check=True)
    # A series that is in no sample any more has ended, as where Prometheus asks the machine itself.
    server = subprocess.Popen(["prometheus", f"--config.file={directory}/prometheus.yml",
                               f"--query.lookback-delta={STEP + 5}s",
                               f"--storage.tsdb.path={directory}/data", f"--web.listen-address={SERVER}"])
    try:
        wait_until_ready()
        svg = picture(dashboard, times)
    finally:
        server.terminate()
        server.wait()
    with open(result, "w") as file:
        file.write(svg)


if __name__ == "__main__":
    main()
