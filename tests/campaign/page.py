#!/usr/bin/env python3
"""Writes docs/testing.md from the results of a campaign.

usage: page.py RUN_JSON... PAGE

RUN_JSON is the run.json of `lockstep run --tier sim --cases N`, a run in which nothing failed; several of the same
program differ in their seeds. Every number of the page is computed from them.
"""

import collections
import json
import pathlib
import sys

HEAD = """# Testing: what a campaign measures

[CONTRIBUTING.md](../CONTRIBUTING.md) says how to run the tests. Scenarios judge drawn cases ([search.md](search.md)),
and mutants ([faults.md](faults.md)) show what they catch. Unit tests (`./lockstep test`) state single facts. A unit
test of `ddp/` or `train/` stays if it has what no drawn case has: the words of an error or a warning, a refusal, a bound
(a number of bytes, messages or threads), a rule that docs/semantics.md states and no scenario's claim covers, what real
processes, sockets, devices and files do to a training, or a pure function over all small inputs. That averages, buffers, buckets,
orders and states come out right is the scenarios' to prove, in every case they draw: a test that holds that in one case
more goes, but for one (`Gradients.AreAverages...`) that says where to look. This page shows what a campaign of drawn
cases covers, and what it costs. `tests/campaign/page.py` writes it:

```
for seed in 21 22 23 24 25; do
  ./lockstep run --tier sim --cases 2400 --seed $seed --keep-going --json campaign-$seed.json
done
tests/campaign/page.py campaign-*.json docs/testing.md
```
"""
COST = """
## Cases a second, what is refused, and shares of labels

*Refused* are drawn cases that have no reference in exact arithmetic, or that the subject does not offer; fewer than a
tenth of each scenario's. A second is one of wall time, in which all lanes run
and the machine may do other work. *Nearest* is the label whose measured share of the drawn cases is the smallest
multiple of the share that the scenario requires; the runs' JSON has all of them.

| scenario | judged | a second | refused | why, mostly | nearest label: required, measured |
|---|---:|---:|---:|---|---|
"""


def count(cases):
    """How many cases "1-4,7" are."""
    total = 0
    for part in filter(None, cases.split(",")):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def drawn(result, label):
    """The number of drawn cases that have the label."""
    return sum(count(group["cases"]) for group in result["groups"]
               if "drawn" in group["labels"] and (label == "drawn" or label in group["labels"]))


def percent(part, whole):
    return f"{100 * part / max(whole, 1):.1f} %"


def cost(result):
    refused = result["refused"]
    number = sum(refused.values())
    why = max(refused, key=refused.get) if refused else ""
    cells = (f"`{result['scenario']}`", f"{result['judged']:,}",
             f"{result['judged'] / max(result['seconds'], 1e-3):,.0f}",
             percent(number, number + result["judged"]), why.replace("|", "\\|"), nearest(result))
    return "| " + " | ".join(cells) + " |\n"


def nearest(result):
    whole = drawn(result, "drawn")
    required = result["required_shares"]
    if not required:
        return ""
    least = min(required, key=lambda each: drawn(result, each["label"]) / each["share"])
    return f"{least['label']}: {100 * least['share']:.1f} %, {percent(drawn(result, least['label']), whole)}"


def summary(runs, results):
    judged = sum(each["judged"] for each in results)
    refused = sum(sum(each["refused"].values()) for each in results)
    seeds = "seed" if len(runs) == 1 else "seeds"
    return (f"\nThe campaign of this page: {judged + refused:,} cases of {len(results)} scenarios on simulated worlds, "
            f"{seeds} {', '.join(run['seed'] for run in runs)}, on {runs[0]['cores']} cores in "
            f"{sum(run['seconds'] for run in runs):,.0f} s. {judged:,} were judged, and all hold; {refused:,} "
            f"({percent(refused, judged + refused)}) were refused.\n")


def merged(results):
    """The results of one scenario in several runs, as of one."""
    refused = collections.Counter()
    for each in results:
        refused.update(each["refused"])
    return {**results[0], "judged": sum(each["judged"] for each in results), "refused": dict(refused),
            "seconds": sum(each["seconds"] for each in results),
            "groups": [group for each in results for group in each["groups"]]}


def page(runs):
    failed = [f"{each['scenario']} of seed {run['seed']}" for run in runs for each in run["results"]
              if each["result"] not in ("pass", "skip")]
    if failed:
        raise ValueError(f"these failed: {', '.join(failed)}")
    by_scenario = {}
    for each in (each for run in runs for each in run["results"] if each["result"] == "pass"):
        by_scenario.setdefault(each["scenario"], []).append(each)
    results = list(map(merged, by_scenario.values()))
    return HEAD + summary(runs, results) + COST + "".join(map(cost, results))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *runs, target = map(pathlib.Path, sys.argv[1:])
    try:
        text = page([json.loads(run.read_text()) for run in runs])
    except (OSError, ValueError) as error:
        sys.exit(f"page.py: {error}")
    before = target.read_text() if target.exists() else ""
    _, heading, rest = before.partition("\n## Sanitizers\n")  # Which no campaign measures.
    target.write_text(text + heading + rest)


if __name__ == "__main__":
    main()
