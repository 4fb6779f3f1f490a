#!/usr/bin/env python3
"""Runs the programs of this folder as two ranks, without and with the recorder, judges what was recorded, and prints a row of
docs/in_the_wild.md for each. The test suite does not run it: its packages (requirements.txt) are the users' own.

usage: run.py [--python PYTHON] [--lockstep LOCKSTEP] [PROGRAM...]

PYTHON has PyTorch and requirements.txt (.venv-wild/bin/python); LOCKSTEP is Lockstep's program (./lockstep). A program that
ends with another exit code under the recorder, or a record that cannot be judged, is exit code 1.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
PATIENCE_S = 300


def run(python, program, folder, *recorder):
    """The exit code, the seconds and the output of two ranks of the program, in a folder of their own."""
    os.makedirs(folder)
    environment = {**os.environ, **QUIET, "PYTHONPATH": os.path.join(ROOT, "recorder", "python")}
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    begun = time.monotonic()
    ended = subprocess.run(command + [*recorder, program], cwd=folder, env=environment, capture_output=True, text=True,
                           timeout=PATIENCE_S, check=False)
    return ended.returncode, time.monotonic() - begun, ended.stdout + ended.stderr


def judged(lockstep, record, report):
    """The output of `judge`: its exit code and the results by invariant."""
    ended = subprocess.run([lockstep, "judge", record, "--json", report], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if not os.path.exists(report):
        return ended.returncode, {}, ended.stdout + ended.stderr
    with open(report, encoding="utf-8") as file:
        return ended.returncode, {each["scenario"]: each for each in json.load(file)["results"]}, ended.stdout


def package_of(text):
    """The package that the program's docstring names first."""
    return re.match(r'"""([a-z-]+):', text)[1]


def version_of(python, package):
    script = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=False).stdout.strip()


def row_of(arguments, program, folder):
    """A row of the table, and whether the recorder kept its promise."""
    with open(program, encoding="utf-8") as file:
        text = file.read()
    package = package_of(text)
    plain, seconds, _ = run(arguments.python, program, os.path.join(folder, "plain"))
    record = os.path.join(folder, "record")
    code, recorded_seconds, said = run(arguments.python, program, os.path.join(folder, "recorded"), "-m", "lockstep_recorder",
                                        "--record", record)
    verdict, results, story = judged(arguments.lockstep, record, os.path.join(folder, "report.json"))
    failed = [invariant for invariant, each in results.items() if each["result"] == "fail"]
    skipped = [invariant for invariant, each in results.items() if each["result"] == "skip"]
    if code != plain or verdict not in (0, 1, 3, 77):
        print(said[-2000:], story[-2000:], sep="\n", file=sys.stderr)
    cells = [os.path.basename(program)[:-3], f"{package} {version_of(arguments.python, package)}",
             "yes" if code == plain else f"no: {code} instead of {plain}", str(verdict), " ".join(failed) or "–",
             " ".join(skipped) or "–", f"{recorded_seconds / seconds:.2f}"]
    return "| " + " | ".join(cells) + " |", code == plain and verdict in (0, 1, 3, 77)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.path.join(ROOT, ".venv-wild", "bin", "python"))
    parser.add_argument("--lockstep", default=os.path.join(ROOT, "lockstep"))
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    everything = sorted(set(glob.glob(os.path.join(HERE, "*.py"))) - {os.path.abspath(__file__)})
    held = True
    print("| program | package | recorded as it is | exit code of `judge` | fails | not judged | time, recorded : plain |\n|---|---|---|---|---|---|---|")
    for program in arguments.programs or everything:
        with tempfile.TemporaryDirectory(prefix="lockstep wild ") as folder:
            row, holds = row_of(arguments, os.path.abspath(program), folder)
            print(row, flush=True)
            held = held and holds
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
