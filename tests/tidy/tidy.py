#!/usr/bin/env python3
"""Checks this tree against the rules of the house that no compiler checks.

usage: tidy.py [--format] [ROOT]

Each rule is one function of a tree that yields problems; its name is what the report calls it, and
its first line says why. With --format, clang-format is the only rule; where clang-format 14 is not
installed that ends with 77, which ctest reports as skipped.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter

from borders import ACCELERATOR, ARCHIVE, BASE, CAMPAIGN, INVARIANTS, JUDGED, LAUNCHER, MAY_INCLUDE, PROCESS, RANK, RECORDED, TIMELINE, WORLD
from definitions import one_definition
from named_files import named_files
from patterns import patterns
from reading_path import file_tables, reading_path
from tree import Problem, Tree, is_under, line_of
from words import subjects, words

STREAM_ORDER = (ACCELERATOR + "/stream_order.h", ACCELERATOR + "/stream_order.cpp")
RECORDS = tuple(f"{RANK}/{name}.{end}" for name in ("call_sites", "injector", "journal") for end in ("h", "cpp"))
FILES_OF_A_FOLDER = 35
DATA_FOLDERS = ("tests/mutants", "tests/cli/golden", "docs/matrix")
TORCH_FREE = JUDGED + (RECORDED, INVARIANTS, TIMELINE, ARCHIVE, PROCESS, CAMPAIGN, "reports", "cli") + STREAM_ORDER + RECORDS + LAUNCHER
FRAGILE = {"Gloo": re.compile(r"ProcessGroupGloo|^gloo/"), "NCCL": re.compile(r"ProcessGroupNCCL|^nccl")}

# Path -> why it may be longer than this.
LINES_MAX = 300
LONG_FILES = {
    "harness/base/fields_inl.h": "a type's description and the templates that make it, neither of which is of use without the other",
    "harness/cases/judge.cpp": "every kind of verdict, in its order of precedence",
    "scenarios/hooks/power_sgd_conserves.cpp": "one claim, whose ten checks read beside each other",
    "scenarios/averaging/sharded_optimizer_is_the_whole.cpp": "a divided optimizer and a whole one side by side, and the checks of both",
    "tests/tidy/tidy.py": "one list of rules and of their exceptions",
    "scenarios/cases/expect.cpp": "the expected steps, and what each mistake in averaging leaves in their place",
    "scenarios/gradients/match_single_process.cpp": "one case from claim to checks, as the reading path shows it",
    "scenarios/training/is_one_process.cpp": "the loop of the ranks and that of one process, and the checks of both",
    "tests/cases/judge_test.cpp": "a proposition for each way in which a case ends, on one toy",
    "harness/worlds/gloo/shared_memory_store.cpp": "the table and the store over it share one lock and one layout",
    "harness/rank/tap.cpp": "an override for each virtual of c10d::Backend; in one place none is missed",
    "demos/buckets.cpp": "a demonstration, its program and its bricks, which share one plan of buckets",
    "demos/overlap.cpp": "a demonstration, its program and its rows, which share the times of one pass",
    "tests/cli/test_browser.py": "every page in one browser, which takes seconds to start",
    "tests/python/features.py": "one function for each feature of torch.distributed, and the table of them",
}

# The code that may end a process on the spot: a forked child's last line, an injected exit, the second Ctrl-C.
ENDS_PROCESSES = (PROCESS, WORLD + "/forked", RANK + "/injector.cpp", "cli/interrupt.cpp",
                  "train/spawn")
OUR_CODE = ("ddp", "train", "reference", "harness", "recorder", "scenarios", "reports", "demos", "cli", "python", "bench", "examples")
# The files of ddp/ that may sleep and start threads.
WAITING = ("ddp/base/waiting.h", "ddp/base/waiting.cpp")
# A call at the start of a statement or within an expression, so that no member and no declaration
# of the same name is taken for it.
CALLED = r"(?:^|[;{{}}(),&|?!=]|(?<!:):|\breturn\b|\belse\b|\bdo\b)[ \t]*(?:(?:std)?::)?(?:{})[ \t]*\("
# name -> (what, where, except there, why not)
BANS = {
    "exit": (CALLED.format("exit|quick_exit"), OUR_CODE[:-2], ("python/hosted.cpp",),
             "a library throws or returns, it never ends the process"),
    "_exit": (CALLED.format("_exit|_Exit"), OUR_CODE[:-2], ENDS_PROCESSES,
              "only what forks or is told to end a process ends one"),
    "fork": (CALLED.format("fork|vfork"), ("harness", "cli"), (PROCESS + "/single_threaded.cpp",),
             "a fork beside other threads hangs: SingleThreaded::fork() is the proof that there are none"),
    "sleep": (r"\b(?:sleep|usleep|nanosleep|sleep_for|sleep_until)[ \t]*\(", ("ddp", "train", "tests"),
              WAITING, "time orders nothing: wait for the event itself, with a deadline"),
    "thread": (r"\bstd::(?:j?thread|async)\b|\bpthread_create\b", ("ddp", "train"), WAITING,
               "a thread that nobody waits for is a DetachableCall, of ddp/base/waiting.h"),
    "print": (r"\bstd::cout\b(?!\.flush)|(?<![\w.>])printf[ \t]*\(", ("ddp", "train", "reference", "harness"), ("train/collectives/print.cpp",),
              "stdout is the program's: return data and let reports/ render it"),
    "gate": (r"\bstd::c(?:out|err)\b(?!\.flush)", ("cli", "reports"), ("cli/print.cpp", "cli/output/github.cpp"),
             "text may come from a stranger: cli/print.h makes it legible, and no command to GitHub"),
    "shell": (CALLED.format("system|popen"), OUR_CODE, (),
              "no shell: start the program itself, with its arguments as a list"),
    "rand": (CALLED.format("rand|srand"), OUR_CODE + ("tests",), (),
             "hidden global state: draw from the case's seed"),
    "harness_only": (r"\bnlohmann\b|\brc::|\brapidcheck\b", ("ddp", "train", "reference"), (),
                     "the precompiled header shows JSON and RapidCheck to every file; they are the harness's"),
    "mt19937": (r"\bmt19937", ("ddp", "train", "scenarios"), (),
                "draw from the case's seed, by the documented generator"),
    "assert": (r"(?<!\w)assert[ \t]*\(", OUR_CODE + ("tests",), (),
               "NDEBUG makes it nothing: throw, or use a gtest assertion"),
    "skip_reason": (r"\bGTEST_SKIP[ \t]*\([ \t]*\)[ \t]*;", ("tests",), (),
                    'a skip says why: GTEST_SKIP() << "..."'),
}


def include_direction(tree):
    """An include against the directions of the house makes two folders one."""
    for path in tree.cpp:
        homes = [home for home in MAY_INCLUDE if is_under(path, (home,))]
        if not homes:
            continue
        home = max(homes, key=len)
        if home == "ddp" and path.count("/") > 1:
            yield Problem(path, 1, "is in a folder of ddp/ that has no floor: name one in borders.py")
        allowed = MAY_INCLUDE[home]
        for include in tree.includes(path):
            if include.target and not is_under(include.target, allowed + (path,)):
                yield Problem(path, include.line,
                              f"must not include {include.target}; it may include {', '.join(allowed)}")


def torch_free(tree):
    """One torch header makes a file that compiles in a second take twenty."""
    for path in tree.cpp:
        if is_under(path, TORCH_FREE):
            for include in tree.includes(path):
                if re.match(r"(torch|ATen|c10|gloo)/", include.name):
                    yield Problem(path, include.line, f"this folder is free of torch, and {include.name} is torch")


def fragile_headers(tree):
    """Gloo's and NCCL's headers are slow and change: one .cpp of a target includes them, no header."""
    for library, pattern in FRAGILE.items():
        first = {}
        for path in tree.cpp:
            unit = re.match(r"(?:harness/|tests/)?[^/]+/", path)
            for include in tree.includes(path):
                if not unit or not pattern.search(include.name) or is_under(path, ("tests/fake_cuda",)):
                    continue
                if path in tree.headers:
                    yield Problem(path, include.line, f"a header must not include {library}'s")
                elif first.setdefault(unit.group(), path) != path:
                    yield Problem(path, include.line, f"{first[unit.group()]} includes {library}'s headers already: "
                                  "one .cpp of a target does")


def _named_in(tree, lists):
    """The files that a CMakeLists.txt names, with the line that names them."""
    text = re.sub(r"#[^\n]*", "", tree.text[lists])
    folder = lists.rpartition("/")[0]
    for match in re.finditer(r"(?:\$\{\w+\}/)?[\w./+-]+\.(?:cpp|cc|cu|py)\b", text):
        name = match.group().replace("${PROJECT_SOURCE_DIR}/", "/").replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
        # A name in a .cmake file that does not start at the root is its caller's business.
        if "$" not in name and (name[0] == "/" or not lists.endswith(".cmake")):
            path = os.path.normpath(folder + "/" + name if name[0] != "/" else name).lstrip("/")
            yield path, line_of(text, match.start())
    for match in re.finditer(r"^SCENARIO\((\w+), (\w+), \w+\)", text, re.MULTILINE):
        yield f"{folder}/{match[1]}/{match[2]}.cpp", line_of(text, match.start())


LISTS = ("CMakeLists.txt", ".cmake", "scenarios/catalogue.def")


def _lists(tree, names=("CMakeLists.txt",)):
    return [path for path in tree.paths if path.endswith(names)]


def unlisted_source(tree):
    """A source that no CMakeLists.txt of its folder or above names is never compiled, a test never run."""
    named = {}
    for lists in _lists(tree, LISTS):
        for path, _ in _named_in(tree, lists):
            named.setdefault(path, []).append("" if lists.endswith(".cmake") else lists.rpartition("/")[0])
    for path in tree.paths:
        is_test = is_under(path, ("tests",)) and re.search(r"(^|/)(test_\w+|\w+_test)\.py$", path)
        if is_under(path, OUR_CODE + ("tests",)) and (path in tree.sources or is_test):
            if not any(not home or is_under(path, (home,)) for home in named.get(path, [])):
                yield Problem(path, 1, "no CMakeLists.txt of its folder or above names it")


def listed_source(tree):
    """A list that names what is not there has outlived a file."""
    for lists in _lists(tree, LISTS):
        for path, line in _named_in(tree, lists):
            if path not in tree.text:
                yield Problem(lists, line, f"names {path}, which is not there")


def unlisted_folder(tree):
    """A folder whose CMakeLists.txt no folder above adds is never built. Projects of their own aside."""
    for lists in _lists(tree):
        folder, _, name = lists.rpartition("/")[0].rpartition("/")
        above = (folder + "/" if folder else "") + "CMakeLists.txt"
        if name and above in tree.text and not re.search(r"^\s*project\s*\(", tree.text[lists], re.MULTILINE):
            code = re.sub(r"#[^\n]*", "", tree.text[above])
            if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code):
                yield Problem(lists, 1, f"{above} does not add this folder")


def full_folder(tree):
    """A folder of more files than a reader takes in at once has several subjects. Data aside, of which one file is like the next."""
    for folder, count in Counter(os.path.dirname(path) for path in tree.paths).items():
        if count > FILES_OF_A_FOLDER and folder not in DATA_FOLDERS:
            yield Problem(folder, 1, f"{count} files, at most {FILES_OF_A_FOLDER}: give the second subject a folder")


def _ban(name):
    pattern, where, except_there, why = BANS[name]
    wanted = re.compile(pattern, re.MULTILINE)

    def rule(tree):
        for path in tree.cpp:
            if is_under(path, where) and not is_under(path, except_there):
                code = tree.code(path)
                for match in wanted.finditer(code):
                    yield Problem(path, line_of(code, match.end() - 1), why)

    rule.__name__ = name
    return rule


def tier_names(tree):
    """Code that asks for a tier's name is wrong for the next tier: ask for its traits (harness/cases/tier.h)."""
    names = r'"(?:sim|warm|cold|launched)"'
    for path in tree.cpp:
        if is_under(path, ("harness", "cli", "reports")):
            for match in re.finditer(rf"[!=]= *{names}|{names} *[!=]=", tree.text[path]):
                yield Problem(path, line_of(tree.text[path], match.start()), "ask for the tier's traits, not its name")


