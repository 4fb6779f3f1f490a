#!/usr/bin/env python3
"""Checks the site of ./lockstep docs: every public symbol of ddp/ and of the package for Python is in its reference, and a broken
link fails the build; the demonstrations' pages, of the program that LOCKSTEP_PROGRAM names, are on it. Building takes .venv-docs; without
it that part is skipped."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SITE = os.path.join(ROOT, "docs", "site")
PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "")
BUILDER = os.path.join(ROOT, ".venv-docs", "bin", "python")
sys.path.insert(0, SITE)

import api_headers
import api_python
import build


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


def at_the_margin(header):
    """The names that a header declares, by its lines without indentation: clang-format has each declaration begin there."""
    names = set()
    for line in header.partition("\nnamespace lockstep {\n")[2].split("\n"):
        found = (re.match(r"(?:class|struct|enum class|concept) (?:\[\[nodiscard\]\] )?(\w+)(?! ?(?:: \w+)?;$)\b", line) or re.match(r"using (\w+) =", line) or
                 re.match(r"TORCH_MODULE\((\w+)\)", line) or
                 re.match(r"(?!class|struct|using|template|namespace|//|#|TORCH_|\}|\s)[\w:<>,*& \[\]]*?[ *&](\w+)\(", line) or
                 re.match(r"inline constexpr \w+ (\w+)", line))
        if found:
            names.add(found[1])
    return names


class Reference(unittest.TestCase):
    def test_every_declaration_of_every_public_header_has_a_heading(self):
        pages = api_headers.pages(ROOT)
        headers = sorted(folder + "/" + name for folder in ("ddp", "train") for name in os.listdir(os.path.join(ROOT, folder))
                         if name.endswith(".h"))
        self.assertEqual(sorted(api_headers.public_headers(ROOT)), headers)
        count = 0
        for name in headers:
            declared = at_the_margin(read(name))
            shown = set(re.findall(r"(?m)^## (\w+)$", pages["api/" + name[:-2] + ".md"]))
            self.assertEqual(shown, declared, name)
            count += len(declared)
        self.assertGreater(count, 80)

    def test_every_public_member_is_shown_and_no_private_one(self):
        for name in api_headers.public_headers(ROOT):
            page, access = api_headers.page_of(ROOT, name), None
            for line in read(*name.split("/")).partition("\nnamespace lockstep {\n")[2].split("\n"):
                if re.match(r"class|struct", line):
                    access = "private" if line.startswith("class") else "public"
                elif line[:1] not in ("", " "):
                    access = None
                elif label := re.match(r" (public|private|protected):", line):
                    access = label[1]
                member = re.match(r"  (?!//)[^ ].*?\b(\w+)\(", line)
                if member and access == "public":
                    self.assertRegex(page, r"\b%s\(" % member[1], name)
                field = re.match(r"  [\w:<>, *]+ (\w+_);", line)
                if field and access == "private":
                    self.assertNotRegex(page, r"(?m)^  [\w:<>, *]+ %s;" % field[1], name)

    def test_bodies_and_initialisers_are_left_out(self):
        code = "class A : public B {\n public:\n  A(int x) : x_(x), y_(1) {}\n  int f(C c = {}) const { return g({1}); }\n\n  int z = 1;\n\n private:\n  int x_;\n};"
        self.assertEqual(api_headers.without_private_parts(api_headers.without_bodies(code)),
                         "class A : public B {\n public:\n  A(int x);\n  int f(C c = {}) const;\n\n  int z = 1;\n};")

    def test_every_public_name_of_python_has_its_signature_and_docstring(self):
        page = api_python.pages(ROOT)["api/python.md"]
        for folder in (api_python.PACKAGE, api_python.RECORDER):
            names = next(ast.literal_eval(each.value) for each in ast.parse(read(folder, "__init__.py")).body
                         if isinstance(each, ast.Assign) and each.targets[0].id == "__all__")
            if "strategies" in names:
                names.remove("strategies")  # a module
                names += ["strategies." + name for name in ("Batch", "Model", "batches", "models", "splits", "worlds")]
            for name in names:
                heading = "## %s.%s\n\n```python\n" % (os.path.basename(folder), name)
                self.assertIn(heading, page)
                entry = page.partition(heading)[2].partition("\n## ")[0]
                self.assertRegex(entry, r"\A(?:def|class) %s\b|\A%s = " % (name.rpartition(".")[2], name))
                if not entry.startswith(name):
                    self.assertRegex(entry, r"```\n\n\S", "no docstring of " + name)


@unittest.skipUnless(os.path.exists(BUILDER), "there is no .venv-docs: ./lockstep docs makes it")
class Site(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep site ")
        self.addCleanup(shutil.rmtree, self.folder)

    def site_of(self, root, program=""):
        return subprocess.run([BUILDER, "-B", os.path.join(SITE, "build.py"), "--root", root, "--out", os.path.join(self.folder, "out"),
                               "--source", os.path.join(self.folder, "source"), "--program", program],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=250)

    def read_of_site(self, *names):
        with open(os.path.join(self.folder, "out", *names), encoding="utf-8") as file:
            return file.read()

    def small_tree(self, readme):
        """A folder with this tree's files and another README."""
        tree = os.path.join(self.folder, "tree")
        shutil.rmtree(tree, ignore_errors=True)
        os.mkdir(tree)
        for name in os.listdir(ROOT):
            if name not in ("README.md", "build") and not name.startswith("."):
                os.symlink(os.path.join(ROOT, name), os.path.join(tree, name))
        with open(os.path.join(tree, "README.md"), "w", encoding="utf-8") as file:
            file.write(readme)
        return tree

    def test_the_tree_has_no_broken_link_and_every_page_is_on_the_site(self):
        built = self.site_of(ROOT, PROGRAM)
        self.assertEqual(built.returncode, 0, built.stdout)
        self.assertIn('href="docs/demonstrations.html"', self.read_of_site("index.html"), "the navigation")
        self.assertIn('href="demonstrations.html"', self.read_of_site("docs", "demos.html"))
        if PROGRAM:
            listed = set(re.findall(r'href="demonstrations/([\w-]+)\.html"', self.read_of_site("docs", "demonstrations.html")))
            named = set(re.findall(r"(?m)^\| `(\w+)` \|", read("docs", "demos.md")))
            self.assertLessEqual(named | {"belief-1", "belief-32", "index"}, listed)
            for name in listed:
                self.assertIn("<svg", self.read_of_site("docs", "demonstrations", name + ".html") if name != "index" else "<svg", name)
        for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
            for name in names:
                if name.endswith(".md"):
                    path = os.path.relpath(os.path.join(folder, name), ROOT)[:-3] + ".html"
                    self.assertTrue(os.path.exists(os.path.join(self.folder, "out", path.replace("README.html", "index.html"))), path)
        for path in ("index.html", "api/python.html", "api/ddp/join.html"):
            with open(os.path.join(self.folder, "out", path), encoding="utf-8") as file:
                text = file.read()
            self.assertNotRegex(text, r'(?:src|href)="https?://(?!github\.com|squidfunk)[^"]*\.(?:js|css|woff2?)"', path)
        with open(os.path.join(self.folder, "out", "search", "search_index.json"), encoding="utf-8") as file:
            self.assertIn("throw_on_early_termination", file.read())

    def test_a_broken_link_and_a_broken_anchor_fail_it(self):
        for link, said in (("docs/nowhere.md", "docs/nowhere.md"), ("docs/judge.md#nowhere", "no such anchor|nowhere")):
            built = self.site_of(self.small_tree("# It\n\n[there](%s)\n" % link))
            self.assertEqual(built.returncode, 1, built.stdout)
            self.assertRegex(built.stdout, said)


