#!/usr/bin/env python3
"""The code of docs/course: each page's PyTorch runs as its page says and prints what it shows, and so does its C++, of which
COURSE_STEPS names the program. LOCKSTEP_APPROVE=1 writes outputs anew. PyTorch takes .venv-peer; without it those tests are
skipped."""

import importlib.machinery
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from program_case import APPROVE, HERE, PROGRAM, UNSTABLE, ProgramCase

ROOT = os.path.dirname(os.path.dirname(HERE))
COURSE = os.path.join(ROOT, "docs", "course")
PEER = os.path.join(ROOT, ".venv-peer", "bin")
STEPS = os.environ.get("COURSE_STEPS", "")
PYTHON = re.compile(r"\*\*Run it\.\*\* `(?P<command>[^`]+)`.*?```python\n(?P<code>.*?)```\n\nprints\n\n```text\n(?P<output>.*?)```\n",
                    re.DOTALL)
CPP = re.compile(r"<summary>The same in C\+\+</summary>\n.*?```cpp\n(?P<code>.*?)```\n(?:\nprints\n\n```text\n(?P<output>.*?)```\n)?"
                 r"\n</details>", re.DOTALL)
JUDGED = re.compile(r"```sh\n\./lockstep record -- (?P<command>[^\n]+)\n\./lockstep judge recorded\n```\n\n```text\n(?P<output>.*?)```\n",
                    re.DOTALL)
# An error of a peer that left: when it was seen, and Gloo's words for it.
UNSTABLE_HERE = UNSTABLE + ((r"after \d+ ms", "after SOME ms"), (r"\(\[/pytorch/[^)]*\)", "(GLOO)"))
LINES_MOST = 20  # Of PyTorch, beside imports and the process group.
PAST_RANKS = 1000  # Lines of no rank come last.
PATIENCE_S = 280


def stable(text):
    for pattern, stands in UNSTABLE_HERE:
        text = re.sub(pattern, stands, text)
    return text


def by_rank(text):
    """The lines, those of a rank in its order, since ranks print at the same time. Sorting keeps the order of equals."""
    def rank_of(line):
        found = re.match(r"rank (\d+)[:,]", line)
        return int(found[1]) if found else PAST_RANKS

    return "".join(sorted(text.splitlines(keepends=True), key=rank_of))


class CourseCode(ProgramCase):
    def pages(self):
        return sorted(name for name in os.listdir(COURSE) if re.match(r"\d\d-", name))

    def read(self, page):
        with open(os.path.join(COURSE, page), encoding="utf-8") as file:
            return file.read()

    def check(self, page, pattern, group, text):
        """The page shows this text, or is approved to."""
        shown = self.read(page)
        found = pattern.search(shown)
        if APPROVE and stable(found[group]) != stable(text):
            with open(os.path.join(COURSE, page), "w", encoding="utf-8") as file:
                file.write(shown[:found.start(group)] + text + shown[found.end(group):])
            return
        self.assertEqual(stable(found[group]), stable(text), page)

    def run_here(self, *command, statuses=(0,), **environment):
        # PyTorch 2.11 aborts now and then as a process ends that has destroyed a group of Gloo, after all that it printed.
        for _ in range(3):
            ended = subprocess.run(command, cwd=self.folder, env={**self.environment, **environment}, text=True, check=False,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
            if ended.returncode in statuses or "terminate called without an active exception" not in ended.stderr:
                break
        self.assertIn(ended.returncode, statuses, ended.stdout + ended.stderr)
        return ended.stdout

    def run_pytorch(self, *command):
        """With the peer's programs; its temporary files, which PyTorch leaves, go with the folder."""
        return self.run_here(*command, PATH=PEER + os.pathsep + self.environment["PATH"], TMPDIR=self.folder)

    def save(self, page):
        """(the command of a page, whose file this writes)"""
        found = PYTHON.search(self.read(page))
        command = shlex.split(found["command"])
        with open(os.path.join(self.folder, command[-1]), "w", encoding="utf-8") as file:
            file.write(found["code"])
        return command

    @unittest.skipUnless(os.path.exists(PEER), "there is no .venv-peer: ./lockstep setup --peer makes it")
    def test_the_pytorch_of_each_page_prints_what_the_page_shows(self):
        for page in self.pages():
            with self.subTest(page):
                out = self.run_pytorch(*self.save(page))
                self.check(page, PYTHON, "output", by_rank(out))

    def test_the_pytorch_of_each_page_is_about_ten_lines(self):
        for page in self.pages():
            lines = [line for line in PYTHON.search(self.read(page))["code"].splitlines() if line.strip()]
            own = [line for line in lines if not re.match(r"import|from|dist\.(init|destroy)_process_group", line)]
            self.assertLessEqual(len(own), LINES_MOST, page)

    def test_a_file_that_a_page_has_saved_hides_no_module_of_python(self):
        outside = [path for path in sys.path if not os.path.abspath(path).startswith(os.path.join(ROOT, "tests"))]
        for page in self.pages():
            name = shlex.split(PYTHON.search(self.read(page))["command"])[-1][:-len(".py")]
            self.assertNotIn(name, sys.builtin_module_names, page)
            self.assertIsNone(importlib.machinery.PathFinder.find_spec(name, outside), page)

    def test_the_cpp_of_each_page_prints_what_its_pytorch_does(self):
        for number, page in enumerate(self.pages(), 1):
            with self.subTest(page):
                command = shlex.split(PYTHON.search(self.read(page))["command"])
                ranks = command[command.index("--nproc-per-node") + 1] if "--nproc-per-node" in command else "1"
                out = self.run_here(PROGRAM, "launch", "-n", ranks, STEPS, str(number))
                out = by_rank(re.sub(r"(?m)^\[\d+\] ", "", out))
                pattern = CPP if CPP.search(self.read(page))["output"] is not None else PYTHON
                self.check(page, pattern, "output", out)

    @unittest.skipUnless(os.path.exists(PEER), "there is no .venv-peer: ./lockstep setup --peer makes it")
    def test_the_last_step_is_judged_as_its_page_shows(self):
        page = self.pages()[-1]
        self.assertEqual(shlex.split(JUDGED.search(self.read(page))["command"]), self.save(page))
        self.run_pytorch(PROGRAM, "record", "--", *self.save(page))
        out = self.run_here(PROGRAM, "judge", "recorded", statuses=(1,))
        self.check(page, JUDGED, "output", out.replace(PROGRAM, "./lockstep"))
        shutil.rmtree(os.path.join(self.folder, "recorded"))
        self.run_here(PROGRAM, "launch", "-n", "2", "--record", "recorded", STEPS, str(len(self.pages())))
        in_cpp = self.run_here(PROGRAM, "judge", "recorded", statuses=(1,))
        failed = re.compile(r"(?m)^  FAIL +[\d.]+s  (\S+)")
        self.assertEqual(failed.findall(in_cpp), failed.findall(out))
        self.assertEqual(failed.findall(out), ["data.order_changes"])



if __name__ == "__main__":
    unittest.main()
