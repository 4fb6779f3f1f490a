"""Every rule of tidy.py finds the mistake it is there for, and leaves its neighbours alone."""

import contextlib
import io
import os
import shutil
import tempfile
import unittest

import tidy
from tree import Tree

# In halves, or the rules would find them here.
NOTE, PLACE = "TO" + "DO", "/wo" + "rk/"

# A small tree that keeps every rule.
GOOD = {
    "CMakeLists.txt": "project(lockstep)\nadd_subdirectory(ddp)\nadd_subdirectory(tests)\n",
    "ddp/CMakeLists.txt": "lockstep_library(lockstep_ddp SOURCES reducer.cpp)  # not gone.cpp\n",
    "ddp/reducer.h": "#pragma once\n",
    "ddp/reducer.cpp": '#include "ddp/reducer.h"\n',
    "tests/CMakeLists.txt": "add_subdirectory(ddp)\n",
    "tests/ddp/CMakeLists.txt": "lockstep_test(ddp_test SOURCES reducer_test.cpp)\n",
    "tests/ddp/reducer_test.cpp": '#include "ddp/reducer.h"\n',
}


def path_of(total, *files):
    """A page whose reading path has these files, each with its number of lines."""
    rows = "".join("| [`{0}`](../{0}) | {1} | it |\n".format(*each.split()) for each in files)
    return f"# A\n## The evening's path\n{total}\n|-|-|-|\n{rows}\n## B\n| [`x`](../x) | 1 | y |\n"


