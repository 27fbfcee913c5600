#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""openmetrics.py FILE [NAME...]: parses the text of OpenMetrics (1.0.0) strictly, for gauges and
counters without timestamps, and prints each sample as "NAME {LABEL: VALUE, ...} VALUE". With names of
samples: fails unless the text has a sample of each name."""

import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
# In a label: no line feed, no quote and no backslash, except after a backslash.
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9]+(?:\.[0-9]+)?)")
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse(text):
    """Returns the samples: {(name, labels): value}."""
    assert text.endswith("# EOF\n"), "the last line is not # EOF"
    lines = text[: -len("# EOF\n")].split("\n")
    assert lines.pop() == "", "a line without an end"
    families, samples, family = {}, {}, None
    for line in lines:
        comment = re.fullmatch(rf"# (TYPE|HELP) ({NAME}) (.*)", line)
        if comment:
            what, name, rest = comment.groups()
            if name != family:
                assert name not in families, f"the lines of {name} are not together: {line}"
                family, families[name] = name, {"samples": 0}
            assert what not in families[name], f"twice: {line}"
            assert not families[name]["samples"], f"after a sample: {line}"
            assert what == "HELP" or rest in ("gauge", "counter"), f"the type: {line}"
            assert rest and not re.search(r'\\(?![\\n"])', rest), f"the text: {line}"
            families[name][what] = rest
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, f"neither a comment nor a sample: {line}"
        name, labels, value = sample[1], sample[2] or "", float(sample.groups()[-1])
        assert family, f"no family: {line}"
        kind = families[family].get("TYPE")
        assert kind and "HELP" in families[family], f"no TYPE or HELP: {line}"
        assert name == family + ("_total" if kind == "counter" else ""), f"not of {family}: {line}"
        assert kind == "gauge" or value >= 0, f"a counter below 0: {line}"
        pairs = re.findall(LABEL, labels)
        assert len({label for label, _ in pairs}) == len(pairs), f"a label twice: {line}"
        key = name, tuple(sorted((k, re.sub(r"\\.", lambda m: UNESCAPED[m[0]], v)) for k, v in pairs))
        assert key not in samples, f"a sample twice: {line}"
        samples[key] = value
        families[family]["samples"] += 1
    for name in families:
        assert not name.endswith("_total"), f"the family {name}"
    return samples


def rejects(text):
    """Fails if the parser accepts a wrong text."""
    try:
        parse(text)
    except AssertionError:
        return
    raise SystemExit(f"the parser accepts: {text!r}")


HEAD = "# TYPE a gauge\n# HELP a Text.\n"
assert parse(HEAD + 'a{b="\\"\\\\\\n"} 1\n# EOF\n') == {("a", (("b", '"\\\n'),)): 1}
for wrong in (HEAD + "a 1\n", HEAD + "a 1\n\n# EOF\n", HEAD + 'a{b="\\x"} 1\n# EOF\n', "a 1\n# EOF\n",
              HEAD + "a 1\na 1\n# EOF\n", HEAD + "b 1\n# EOF\n", HEAD + 'a{b="1",b="2"} 1\n# EOF\n',
              HEAD + 'a{b="""} 1\n# EOF\n', HEAD.replace("gauge", "counter") + "a 1\n# EOF\n",
              "# TYPE a gauge\na 1\n# EOF\n", HEAD + "a 1\n" + HEAD.replace(" a ", " c ") + "c 1\na 2\n# EOF\n"):
    rejects(wrong)

found = parse(open(sys.argv[1], encoding="utf-8", newline="").read())
for (sample_name, sample_labels), number in found.items():
    print(sample_name, dict(sample_labels), f"{number:.15g}")
missing = set(sys.argv[2:]) - {sample_name for sample_name, _ in found}
if missing:
    raise SystemExit(f"no sample of: {' '.join(sorted(missing))}")
