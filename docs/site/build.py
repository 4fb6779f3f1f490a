#!/usr/bin/env python3
"""Builds the documentation of this tree as a site: ./lockstep docs.

usage: build.py [--out FOLDER] [--source FOLDER] [--program LOCKSTEP]

The pages are the Markdown of the tree, in their places, so that links between them hold on the site as they do here. A file that a page
links to is copied beside it; a folder gets a list of its files. A program that is built writes the demonstrations' pages. A broken link
ends this with 1.
"""

import argparse
import html
import logging
import os
import posixpath
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import api_headers
import api_python

FIRST = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
OWN_FILES = ("docs/site/iframe-worker.js", "docs/site/site.css")
DEMONSTRATIONS = "docs/demonstrations.md"
THEIR_PAGES = """# Demonstrations' pages

What `./lockstep demo all --html FOLDER` writes: a page each, with the right run, every usual mistake, and what to try next. Each is one
file, works without a network, and prints; [one list of them all](demonstrations/index.html) is theirs. [What they are](demos.md).

| page | shows |
|---|---|
"""
LINK_TO_THEM = "\n\n[Their pages](demonstrations.md) hold the right run of each, every usual mistake, and what to try next.\n\n"
NOT_MADE = """# Demonstrations' pages

This site was built beside no program, which writes them: `./lockstep build`, and then `./lockstep docs` again. [What they are](demos.md).
"""
# Code, or a link: what begins first is what it is.
CODE_OR_LINK = re.compile(r"(?ms)^```.*?^```|(?P<begin>!?\[[^\]]*\]\()(?P<target>[^)\s#]+)(?P<end>(?:#[^)\s]*)?\))|`[^`\n]+`")


def first_pages(root):
    """The pages from which every other file is reached."""
    yield from (name for name in FIRST if os.path.exists(os.path.join(root, name)))
    for folder, folders, names in os.walk(os.path.join(root, "docs")):
        folders[:] = sorted(name for name in folders if not name.startswith("__"))
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def listing(root, folder):
    """A page for a folder without a README: its files."""
    names = sorted(name for name in os.listdir(os.path.join(root, folder)) if not name.startswith(("__", ".")))
    rows = "".join("- [%s](%s)\n" % (name, name) for name in names if os.path.isfile(os.path.join(root, folder, name)))
    return "# %s\n\n%s" % (folder, rows)


class Staging:
    """A folder with all files of the site's source."""

    def __init__(self, root, folder):
        self.root, self.folder, self.waiting, self.done = root, folder, [], set()

    def write(self, path, text):
        target = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)

    def target_of(self, page, link):
        """A link of a page, as the site has it; its file will be there."""
        if "://" in link or link.startswith("mailto:"):
            return link
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
        here = os.path.join(self.root, path)
        if os.path.isdir(here):
            index = "README.md" if os.path.exists(os.path.join(here, "README.md")) else "index.md"
            path, link = posixpath.join(path, index), posixpath.join(link, index)
        if path not in self.done and not path.startswith("../"):
            self.done.add(path)
            self.waiting.append(path)
        return link

    def stage(self, path, text):
        """A page with its links."""
        self.write(path, CODE_OR_LINK.sub(
            lambda found: found["begin"] + self.target_of(path, found["target"]) + found["end"] if found["target"] else found[0], text))

    def run(self):
        self.waiting = [*first_pages(self.root), *OWN_FILES]
        self.done.update(self.waiting)
        while self.waiting:
            path = self.waiting.pop()
            here = os.path.join(self.root, path)
            if not os.path.exists(here):
                if os.path.basename(path) == "index.md":  # else the strict build names it
                    self.stage(path, listing(self.root, os.path.dirname(path)))
            elif path.endswith(".md"):
                with open(here, encoding="utf-8") as file:
                    text = file.read()
                self.stage(path, text.replace("\n\n", LINK_TO_THEM, 1) if path == "docs/demos.md" else text)
            else:
                os.makedirs(os.path.dirname(os.path.join(self.folder, path)), exist_ok=True)
                shutil.copy(here, os.path.join(self.folder, path))
        for path, text in {**api_headers.pages(self.root), **api_python.pages(self.root)}.items():
            self.stage(path, text)