def using_namespace(tree):
    """In a header it changes the names of everyone who includes it."""
    for path in tree.headers:
        code = tree.code(path)
        for match in re.finditer(r"\busing\s+namespace\b", code):
            yield Problem(path, line_of(code, match.start()), "a header must not say using namespace")


def pragma_once(tree):
    """Read twice, a header defines everything twice."""
    for path in tree.headers:
        if not re.search(r"^#pragma once$", tree.code(path), re.MULTILINE):
            yield Problem(path, 1, "this header lacks #pragma once")


def todo(tree):
    """A note to nobody is done by nobody."""
    for path in tree.paths:
        if path in tree.cpp or path.endswith((".py", ".cmake", ".sh", "CMakeLists.txt")):
            for match in re.finditer(r"\b(TO" + r"DO|FIX" + r"ME)\b(?!\(#\d+\))", tree.text[path]):
                yield Problem(path, line_of(tree.text[path], match.start()),
                              f"a {match.group()} names its issue: {match.group()}(#12)")


def long_file(tree):
    """Each tree's ugliest part is its biggest file; past this size it wants a reason."""
    for path in tree.paths:
        lines = tree.text[path].count("\n")
        code = path in tree.cpp or path.endswith((".py", ".sh")) or tree.text[path].startswith("#!")
        if code and lines > LINES_MAX and path not in LONG_FILES:
            yield Problem(path, LINES_MAX + 1, f"{lines} lines; past {LINES_MAX} a file needs a reason in tidy.py")
    for path in LONG_FILES:
        if path in tree.text and tree.text[path].count("\n") <= LINES_MAX:
            yield Problem(path, 1, "short enough again: take it off the list in tidy.py")