# (rule, the files of a tree that breaks it, where it must be seen)
MISTAKES = [
    ("include_direction", {"ddp/a.h": "", "reference/a.cpp": '#include "ddp/a.h"\n'}, "reference/a.cpp:1"),
    ("include_direction", {"harness/campaign/a.h": "", "harness/base/b.h": '\n#include "../campaign/a.h"\n'},
     "harness/base/b.h:2"),
    ("include_direction", {"harness/worlds/a.h": "", "harness/process/b.h": "#include <harness/worlds/a.h>\n"},
     "harness/process/b.h:1"),
    ("include_direction", {"harness/worlds/a.h": "", "harness/campaign/b.h": '#include "harness/worlds/a.h"\n'},
     "harness/campaign/b.h:1"),
    ("include_direction", {"harness/worlds/a.h": "", "harness/rank/b.h": '#include "harness/worlds/a.h"\n'},
     "harness/rank/b.h:1"),
    ("include_direction", {"harness/rank/a.h": "", "harness/process/b.h": '#include "harness/rank/a.h"\n'},
     "harness/process/b.h:1"),
    ("include_direction", {"ddp/a.h": "", "harness/accelerator/b.cpp": '#include "ddp/a.h"\n'},
     "harness/accelerator/b.cpp:1"),
    ("include_direction", {"harness/rank/tap.h": "", "scenarios/b.cpp": '#include "harness/rank/tap.h"\n'},
     "scenarios/b.cpp:1"),
    ("include_direction", {"ddp/a.h": "", "scenarios/subjects/c10d.cpp": '#include "ddp/a.h"\n'},
     "scenarios/subjects/c10d.cpp:1"),
    ("include_direction", {"train/lockstep/ddp.h": "", "harness/campaign/b.cpp": '#include "lockstep/ddp.h"\n'},
     "harness/campaign/b.cpp:1"),
    ("include_direction", {"ddp/attic/a.h": "", "cli/a.h": "", "python/b.cpp": '#include "cli/a.h"\n'}, "ddp/attic/a.h:1 python/b.cpp:1"),
    ("include_direction", {"ddp/reducer/a.h": "", "ddp/comm/b.cpp": '#include "ddp/reducer/a.h"\n'}, "ddp/comm/b.cpp:1"),
    ("include_direction", {"harness/campaign/a.h": "", "reports/b.h": '#include "harness/campaign/a.h"\n'},
     "reports/b.h:1"),
    ("include_direction", {"ddp/a.h": "", "cli/commands/run.cpp": '#include "ddp/a.h"\n'}, "cli/commands/run.cpp:1"),
    ("include_direction", {"ddp/init.h": "", "cli/run/launched.cpp": '#include "ddp/init.h"\n'}, "cli/run/launched.cpp:1"),
    ("include_direction", {"ddp/backend/a.h": "", "cli/commands/doctor.cpp": '#include "ddp/backend/a.h"\n',
                           "harness/worlds/devices/cuda_backends.cpp": '#include "ddp/backend/a.h"\n',
                           "harness/of_tomorrow/a.h": '#include "ddp/backend/a.h"\n'},
     "cli/commands/doctor.cpp:1 harness/of_tomorrow/a.h:1 harness/worlds/devices/cuda_backends.cpp:1"),
    ("include_direction", {"tests/verdict/a.h": "", "bench/b.cpp": '#include "tests/verdict/a.h"\n'}, "bench/b.cpp:1"),
    ("full_folder", {f"cli/run/{number}.md": "# N\n" for number in range(36)}, "cli/run:1"),
    ("torch_free", {"harness/base/a.h": "/* why\n */\n#include <ATen/ATen.h>\n"}, "harness/base/a.h:3"),
    ("torch_free", {"cli/commands/shard.cpp": "#include <torch/torch.h>\n"}, "cli/commands/shard.cpp:1"),
    ("torch_free", {"harness/accelerator/stream_order.h": "#include <c10/core/Stream.h>\n"},
     "harness/accelerator/stream_order.h:1"),
    ("torch_free", {"ddp/rendezvous/launcher.h": "#include <torch/torch.h>\n"}, "ddp/rendezvous/launcher.h:1"),
    ("torch_free", {"harness/rank/journal.h": "#include <torch/torch.h>\n"}, "harness/rank/journal.h:1"),
    ("fragile_headers", {"ddp/a.cpp": "#include <gloo/context.h>\n",
                         "ddp/backend/b.cpp": "#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>\n"},
     "ddp/backend/b.cpp:1"),
    ("fragile_headers", {"harness/worlds/a.h": "#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>\n"},
     "harness/worlds/a.h:1"),
    ("unlisted_source", {"ddp/hooks/fp16.cpp": ""}, "ddp/hooks/fp16.cpp:1"),
    ("unlisted_source", {"ddp/b.cpp": "", "tests/CMakeLists.txt": "x(../ddp/b.cpp)\nadd_subdirectory(ddp)\n"},
     "ddp/b.cpp:1"),
    ("unlisted_source", {"tests/ddp/test_more.py": ""}, "tests/ddp/test_more.py:1"),
    ("listed_source", {"ddp/CMakeLists.txt": "x(\n  reducer.cpp\n  gone.cpp)\n"}, "ddp/CMakeLists.txt:3"),
    ("unlisted_folder", {"ddp/hooks/CMakeLists.txt": ""}, "ddp/hooks/CMakeLists.txt:1"),
    ("exit", {"ddp/a.cpp": "void f() {\n  if (x) exit(1);\n  else std::exit(2);\n}\n", "train/b.cpp": "exit(1);\n", "python/c.cpp": "exit(1);\n"},
     "ddp/a.cpp:2 ddp/a.cpp:3 python/c.cpp:1 train/b.cpp:1"),
    ("_exit", {"harness/worlds/a.cpp": "  ::_exit(1);\n"}, "harness/worlds/a.cpp:1"),
    ("fork", {"harness/worlds/a.cpp": "const pid_t child = fork();\nif (::fork() == 0) f();\n"},
     "harness/worlds/a.cpp:1 harness/worlds/a.cpp:2"),
    ("sleep", {"tests/a.cpp": "\nstd::this_thread::sleep_for(1s);\n", "ddp/rendezvous/store_at.cpp": "usleep(1);\n"},
     "ddp/rendezvous/store_at.cpp:1 tests/a.cpp:2"),
    ("thread", {"ddp/a.cpp": "std::thread t(f);\nauto x = std::async(f);\n", "train/b.cpp": "std::thread t(f);\n"}, "ddp/a.cpp:1 ddp/a.cpp:2 train/b.cpp:1"),
    ("print", {"ddp/a.cpp": 'std::cout << 1;\nstd::printf("1");\n', "train/b.cpp": "std::cout << 1;\n"}, "ddp/a.cpp:1 ddp/a.cpp:2 train/b.cpp:1"),
    ("gate", {"cli/a.cpp": "std::cout << 1;\nstd::cerr << 1;\n"}, "cli/a.cpp:1 cli/a.cpp:2"),
    ("shell", {"harness/a.cpp": 'int x = system("ls");\nFILE* f = popen("ls", "r");\n'},
     "harness/a.cpp:1 harness/a.cpp:2"),
    ("rand", {"scenarios/a.cpp": "int x = 1 + f(rand());\n  srand(1);\n"}, "scenarios/a.cpp:1 scenarios/a.cpp:2"),
    ("harness_only", {"ddp/a.cpp": "nlohmann::json j;\n\nauto g = rc::gen::just(1);\n"}, "ddp/a.cpp:1 ddp/a.cpp:3"),
    ("mt19937", {"scenarios/a.cpp": "std::mt19937_64 draw;\n"}, "scenarios/a.cpp:1"),
    ("assert", {"reports/a.cpp": "\n\n  assert(x > 0);\n"}, "reports/a.cpp:3"),
    ("skip_reason", {"tests/a.cpp": "GTEST_SKIP();\n"}, "tests/a.cpp:1"),
    ("tier_names", {"cli/a.cpp": 'if (tier == "sim") f();\nx = "cold" != y;\n'}, "cli/a.cpp:1 cli/a.cpp:2"),
    ("using_namespace", {"ddp/a.h": "#pragma once\nusing  namespace std;\n"}, "ddp/a.h:2"),
    ("pragma_once", {"ddp/a.h": "// #pragma once\n/*\n#pragma once\n*/\n"}, "ddp/a.h:1"),
    ("one_definition", {"ddp/a.h": "namespace lockstep {\nstruct A final : B<int> {\n};\n}\n",
                        "recorder/b.h": "namespace lockstep {\nvoid f() {\n}\nclass A {\n  int x;\n};\n}\n"}, "recorder/b.h:4"),
    ("todo", {"ddp/a.h": f"\n// {NOTE}: later\n", "tests/a.py": f"# {NOTE}(me)\n"}, "ddp/a.h:2 tests/a.py:1"),
    ("words", {"harness/base/a.cpp": "// The complaint of a rank.\nint parcel;\n"},
     "harness/base/a.cpp:1 harness/base/a.cpp:2"),
    ("words", {"harness/base/a.cpp": "class Play;\nstd::string objection;\nvoid tell_launcher();\nint standing_;\n"},
     "harness/base/a.cpp:1 harness/base/a.cpp:2 harness/base/a.cpp:3 harness/base/a.cpp:4"),
    ("words", {"ddp/a.h": "#pragma once\nint node_count();\nint master;\n", "harness/base/b.h": "int worker_id;\n"},
     "ddp/a.h:2 ddp/a.h:3 harness/base/b.h:1"),
    ("words", {"ddp/a.h": "#pragma once\n// Of a rank.\nint a;\n// A rank says\n// What it has.\nint b;\n  // What is it.\n"},
     "ddp/a.h:2 ddp/a.h:7"),
    ("words", {"tests/a_test.cpp": "// Whose it is.\nint a;\n// Why.\n//\n// Those that came.\nint b;\n", "recorder/a.cpp": "// That it is on.\n"},
     "recorder/a.cpp:1 tests/a_test.cpp:1 tests/a_test.cpp:5"),
    ("words", {"python/a.py": '"""What it does."""\n\nx = 1\n# Of a rank.\n', "tests/a.py": '#!/usr/bin/env python3\n"""Whoever calls."""\n'},
     "python/a.py:1 python/a.py:4 tests/a.py:2"),
    ("words", {"ddp/a.cpp": 'throw UsageError("the meeting point");\n'}, "ddp/a.cpp:1"),
    ("words", {"tests/a_test.cpp": "TEST(A, RanksAreToldWhy) {\n", "tests/b.py": "def test_a_rank_hears_of_it(self):\n"}, "tests/a_test.cpp:1 tests/b.py:1"),
    ("words", {"ddp/a.cpp": "// A rank is told.\n", "harness/base/a.h": "#pragma once\n// It goes on.\nint a;\n// By itself, by itself.\n"},
     "ddp/a.cpp:1 harness/base/a.h:2 harness/base/a.h:4"),
    ("words", {"recorder/a.cpp": "// A crew.\nstruct Programme;\n", "harness/base/a.cpp": "// of programmes\nint is_told;\nint told_late;\nclass Told;\n"},
     "harness/base/a.cpp:1 harness/base/a.cpp:2 harness/base/a.cpp:3 harness/base/a.cpp:4 recorder/a.cpp:1 recorder/a.cpp:2"),
    ("subjects", {"ddp/a.cpp": "// A rank says it. Whether it knows.\nint a;\n" + "int b;  // It is.\n" * 60}, "ddp:1"),
    ("long_file", {"ddp/a.cpp": "\n" * 301, "a script": "#!/bin/sh\n" + "\n" * 300}, "a script:301 ddp/a.cpp:301"),
    ("places", {"README.md": f"fine\nlook in {PLACE}main\n"}, "README.md:2"),
    ("patterns", {"scenarios/a.cpp": 'x(recorded_instead(\n    {"mixed", "text"}, v));\n'}, "scenarios/a.cpp:1"),
    ("patterns", {"harness/cases/judge.cpp": 'return {{"A rule must hold", "broken", "", ""}};\n'},
     "harness/cases/judge.cpp:1"),
    ("patterns", {"docs/patterns.md": "# P\n\n| `gone` | a sentence |\n", "harness/base/a.cpp": "// gone\n"},
     "docs/patterns.md:3"),
    ("patterns", {"docs/patterns.md": "| `mixed` | a sentence |\n| `one` | a sentence |\n",
                  "harness/verdict/relation.cpp": '\nRelation{"mixed", "one", "text"};\n',
                  "tests/verdict/a_test.cpp": 'EXPECT_EQ(x, "one");\n'}, "harness/verdict/relation.cpp:2"),
    ("patterns", {"harness/verdict/diagnose.cpp": 'return {named ? name : "new_one", text};\n'},
     "harness/verdict/diagnose.cpp:1 harness/verdict/diagnose.cpp:1"),
    ("reading_path", {"docs/architecture.md": "# A\n"}, "docs/architecture.md:1"),
    ("reading_path", {"docs/architecture.md": path_of("These 2 files: about 20 lines.", "ddp/a.h 12", "ddp/gone.h 10"), "ddp/a.h": "\n" * 10},
     "docs/architecture.md:3 docs/architecture.md:5 docs/architecture.md:6"),
    ("reading_path", {"docs/architecture.md": path_of("These 2 files: about 10 lines.", "ddp/a.h 10"), "ddp/a.h": "\n" * 10}, "docs/architecture.md:3"),
    ("reading_path", {"docs/architecture.md": path_of("Ten lines.", "ddp/a.h 10"), "ddp/a.h": "\n" * 10}, "docs/architecture.md:2"),
    ("reading_path", {"docs/architecture.md": path_of("These 1 files: about 1,050 lines.", "ddp/a.h 999"), "ddp/a.h": "\n" * 1000},
     "docs/architecture.md:3 docs/architecture.md:5"),
    ("file_tables", {"docs/architecture.md": "# A\n## Inside `ddp/`\n| `reducer` | x |\n| `one`, `two`• | x |\n", "ddp/one.cpp": "", "ddp/new.h": ""},
     "docs/architecture.md:2"),
    ("file_tables", {"docs/architecture.md": "# A\n## Inside `ddp/`\n| `reducer`• | x |\n", "ddp/reducer.h": '#include <ATen/ATen.h>\n'},
     "docs/architecture.md:2 docs/architecture.md:2"),
    ("named_files", {"ddp/a.h": "#pragma once\n// See ddp/gone.h.\n", "docs/a.md": "\n`ddp/a.h`, ddp/gone/b.cpp\n"}, "ddp/a.h:2 docs/a.md:2"),
    ("named_files", {"CONTRIBUTING.md": "`ddp/reducer.h`\n`reducer/gone.cpp`\n"}, "CONTRIBUTING.md:2"),
    ("named_files", {"ddp/a.cpp": "// Note [A rule] It is so.\nint a;\n// Notes [A rule] and\n// [Another\n// one]\n"}, "ddp/a.cpp:3"),
]

