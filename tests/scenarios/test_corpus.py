"""Case files of earlier versions still mean what they meant, files that docs/ publishes against other subjects hold on
Lockstep's own, and files written by hand are read as they are documented.

corpus/ holds files as they were written once: they are never changed, only added to. LOCKSTEP names the program."""

import functools
import glob
import json
import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs")
PROGRAM = os.environ["LOCKSTEP"]


def told(*arguments):
    """Exit status and stdout."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def wrong_in(value, schema, at="value"):
    """Where a value does not fit a schema of the few words that ours have; empty where it does."""
    if "const" in schema:
        return "" if value == schema["const"] else at
    if "enum" in schema and value not in schema["enum"]:
        return at
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    kind = schema.get("type", "number" if isinstance(value, int) else "any")  # Of elements only the limits are given.
    if kind == "any":
        return ""
    if not isinstance(value, kinds[kind]) or (kind in ("integer", "number") and isinstance(value, bool)):
        return at
    if kind in ("integer", "number"):
        return "" if schema.get("minimum", value) <= value <= schema.get("maximum", value) else at
    if kind == "array":
        if len(value) > schema.get("maxItems", len(value)):
            return at
        return next(filter(None, (wrong_in(part, schema["items"], "%s[%d]" % (at, i)) for i, part in enumerate(value))), "")
    if kind == "object":
        parts = schema.get("properties", {})
        if any(name not in value for name in schema.get("required", [])):
            return at
        for name, part in value.items():
            if name not in parts and not schema.get("additionalProperties", True):
                return at + "." + name
            if name in parts and (wrong := wrong_in(part, parts[name], at + "." + name)):
                return wrong
    return ""


@functools.cache
def schema_of(scenario):
    return json.loads(told("explain", scenario, "--schema")[1])


class Corpus(unittest.TestCase):
    def test_every_file_is_replayed_and_holds(self):
        files = sorted(glob.glob(os.path.join(HERE, "corpus", "*.json")))
        self.assertGreaterEqual(len(files), 8)
        for file in files:
            with tempfile.TemporaryDirectory() as out:
                status, text = told("replay", file, "--tier", "sim", "--out", out)
                self.assertEqual(status, 0, file + "\n" + text)
                self.assertIn("1 passed   1 case", text, "no skip either")

    def test_every_file_fits_its_schema(self):
        with open(os.path.join(DOCS, "case.schema.json"), encoding="utf-8") as file:
            of_all = json.load(file)
        for name in glob.glob(os.path.join(HERE, "corpus", "*.json")):
            with open(name, encoding="utf-8") as file:
                case = json.load(file)
            self.assertEqual(wrong_in(case, schema_of(case["scenario"])), "", name)
            self.assertEqual(wrong_in(case, of_all), "", name)


class Published(unittest.TestCase):
    """A case on which Lockstep fails as well, or of which no scenario claims anything, proves nothing against others."""

    def test_every_case_file_of_the_docs_holds_on_lockstep(self):
        files = sorted(glob.glob(os.path.join(DOCS, "matrix", "*.json")) + glob.glob(os.path.join(DOCS, "findings", "*.json")))
        self.assertGreaterEqual(len(files), 40)
        scenarios = set()
        with tempfile.TemporaryDirectory() as out:
            archive = os.path.join(out, "failures")
            os.mkdir(archive)
            for file in files:
                with open(file, encoding="utf-8") as text:
                    scenario = json.load(text)["scenario"]
                scenarios.add(scenario)
                shutil.copy(file, os.path.join(archive, scenario + "-" + os.path.basename(file)))
            status, text = told("run", *sorted(scenarios), "--failed", "--tier", "sim", "--keep-going", "--no-shrink",
                                "--seed", "1", "--out", out)
            self.assertEqual(status, 0, text)
            self.assertNotIn(" is not run: ", text)
            with open(os.path.join(out, "runs", "latest", "run.json"), encoding="utf-8") as run:
                results = json.load(run)["results"]
        self.assertEqual({result["scenario"] for result in results}, scenarios)
        self.assertEqual([(result["scenario"], result["result"], result["refused"]) for result in results],
                         [(result["scenario"], "pass", {}) for result in results])


class Written(unittest.TestCase):
    def test_the_case_that_is_explained_is_one_that_replay_takes(self):
        with tempfile.TemporaryDirectory() as out:
            file = os.path.join(out, "case.json")
            with open(file, "w", encoding="utf-8") as case:
                case.write(told("explain", "buffers.follow_rank_zero", "--case")[1])
            status, text = told("replay", file, "--tier", "sim", "--out", out)
        self.assertEqual(status, 0, text)

    def test_every_scenarios_case_fits_its_schema_and_has_every_field_of_it(self):
        names = [line for line in told("list")[1].splitlines() if line and not line.startswith(" ")]
        self.assertGreaterEqual(len(names), 20)
        for name in names:
            case, schema = json.loads(told("explain", name, "--case")[1]), schema_of(name)
            self.assertEqual(wrong_in(case, schema), "", name)
            self.assertEqual(list(case["value"]), list(schema["properties"]["value"]["properties"]), name)

    def test_what_the_schema_refuses_replay_refuses(self):
        schema = schema_of("sampler.partitions_the_dataset")
        for field, value in (("length", 0), ("shuffle", 1), ("lenght", 3), ("world", {"size": 0}),
                             ("world", {"reduction": "circle"}), ("world", {"timing": {"slow_ranks": [0]}})):
            case = {"lockstep_case": 1, "scenario": "sampler.partitions_the_dataset", "value": {field: value}}
            self.assertNotEqual(wrong_in(case, schema), "", field)
            with tempfile.TemporaryDirectory() as out:
                file = os.path.join(out, "case.json")
                with open(file, "w", encoding="utf-8") as text:
                    json.dump(case, text)
                self.assertEqual(told("replay", file, "--tier", "sim", "--out", out)[0], 2, field)


if __name__ == "__main__":
    unittest.main()
