"""A clone of the committed tree in which mistakes are planted, built and run, one after the other."""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import mutant

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BACKENDS = mutant.BACKENDS
# On GPUs connecting takes seconds, so worlds are kept, and of drawn cases there are fewer.
ON_GPUS = ("--tier", "warm", "--world", "2", "--cases", "40", "--timeout", "120")
NO_FAILURE = ("pass", "skip", "inconclusive")
PROGRAM = pathlib.Path(sys.argv[0]).name


def run(*command, **options):
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode != 0:
        sys.exit(f"{PROGRAM}: {' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def libtorch_of(cache):
    """For a clone: the LibTorch that this tree's own build was given, or found."""
    found = re.search(r"^LOCKSTEP_TORCH:\w+=(.+)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return [f"-DLOCKSTEP_TORCH={found[1]}"] if found else []


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of one scenario in a run."""

    result: str
    pattern: str
    text: str
    seconds: float
    failure: dict  # as in run.json; empty where there is none

    @classmethod
    def of(cls, result):
        first = (result["findings"] or [{"pattern": "", "text": ""}])[0]
        return cls(result["result"], first["pattern"], first["text"].split("\n")[0], result["seconds"],
                   result.get("failure", {}))


class Tree:
    """A clone in which mutants are planted, built and run, one after the other."""

    def __init__(self, folder, jobs, preset, needs_nccl, cases, revision="HEAD"):
        self.folder, self.jobs, self.built = folder, jobs, folder / "build" / preset
        self.how_many = ("--cases", cases) if cases else ()
        self.targets = ["lockstep", "lockstep_harness_nccl"] if needs_nccl else ["lockstep"]
        if not (folder / ".git").exists():
            must("git", "clone", "--quiet", ROOT, folder)
            (folder / ".venv").symlink_to(ROOT / ".venv")
        commit = must("git", "-C", ROOT, "rev-parse", f"{revision}^{{commit}}").strip()
        must("git", "-C", folder, "fetch", "--quiet", ROOT, "HEAD", commit)
        must("git", "-C", folder, "reset", "--quiet", "--hard", commit)
        must("cmake", "--preset", preset, *libtorch_of(ROOT / "build/release/CMakeCache.txt"),
             *(["-DLOCKSTEP_NCCL=ON"] if needs_nccl else []), cwd=folder)

    def build(self):
        done = run("ninja", "-C", self.built, "-j", self.jobs, *self.targets)
        return "" if done.returncode == 0 else done.stdout[-1500:]

    def run(self, places, seed, shrinks=False):
        """{(scenario, backend): Outcome} of a run of these."""
        results = {}
        for backend in sorted({backend for _, backend in places}):
            scenarios = sorted({scenario for scenario, at in places if at == backend})
            results |= {(name, backend): found for name, found in self.run_on(backend, scenarios, seed, shrinks).items()}
        return results

    def run_on(self, backend, scenarios, seed, shrinks, stops=False):
        """{scenario: Outcome}; of no scenarios: of all. With `stops` nothing is run after the first that fails."""
        out = self.folder / "build/run"
        report = self.folder / "build/run.json"
        report.unlink(missing_ok=True)
        how = ("--tier", BACKENDS[backend], "--timeout", "10") if backend in BACKENDS else ON_GPUS
        how += () if backend == "memory" else ("--backend", backend)
        done = run(self.built / "cli/lockstep", "run", *scenarios, "--seed", seed, "-q", "--out", out,
                   "--json", report, *how, *self.how_many, *(() if shrinks else ("--no-shrink",)), *(("-x",) if stops else ()), cwd=self.folder)
        run("rm", "-rf", out)
        if not report.exists():
            sys.exit(f"{PROGRAM}: the run wrote no report:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return {result["scenario"]: Outcome.of(result) for result in json.loads(report.read_text())["results"]}

    def restore(self):
        must("git", "-C", self.folder, "checkout", "--quiet", ".")