# (rule, the files of a tree that looks like breaking it and does not)
NEAR_MISSES = [
    ("include_direction", {
        "ddp/a.h": "", "reference/a.h": "", "harness/base/a.h": "", "harness/process/a.h": "", "harness/worlds/subject.h": "",
        "reference/b.cpp": '// #include "ddp/a.h"\n/*\n#include "ddp/a.h"\n*/\n#include "a.h"\n#include <vector>\n',
        "harness/worlds/b.cpp": '#include "harness/process/a.h"\n#include "harness/base/a.h"\n',
        "scenarios/b.cpp": '#include "harness/worlds/subject.h"\n#include "reference/a.h"\n',
        "scenarios/subjects/lockstep.cpp": '#include "ddp/a.h"\n',
        "cli/commands/shard.cpp": '#include "ddp/a.h"\n',
        "ddp/rendezvous/launcher.h": "", "cli/run/launched.cpp": '#include "ddp/rendezvous/launcher.h"\n',
        "bench/b.cpp": '#include "ddp/a.h"\n',
        "tests/ddp/b.cpp": '#include "ddp/a.h"\n#include "reference/a.h"\n'}),
    ("torch_free", {"harness/worlds/a.cpp": "#include <torch/torch.h>\n", "cli/a.cpp": "// #include <c10/c10.h>\n"}),
    ("fragile_headers", {"ddp/a.cpp": "#include <gloo/context.h>\n#include <gloo/types.h>\n",
                         "harness/worlds/a.cpp": "#include <gloo/context.h>\n",
                         "tests/fake_cuda/a.h": "#include <nccl.h>\n"}),
    ("unlisted_source", {"ddp/CMakeLists.txt": "x(reducer.cpp hooks/a.cpp)", "ddp/hooks/a.cpp": "",
                         "tests/main.cpp": "", "cmake/a.cmake": "x(${PROJECT_SOURCE_DIR}/tests/main.cpp)"}),
    ("listed_source", {"ddp/CMakeLists.txt": "x(reducer.cpp ${CMAKE_CURRENT_BINARY_DIR}/made.cpp)  # gone.cpp\n"}),
    ("unlisted_folder", {"tests/consumer/CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(consumer)\n"}),
    ("exit", {"ddp/a.cpp": '// exit(1)\nx.exit(1); at_exit(2); w->exit(3);\nEvent exit(int code);\nf("exit(1)");\n'}),
    ("_exit", {"harness/process/a.cpp": "_exit(1);\n"}),
    ("fork", {"harness/worlds/a.cpp": "alone.fork();\npid_t Alone::fork() const;\n", "tests/a.cpp": "fork();\n"}),
    ("sleep", {"harness/base/a.cpp": "sleep_for(x);\n", "tests/a.cpp": "// sleep(1)\nint sleepy(int);\n",
               "ddp/base/waiting.cpp": "std::this_thread::sleep_for(x);\n"}),
    ("thread", {"ddp/base/waiting.h": "#pragma once\nstd::thread thread_;\n", "ddp/a.cpp": "std::this_thread::yield();\n",
                "harness/a.cpp": "std::thread t(f);\n"}),
    ("print", {"cli/a.cpp": "std::cout << 1;\n", "ddp/a.cpp": "std::snprintf(b, 1, f); std::cout.flush();\n"}),
    ("gate", {"cli/print.cpp": "std::cout << 1;\n", "cli/a.cpp": "std::cout.flush();\n"}),
    ("shell", {"harness/a.cpp": "#include <system_error>\nstd::system_error(e); x.system(1);\n"}),
    ("rand", {"scenarios/a.cpp": "auto x = torch::rand({2}); y = brand(1);\n"}),
    ("mt19937", {"reference/a.cpp": "at::mt19937 upstream(seed);\n"}),
    ("assert", {"ddp/a.cpp": "static_assert(true);\n// assert(x)\n"}),
    ("skip_reason", {"tests/a.cpp": 'GTEST_SKIP() << "no GPU";\n'}),
    ("tier_names", {"cli/a.cpp": 'std::string tier = "cold";\n', "scenarios/a.cpp": 'x == "sim";\n'}),
    ("using_namespace", {"ddp/a.cpp": "using namespace std;\n", "ddp/a.h": "// using namespace\nusing std::move;\n"}),
    ("one_definition", {"ddp/a.h": "namespace lockstep {\nstruct A {\n  struct B {\n  };\n};\nstruct B;\n}\n",
                        "ddp/a.cpp": "namespace lockstep {\nstruct A::C : A {};\n}\n",
                        "cli/b.h": "namespace lockstep {\nnamespace {\nstruct A {};\n}\nstruct A f() {\n}\n}\n",
                        "harness/base/c.h": "namespace lockstep::own {\ntemplate <class A>\nstruct B {\n};\n}\n"}),
    ("todo", {"ddp/a.h": f"// {NOTE}(#12): later\nint to{NOTE}s;\n"}),
    ("words", {"ddp/a.h": 'f("MASTER_ADDR"); std::shared_ptr<torch::autograd::Node> f; int nodename; // node\n',
               "ddp/a.cpp": "int node;\n"}),
    ("words", {"tests/a.cpp": "// A rank says\n// what it has, and\n// Of which.\nint whatever; // What follows code.\n",
               "tests/a.py": "# Whatever comes.\nx = '# What'\ndef test_an_untold_story_is_heard(self):\n", "scenarios/a.cpp": 'x.former_name = "join.are_told_late"; // untold\n'}),
    ("subjects", {"ddp/a.cpp": "// A rank says\n// What it has.\nint a;\n" + "// It is. So is it.\n\n" * 60 + "// Of it.\n",
                  "train/a.cpp": "// Of it.\n"}),
    ("long_file", {"ddp/a.cpp": "\n" * 300, "README.md": "\n" * 1000}),
    ("reading_path", {"docs/architecture.md": path_of("These 1 files: about 1,030 lines.", "docs/a.md 1000"), "docs/a.md": "\n" * 1000}),
    ("places", {"README.md": "a frame" + PLACE[1:] + "fine\n"}),
    ("patterns", {"docs/patterns.md": "| `mixed` | a sentence |\n| pattern | what is seen |\n",
                  "harness/verdict/explanations.cpp": 'Diagnosis{"mixed", "text"};\nfield("step", &Moment::step);\n',
                  "tests/verdict/a_test.cpp": 'EXPECT_EQ(x, "mixed");\n',
                  "tests/cli/toys/toys.cpp": 'recorded_instead({"toy_pattern", ""}, v);\n'}),
    ("named_files", {"CONTRIBUTING.md": "Write `ddp/NAME.cpp`; see `ddp/reducer.h`.\n", "docs/a.md": "torch/ddp/gone.h, `other/gone.py`\n",
                     "ddp/a.h": "#pragma once\n// Note [A rule of\n// two lines] is: x.\n", "ddp/a.cpp": "// Note [A rule of two lines]\nint a[1];\n"}),
]

