#!/usr/bin/env python3
"""Checks what users copy into CI: each YAML file parses and calls commands that exist, the action's steps and the container's
run in order, with fakes of what they call. Parsing takes .venv-docs; without it that part is skipped."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from help_of import ROOT, calls_in, exit_codes, read, unknown_in

BUILDER = os.path.join(ROOT, ".venv-docs", "bin", "python")
HAS_YAML = unittest.skipUnless(os.path.exists(BUILDER), "there is no .venv-docs: ./lockstep docs makes it")
RECIPES = sorted(os.path.relpath(path, ROOT) for pattern in ("docs/ci/*.yml", "examples/pytest/*.yml", "docs/scale/*.yml")
                 for path in glob.glob(os.path.join(ROOT, pattern)))
FAKE = '#!/bin/bash\necho "${0##*/} $*" >>"$CALLS"\nexit ${STATUS:-0}\n'


def yaml_of(name):
    code = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout, default=str)"
    ended = subprocess.run([BUILDER, "-c", code], input=read(name), stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return json.loads(ended.stdout)


def commands_of(recipe):
    """The shell lines of a workflow of GitHub, or of a file of GitLab."""
    jobs = recipe.get("jobs", recipe)
    for job in jobs.values():
        for step in job.get("steps", []):
            if "run" in step:
                yield step["run"]
        yield from job.get("script", [])


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep ci ")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(os.path.join(self.folder, "bin"))
        for name in ("lockstep", "pip", "apt-get"):
            self.fake(os.path.join("bin", name))

    def fake(self, name):
        os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(FAKE)
        os.chmod(os.path.join(self.folder, name), 0o755)

    def result_of(self, script, **variables):
        """(exit status, the calls of the fakes)"""
        calls = os.path.join(self.folder, "calls")
        with open(calls, "w", encoding="utf-8"):
            pass
        path = os.path.join(self.folder, "bin") + ":" + os.environ["PATH"]
        ended = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=self.folder, check=False, timeout=60,
                               env={**os.environ, "PATH": path, "CALLS": calls, **variables})
        with open(calls, encoding="utf-8") as file:
            return ended.returncode, file.read().splitlines()


class Recipes(Case):
    @HAS_YAML
    def test_each_has_commands_that_exist_and_keeps_its_downloads(self):
        self.assertEqual(len(RECIPES), 8)
        for name in RECIPES:
            lines = list(commands_of(yaml_of(name)))
            calls = calls_in("\n".join(line.replace("\n", " ") for line in lines))
            self.assertTrue(calls or any(line.startswith("pytest ") for line in lines), name)
            self.assertEqual(list(unknown_in(calls)), [], name)
            if not name.startswith("docs/scale/"):
                self.assertRegex(read(name), r"cache: pip|\.cache/pip", name)
                self.assertIn("timeout", read(name), name)
        for flag in re.findall(r"--lockstep-\w+", read("examples/pytest/github.yml") + read("examples/pytest/gitlab.yml")):
            self.assertIn('"%s"' % flag, read("python/lockstep/pytest_plugin.py"))

    @HAS_YAML
    def test_a_training_that_fails_is_judged_and_fails_the_job(self):
        for steps in (yaml_of("docs/ci/training.github.yml")["jobs"]["training"]["steps"], yaml_of("action.yml")["runs"]["steps"]):
            judged = [step for step in steps if step.get("name") == "judge" or step.get("run", "").startswith("lockstep judge")]
            self.assertEqual([step.get("if") for step in judged], ["${{ !cancelled() }}"])
        script = "\n".join(yaml_of("docs/ci/training.gitlab.yml")["training"]["script"])
        for recorded, judged, expected in ((0, 0, 0), (0, 1, 1), (124, 0, 124), (1, 1, 1), (0, 3, 3)):
            with open(os.path.join(self.folder, "bin", "lockstep"), "w", encoding="utf-8") as file:
                file.write('#!/bin/bash\necho "lockstep $1" >>"$CALLS"\n[ $1 = record ] && exit %d\nexit %d\n' % (recorded, judged))
            status, calls = self.result_of(script)
            self.assertEqual((status, calls[-2:]), (expected, ["lockstep record", "lockstep judge"]))

    def test_the_page_names_each_of_them(self):
        page = read("docs/ci.md")
        for name in RECIPES:
            self.assertIn("](%s)" % os.path.relpath(name, "docs"), page)

    def test_a_step_that_takes_77_for_a_skip_fails_with_every_other_code(self):
        script = re.search(r"(?s)```sh\n(.*?)```", read("docs/ci.md"))[1]
        for code in exit_codes():
            status, calls = self.result_of(script, STATUS=code)
            self.assertEqual(status, 0 if code in ("0", "77") else int(code))
            self.assertEqual(calls, ["lockstep judge recorded"])


class Action(Case):
    @HAS_YAML
    def test_its_steps_install_record_judge_and_upload(self):
        action = yaml_of("action.yml")
        steps = action["runs"]["steps"]
        self.assertEqual([step.get("name", step.get("uses", "").partition("@")[0]) for step in steps],
                         ["actions/setup-python", "install", "record", "judge", "actions/upload-artifact"])
        named = {step["name"]: step["run"] for step in steps if "name" in step}
        os.mkdir(os.path.join(self.folder, "wheels"))
        self.fake("wheels/lockstep-1.whl")
        status, calls = self.result_of(named["install"], WHEEL=action["inputs"]["wheel"]["default"], TORCH_INDEX="here")
        self.assertEqual((status, calls), (0, ["pip install torch==2.11.* numpy --index-url here", "pip install wheels/lockstep-1.whl"]))
        status, calls = self.result_of(named["record"], RECORD="torchrun --nproc-per-node 2 train.py", MINUTES=action["inputs"]["minutes"]["default"])
        self.assertEqual((status, calls), (0, ["lockstep record --out recorded -- timeout 10m torchrun --nproc-per-node 2 train.py"]))
        for command in (action["inputs"]["command"]["default"], "run --subject python:mine.py"):
            status, calls = self.result_of(named["judge"], COMMAND=command, STATUS="3")
            self.assertEqual((status, calls), (3, ["lockstep %s --junit lockstep-junit.xml --html lockstep-report.html" % command]))
            self.assertEqual(list(unknown_in(calls_in(calls[0]))), [])
        for made in ("lockstep-junit.xml", "lockstep-report.html", ".lockstep/failures/", "recorded/"):
            self.assertIn(made, steps[-1]["with"]["path"].split())


class Container(Case):
    def test_its_commands_run_in_order(self):
        instructions = re.findall(r"(?m)^([A-Z]+) ((?:.*\\\n)*.*)$", read("Dockerfile"))
        self.assertEqual([name for name, _ in instructions if name in ("FROM", "ENTRYPOINT")], ["FROM", "FROM", "FROM", "ENTRYPOINT"])
        for name, rest in instructions:
            if name == "FROM" and rest != "packages AS build":
                self.assertRegex(rest, r"^[a-z]+:\d[\w.-]*(?: AS \w+)?$", "a base without a version")
            if name == "COPY" and "--from" not in rest:
                self.assertTrue(os.path.exists(os.path.join(ROOT, rest.split()[0])), rest)
        packages, build, install = [rest.replace("\\\n", "") for name, rest in instructions if name == "RUN"]
        shutil.copy(os.path.join(ROOT, "packages.txt"), self.folder)
        status, calls = self.result_of(packages.replace("/lockstep/packages.txt", "packages.txt").replace("/var/lib", "lists"))
        self.assertEqual((status, calls[0]), (0, "apt-get update"))
        for package in re.findall(r"(?m)^([a-z][\w.+-]*) ", read("packages.txt")):
            self.assertIn(" %s " % package, calls[1] + " ")
        self.fake("lockstep")
        self.fake(".venv/bin/python")
        self.assertEqual(self.result_of(build), (0, ["lockstep setup", "python -m pip wheel --no-deps --wheel-dir /wheels ."]))
        self.assertIn(".venv/bin/python -m pip wheel --no-deps --wheel-dir wheels .", read("docs/python.md"))
        status, calls = self.result_of(install)
        self.assertEqual((status, len(calls)), (0, 2))
        self.assertIn("torch==2.11.*", calls[0])


class DevelopersContainer(unittest.TestCase):
    def test_it_is_the_stage_with_the_packages_and_sets_the_tree_up(self):
        spec = json.loads(read(".devcontainer/devcontainer.json"))
        here = os.path.join(ROOT, ".devcontainer")
        self.assertTrue(os.path.samefile(os.path.join(here, spec["build"]["dockerfile"]), os.path.join(ROOT, "Dockerfile")))
        self.assertTrue(os.path.samefile(os.path.join(here, spec["build"]["context"]), ROOT))
        stages = re.findall(r"(?ms)^FROM \S+ AS (\w+)$(.*?)(?=^FROM|\Z)", read("Dockerfile"))
        self.assertIn("packages.txt", dict(stages)[spec["build"]["target"]])
        self.assertNotIn("./lockstep setup", dict(stages)[spec["build"]["target"]], "it is made once the tree is mounted")
        self.assertEqual(spec["postCreateCommand"], "./lockstep setup")


class Badges(unittest.TestCase):
    """Files of this tree, so that nothing is fetched; each says what another file says."""

    def test_each_says_what_is_true(self):
        shown = dict(re.findall(r"\[!\[(\w[^:\]]*): ([^\]]+)\]\(docs/pictures/badges/\w+\.svg\)\]", read("README.md")))
        self.assertEqual(set(shown), {"version", "license", "PyTorch", "C++"})
        self.assertIn("\n## %s" % shown["version"], read("CHANGELOG.md"))
        self.assertTrue(read("LICENSE").startswith("%s License" % shown["license"].replace("BSD-3", "BSD 3")))
        tried = re.search(r"The series that\s+are tried are ([^:]+):", read("docs/python.md"))[1]
        self.assertEqual(shown["PyTorch"], ", ".join(re.findall(r"\b\d\.\d+\b(?!\.)", re.sub(r"\([^)]*\)", "", tried))))
        self.assertIn("set(CMAKE_CXX_STANDARD %s)" % shown["C++"], read("CMakeLists.txt"))

    def test_each_picture_says_what_its_text_says_and_fetches_nothing(self):
        badges = re.findall(r"\[!\[([^\]]+)\]\((docs/pictures/badges/\w+\.svg)\)\]\(([^)]+)\)", read("README.md"))
        self.assertEqual(sorted(path for _, path, _ in badges),
                         sorted("docs/pictures/badges/" + name for name in os.listdir(os.path.join(ROOT, "docs", "pictures", "badges"))))
        for text, path, target in badges:
            picture = read(path)
            self.assertEqual(": ".join(re.findall(r"<text [^>]*>([^<]+)</text>", picture)), text)
            self.assertEqual(re.findall(r"https?://[^\"]+", picture), ["http://www.w3.org/2000/svg"])
            self.assertTrue(os.path.exists(os.path.join(ROOT, target)), target)


class Files(unittest.TestCase):
    @HAS_YAML
    def test_the_citation_has_the_version_of_the_project(self):
        version = re.search(r"project\(lockstep VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
        citation = yaml_of("CITATION.cff")
        self.assertEqual((citation["version"], citation["license"]), (version, "BSD-3-Clause"))

    def test_the_index_for_models_names_pages_that_exist(self):
        pages = re.findall(r"\]\(([^)]+)\)", read("llms.txt"))
        self.assertGreater(len(pages), 10)
        for page in pages:
            self.assertTrue(os.path.exists(os.path.join(ROOT, page)), page)


if __name__ == "__main__":
    unittest.main()