def make_demonstrations(program, source):
    """The pages that the program writes, and one that lists them. Returns the problems with their links, a line each."""
    page, folder = os.path.join(source, *DEMONSTRATIONS.split("/")), os.path.join(source, "docs", "demonstrations")
    if not os.access(program, os.X_OK):
        with open(page, "w", encoding="utf-8") as file:
            file.write(NOT_MADE)
        return []
    made = subprocess.run([program, "demo", "all", "--html", folder], stdout=subprocess.DEVNULL, check=False)
    if made.returncode not in (0, 1):  # 1: a belief fails, as it is meant to
        return ["%s demo all ended with %d" % (program, made.returncode)]
    if not os.path.exists(os.path.join(folder, "index.html")):
        return ["%s demo all: index.html was not written" % program]
    texts = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            texts[name] = file.read()
    rows = []
    for name, lesson in re.findall(r'<dt><a href="([\w.-]+\.html)">[^<]*</a>\s*: ([^<]*)</dt>', texts["index.html"]):
        rows.append("| [%s](demonstrations/%s) | %s |\n" % (name[:-5], name, html.unescape(lesson).replace("|", "\\|")))
    with open(page, "w", encoding="utf-8") as file:
        file.write(THEIR_PAGES + "".join(rows))
    broken = ["%s links to %s, which is not there" % (name, target) for name, text in texts.items()
              for target in re.findall(r'href="([^"#:]+\.html)[^":]*"', text) if target not in texts]
    listed = "".join(rows)
    missing = [name + " is not in the list of demonstrations" for name in texts
               if name != "index.html" and "(demonstrations/%s)" % name not in listed]
    return broken + missing


def with_pages(nav, source):
    """The navigation with the pages of each folder, by number, in place of the folder."""
    if isinstance(nav, list):
        return [with_pages(each, source) for each in nav]
    if isinstance(nav, dict):
        return {title: with_pages(each, source) for title, each in nav.items()}
    if not nav.endswith("/"):
        return nav
    names = [name for name in os.listdir(os.path.join(source, nav)) if name.endswith(".md")]
    number = {name: int((re.match(r"\d+", name) or ["0"])[0]) for name in names}
    return [nav + name for name in sorted(names, key=lambda name: (number[name], name))]


def build(root, source, out, program):
    """Stages the source, and builds the site of it. Returns the exit status."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    shutil.rmtree(source, ignore_errors=True)
    Staging(root, source).run()
    problems = make_demonstrations(program, source)
    for problem in problems:
        print("lockstep docs: %s" % problem, file=sys.stderr)
    if problems:
        return 1
    config = load_config(os.path.join(HERE, "mkdocs.yml"), docs_dir=source, site_dir=out, strict=True)
    config["nav"] = with_pages(config["nav"], source)
    try:
        build_site(config)
    except Abort as error:
        print("lockstep docs: %s" % error, file=sys.stderr)
        return 1
    print("the site: %s" % os.path.relpath(os.path.join(out, "index.html")))
    return 0


def main():
    parser = argparse.ArgumentParser(description="Builds the documentation of this tree as a site.")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "site"), help="the site's folder")
    parser.add_argument("--source", default=os.path.join(ROOT, "build", "site-source"), help="the folder of its staged pages")
    parser.add_argument("--program", default="", help="a lockstep that is built, for the demonstrations' pages")
    parser.add_argument("--root", default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    return build(arguments.root, os.path.abspath(arguments.source), os.path.abspath(arguments.out), arguments.program)


if __name__ == "__main__":
    sys.exit(main())