RULES = {rule.__name__: rule for rule in tidy.RULES}


class EachRule(unittest.TestCase):
    def tree(self, files):
        root = tempfile.mkdtemp(prefix="lockstep-tidy-")
        self.addCleanup(shutil.rmtree, root)
        for path, text in files.items():
            place = os.path.join(root, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(text)
        return root

    def places(self, name, files):
        problems = RULES[name](Tree(self.tree({**GOOD, **files})))
        return " ".join(f"{problem.path}:{problem.line}" for problem in sorted(set(problems)))

    def test_it_sees_its_mistake(self):
        for rule, files, expected in MISTAKES:
            with self.subTest(rule=rule, files=files):
                self.assertEqual(self.places(rule, files), expected)

    def test_it_leaves_its_neighbours_alone(self):
        for rule, files in NEAR_MISSES:
            with self.subTest(rule=rule, files=files):
                self.assertEqual(self.places(rule, files), "")

    def test_it_has_a_mistake_and_a_reason(self):
        self.assertEqual({rule for rule, _, _ in MISTAKES}, set(RULES))
        for name, rule in RULES.items():
            self.assertTrue(rule.__doc__ or tidy.BANS[name][3])

    def test_the_good_tree_keeps_them_all(self):
        for name in RULES:
            with self.subTest(rule=name):
                self.assertEqual(self.places(name, {}), "")

    def test_a_list_of_long_files_that_outlived_its_reason_is_seen(self):
        tidy.LONG_FILES["ddp/reducer.cpp"] = "a reason"
        self.addCleanup(tidy.LONG_FILES.clear)
        self.assertEqual(self.places("long_file", {}), "ddp/reducer.cpp:1")


class TheReport(unittest.TestCase):
    tree = EachRule.tree

    def report(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as words:
            status = tidy.main(list(arguments))
        return status, words.getvalue()

    def test_it_names_place_rule_and_reason(self):
        status, words = self.report(self.tree({**GOOD, "ddp/reducer.h": ""}))
        self.assertEqual(status, 1)
        self.assertIn("ddp/reducer.h:1: pragma_once: this header lacks #pragma once\n", words)

    def test_a_tree_without_code_does_not_pass(self):
        self.assertEqual(self.report(self.tree({"README.md": "nothing"}))[0], 1)

    def test_a_good_tree_passes(self):
        status, words = self.report(self.tree(GOOD))
        self.assertEqual(status, 0, words)

    def test_a_file_that_clang_format_would_change_is_seen(self):
        files = {**GOOD, ".clang-format": "BasedOnStyle: Google\n", "ddp/reducer.cpp": "int  a;\n"}
        try:
            status, words = self.report("--format", self.tree(files))
        except SystemExit as skipped:
            self.assertEqual(skipped.code, 77)
            self.skipTest("clang-format 14 is not installed")
        self.assertEqual(status, 1)
        self.assertIn("ddp/reducer.cpp:1: formatted: ", words)


if __name__ == "__main__":
    unittest.main()