def places(tree):
    """A file that names where it was made, or whose mirror was used, works there alone."""
    # In halves, or this file would break the rule.
    names = [left + right for left, right in (
        ("/wo", "rk/"), ("/fa", "rm"), ("pypi", ".org"), ("python", "hosted"), ("deb.", "debian.org"))]
    for path in tree.paths:
        for number, line in enumerate(tree.text[path].splitlines(), 1):
            for name in names:
                if name in line:
                    yield Problem(path, number, f"'{name}' is a place of somebody's machine or network")


RULES = [include_direction, torch_free, fragile_headers, unlisted_source, listed_source, unlisted_folder, full_folder,
         *map(_ban, BANS), using_namespace, tier_names, one_definition, pragma_once, todo, words, subjects, long_file, places, patterns, reading_path,
         file_tables, named_files]


def formatted(tree):
    """clang-format reproduces the tree exactly. Other versions than 14 disagree with it and each other."""
    for name in ("clang-format-14", "clang-format"):
        tool = shutil.which(name)
        if tool and " version 14." in subprocess.run([tool, "--version"], capture_output=True, text=True,
                                                     check=True).stdout:
            result = subprocess.run([tool, "--dry-run", "-Werror", *tree.cpp], cwd=tree.root,
                                    capture_output=True, text=True, check=False)
            found = re.findall(r"^(.+?):(\d+):\d+: (?:error|warning)", result.stderr, re.MULTILINE)
            for path, line in dict(reversed(found)).items():  # the first of each file
                yield Problem(path, int(line), f"not as clang-format writes it: {name} -i {path}")
            return
    print("skipped: clang-format 14 is not installed")
    sys.exit(77)


def main(arguments):
    rules = [formatted] if "--format" in arguments else RULES
    roots = [argument for argument in arguments if argument != "--format"]
    tree = Tree(roots[0] if roots else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    if not tree.cpp:
        print(f"{tree.root}: no C++ file: this is no Lockstep tree")
        return 1
    found = 0
    for rule in rules:
        for problem in sorted(set(rule(tree))):
            print(f"{problem.path}:{problem.line}: {rule.__name__}: {problem.sentence}")
            found += 1
    print(f"{len(tree.paths)} files, {len(tree.cpp)} of them C++, {len(rules)} rules, {found} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
