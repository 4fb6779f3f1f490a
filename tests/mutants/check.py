#!/usr/bin/env python3
"""Checks that the planted mistakes and the scenarios know each other, and that every patch applies.

usage: check.py [ROOT]

A scenario's must_catch names patches of this folder; a patch's header names the scenarios that catch
it. A patch that no longer applies plants nothing, and a name without a patch promises nothing.
"""

import pathlib
import re
import subprocess
import sys

NAME = re.compile(r'\.name = "([\w.]+)"')
MUST_CATCH = re.compile(r"\.must_catch =\s*\{([^}]*)\}")
CAUGHT_BY = re.compile(r"^Caught by ([\w.]+)", re.MULTILINE)


def promises(root):
    """{(scenario, mutant)} as the scenarios say."""
    found = set()
    for path in (root / "scenarios").rglob("*.cpp"):
        for part in path.read_text().split("return scenario<")[1:]:
            name, catches = NAME.search(part), MUST_CATCH.search(part)
            if name and catches and not name[1].startswith("canary."):
                found |= {(name[1], mutant) for mutant in re.findall(r'"(\w+)"', catches[1])}
    return found


def claims(patches):
    """{(scenario, mutant)} as the patches say."""
    return {(scenario, patch.stem) for patch in patches
            for scenario in CAUGHT_BY.findall(patch.read_text().split("\n--- a/", 1)[0])}


def problems(root):
    patches = sorted((root / "tests/mutants").glob("*.patch"))
    promised, claimed = promises(root), claims(patches)
    for scenario, mutant in sorted(promised - claimed):
        yield f"{scenario} must catch {mutant}, whose patch does not name it or is not there"
    for scenario, mutant in sorted(claimed - promised):
        yield f"{mutant}.patch names {scenario}, whose must_catch does not name it"
    for patch in patches:
        # In a folder without a repository around it git applies paths as they stand.
        applied = subprocess.run(["git", "apply", "--check", patch], cwd=root, text=True, capture_output=True)
        if applied.returncode != 0:
            yield f"{patch.name} does not apply: {applied.stderr.strip()}"
    if not patches:
        yield "there is no patch"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if len(sys.argv) > 1 else root.parent.parent.parent
    found = list(problems(root))
    print("\n".join(found) or "every patch applies and is named by a scenario")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