class Demonstrations(unittest.TestCase):
    def problems(self, pages):
        """The problems with these pages, where a program writes them in place of demonstrations."""
        with tempfile.TemporaryDirectory(prefix="lockstep site ") as folder:
            os.mkdir(os.path.join(folder, "docs"))
            program = os.path.join(folder, "program")
            with open(program, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nmkdir -p \"$4\"\n" + "".join("cat > \"$4\"/%s <<'.'\n%s\n.\n" % each for each in pages.items()))
            os.chmod(program, 0o755)
            return build.make_demonstrations(program, folder)

    def test_a_broken_link_and_a_page_that_no_list_has_are_problems(self):
        index = '<dt><a href="a.html">a</a>\n: shows a</dt>'
        self.assertEqual(self.problems({"index.html": index, "a.html": '<a href="index.html#x">all</a>'}), [])
        self.assertEqual(self.problems({"index.html": index, "a.html": '<a href="b.html">b</a>'}), ["a.html links to b.html, which is not there"])
        self.assertEqual(self.problems({"index.html": index, "a.html": "", "c.html": ""}), ["c.html is not in the list of demonstrations"])
        self.assertEqual(self.problems({"index.html": index}), ["index.html links to a.html, which is not there"])

    def test_a_program_that_writes_nothing_is_a_problem(self):
        self.assertRegex(self.problems({})[0], "index.html was not written")


if __name__ == "__main__":
    unittest.main()
