#!/usr/bin/env python3
"""Plants each mistake of this folder and sees whether the scenario it names catches it.

usage: try.py [--jobs N] [--tree FOLDER] [NAME...]

A patch is a mistake in ddp/, or in a program of scenarios/ as a user would make it. The lines above
its diff say what the mistake is, and "Caught by SCENARIO on BACKEND: PATTERN" which scenario must fail
where (without a backend: on gloo) with which diagnosis (without a pattern: any). Patches are planted one by one in a clone of the committed
tree, in FOLDER (build/mutants), where the unpatched program must pass first. Exit 0: every mistake
was caught as it says; 1: one was not; 2: something else went wrong.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SEED = "7"
CAUGHT_BY = re.compile(r"^Caught by ([\w.]+)(?: on (\w+))?(?:: (\w+))?$", re.MULTILINE)


def run(*command, **options):
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode != 0:
        sys.exit(f"try.py: {' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def expectations(patch):
    """What a patch says of itself: [(scenario, backend, pattern or '')]."""
    header = patch.read_text().split("\n--- a/", 1)[0]
    return [(scenario, backend or "gloo", pattern) for scenario, backend, pattern in CAUGHT_BY.findall(header)]


class Tree:
    """A clone that is patched, built and played, over and over."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        if not (folder / ".git").exists():
            must("git", "clone", "--quiet", ROOT, folder)
            (folder / ".venv").symlink_to(ROOT / ".venv")
        must("git", "-C", folder, "fetch", "--quiet", ROOT, "HEAD")
        must("git", "-C", folder, "reset", "--quiet", "--hard", "FETCH_HEAD")
        must("cmake", "--preset", "release", cwd=folder)

    def build(self):
        done = run("ninja", "-C", self.folder / "build/release", "-j", self.jobs, "lockstep")
        return "" if done.returncode == 0 else done.stdout[-1500:]

    def play(self, places):
        """{(scenario, backend): (result, pattern, text)} of a run of these."""
        results = {}
        for backend in sorted({backend for _, backend in places}):
            scenarios = sorted({scenario for scenario, at in places if at == backend})
            results |= {(name, backend): found for name, found in self.play_on(backend, scenarios).items()}
        return results

    def play_on(self, backend, scenarios):
        out = self.folder / "build/run"
        report = self.folder / "build/run.json"
        report.unlink(missing_ok=True)
        done = run(self.folder / "build/release/cli/lockstep", "run", *scenarios, "--seed", SEED, "-q", "--backend", backend,
                   "--out", out, "--json", report, "--timeout", "10", cwd=self.folder)
        run("rm", "-rf", out)
        if not report.exists():
            sys.exit(f"try.py: the run wrote no report:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        results = {}
        for result in json.loads(report.read_text())["results"]:
            first = (result["findings"] or [{"pattern": "", "text": ""}])[0]
            results[result["scenario"]] = (result["result"], first["pattern"], first["text"].split("\n")[0])
        return results

    def plant(self, patch):
        must("git", "-C", self.folder, "apply", patch)

    def restore(self):
        must("git", "-C", self.folder, "checkout", "--quiet", ".")


def tried(tree, patch):
    """Lines that say what became of a patch, and whether it was caught as it says."""
    wanted = expectations(patch)
    if not wanted:
        return [f"{patch.stem}: its header names no scenario that catches it"], False
    tree.plant(patch)
    try:
        trouble = tree.build()
        if trouble:
            return [f"{patch.stem}: does not build\n{trouble}"], False
        results = tree.play([(scenario, backend) for scenario, backend, _ in wanted])
    finally:
        tree.restore()
    lines, caught = [], True
    for scenario, backend, pattern in wanted:
        result, found, text = results[scenario, backend]
        as_said = result not in ("pass", "skip", "inconclusive") and (not pattern or pattern == found)
        caught = caught and as_said
        word = "caught" if as_said else "ESCAPED" if result == "pass" else "MISNAMED"
        place = scenario if backend == "gloo" else f"{scenario} on {backend}"
        lines.append(f"{word:9} {patch.stem:42} {place:40} {result} {found}\n          {text}")
    return lines, caught


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/mutants")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    patches = sorted(HERE.glob("*.patch"))
    unknown = set(arguments.names) - {patch.stem for patch in patches}
    if unknown:
        sys.exit(f"try.py: no patch is called {', '.join(sorted(unknown))}")
    if arguments.names:
        patches = [patch for patch in patches if patch.stem in arguments.names]
    tree = Tree(arguments.tree, arguments.jobs)
    trouble = tree.build()
    if trouble:
        sys.exit(f"try.py: the unpatched tree does not build:\n{trouble}")
    places = sorted({(scenario, backend) for patch in patches for scenario, backend, _ in expectations(patch)})
    for (scenario, backend), (result, _, text) in tree.play(places).items():
        if result != "pass":
            sys.exit(f"try.py: {scenario} on {backend} does not pass without any patch: {result}: {text}")
    caught = 0
    for patch in patches:
        lines, as_said = tried(tree, patch)
        print("\n".join(lines), flush=True)
        caught += as_said
    print(f"{caught} of {len(patches)} caught as they say")
    return 0 if caught == len(patches) else 1


if __name__ == "__main__":
    sys.exit(main())
