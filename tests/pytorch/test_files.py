"""Files of a user's as subjects: bad ones, parts that are missing, the examples, and mistakes planted in
PyTorch's DistributedDataParallel from outside. LOCKSTEP names the program."""

import os
import re
import textwrap

from test_pytorch import ALL_SKIPPED, FAILED, MISSING, PROGRAM, ROOT, Case, run, unittest

USAGE = 2
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(ROOT, "examples", "bring_your_own", "python")

KNOWN_TO_PYTORCH = ["--set", "options.batched_grad_copy=false", "--set", "options.buffer_sync_lag=true"]


class OfFile(Case):
    def file(self, text, name="own.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def run_file(self, path, *arguments):
        status, said = run("run", *arguments, "--subject", "python:" + path, "--tier", "sim", "--seed", "7", "--cases", "6",
                           "--out", os.path.join(self.folder, "out"))
        self.assertNotIn("Symbolizer", said, "what finds the lines of stacks complained")
        return status, said


@unittest.skipIf(MISSING, MISSING)
class BadFiles(OfFile):
    def refused(self, path):
        """The error of a run that refuses the file before it runs anything."""
        status, said = self.run_file(path, "gradients")
        self.assertEqual(status, USAGE, said)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "out")), "a run was begun")
        self.assertEqual(said.count("\n"), 1, said)
        return said.strip()

    def test_one_that_is_missing(self):
        path = os.path.join(self.folder, "no.py")
        self.assertEqual(self.refused(path),
                         f"lockstep: subject python:{path}: {path} cannot be read: No such file or directory")

    def test_one_whose_path_no_output_shows(self):
        for mark in ("\x07", "\u202e", "\n"):
            said = self.refused(self.file("def wrap(model, process_group, options):\n    return model\n", "o" + mark + "wn.py"))
            self.assertTrue(said.endswith("its path holds a character that is not shown"), said)

    def test_one_that_is_no_python(self):
        said = self.refused(self.file("import os\n\ndef wrap(:\n    pass\n"))
        self.assertTrue(said.endswith("own.py, line 3: SyntaxError: invalid syntax"), said)

    def test_one_that_raises_as_it_is_imported(self):
        said = self.refused(self.file("def broken():\n    return 1 / 0\n\nbroken()\n"))
        self.assertTrue(said.endswith("own.py, line 2: ZeroDivisionError: division by zero"), said)

    def test_one_that_imports_what_is_not_there(self):
        said = self.refused(self.file("import not_installed_anywhere\n"))
        self.assertTrue(said.endswith("line 1: ModuleNotFoundError: No module named 'not_installed_anywhere'"), said)

    def test_one_that_exits(self):
        self.assertTrue(self.refused(self.file("import sys\nsys.exit(3)\n")).endswith("own.py, line 2: SystemExit: 3"))

    def test_one_with_another_signature(self):
        said = self.refused(self.file("def wrap(module):\n    return module\n"))
        self.assertIn("own.py: wrap cannot be called as wrap(module, process_group, options): ", said)

    def test_one_that_defines_nothing_of_it(self):
        self.assertIn("own.py defines none of wrap(module, process_group, options), ", self.refused(self.file("x = 1\n")))

    def test_one_that_starts_a_thread(self):
        said = self.refused(self.file("""
            import threading
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            def no_sync(module):
                return module.no_sync()
        """))
        self.assertIn("own.py starts a thread as it is imported", said)


@unittest.skipIf(MISSING, MISSING)
class Parts(OfFile):
    def test_a_part_that_is_missing_is_a_skip_with_its_reason(self):
        status, said = self.run_file(os.path.join(EXAMPLES, "strided_sampler.py"), "gradients.undefined")
        self.assertEqual(status, ALL_SKIPPED, said)
        self.assertIn("strided_sampler.py defines no wrap(module, process_group, options)", said)

    def test_an_option_that_is_not_read_is_not_judged(self):
        status, said = self.run_file(os.path.join(EXAMPLES, "average_after_backward.py"), "gradients.match", "--set",
                                     "options.broadcast_buffers=false", *KNOWN_TO_PYTORCH)
        self.assertEqual(status, ALL_SKIPPED, said)
        self.assertIn('wrap of average_after_backward.py does not read options["broadcast_buffers"]', said)

    def test_what_is_not_implemented_is_not_judged(self):
        path = self.file("""
            def wrap(module, process_group, options):
                raise NotImplementedError("not today")
        """)
        status, said = self.run_file(path, "gradients.undefined", *KNOWN_TO_PYTORCH)
        self.assertEqual(status, ALL_SKIPPED, said)
        self.assertIn("wrap of own.py is not implemented for it: not today", said)

    def test_a_part_that_returns_nothing_is_named(self):
        path = self.file("""
            def wrap(module, process_group, options):
                pass
        """)
        status, said = self.run_file(path, "gradients.undefined", "--no-shrink")
        self.assertEqual(status, FAILED, said)
        self.assertIn("wrap(module, process_group, options) of own.py returned NoneType, which has no __call__", said)

    def test_an_error_has_the_line_of_the_file(self):
        path = self.file("""
            import torch
            def wrap(module, process_group, options):
                return torch.zeros(2).view(3)
        """)
        status, said = self.run_file(path, "gradients.undefined", "--no-shrink")
        self.assertEqual(status, FAILED, said)
        self.assertIn("(own.py:4, in wrap)", said)

    def test_a_layer_of_batch_norm_is_judged(self):
        # It knows of no rank that leaves a backward out, of no batch that is empty everywhere, and of no halves.
        fields = ["upstream=all", "samples=[3,2]", "norm.affine=true", "half_parameters=false", "dtype=float32"]
        fixed = [word for field in fields for word in ("--set", field)]
        for name, status in (("batch_norm", 0), ("batch_norm_of_own_batch", FAILED)):
            with self.subTest(name):
                got, said = self.run_file(os.path.join(HERE, "planted", name + ".py"), "sync_batch_norm.matches",
                                          "--no-shrink", *fixed)
                self.assertEqual(got, status, said)


@unittest.skipIf(MISSING, MISSING)
class Examples(OfFile):
    def test_the_simplest_one_holds(self):
        status, said = self.run_file(os.path.join(EXAMPLES, "average_after_backward.py"), "gradients", "accumulation.no_sync",
                                     "replicas.start")
        self.assertEqual(status, 0, said)

    def test_the_sampler_holds(self):
        status, said = self.run_file(os.path.join(EXAMPLES, "strided_sampler.py"), "sampler.partitions")
        self.assertEqual(status, 0, said)

    def test_the_readme_prints_what_a_run_prints(self):
        with open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8") as page:
            blocks = re.findall(r"(?ms)^```\w*\n(.*?)^```$", page.read())
        shown = next(block for block in blocks if "✗" in block)
        command = next(re.findall(r"(?m)^\./lockstep (run .*uneven_last_bucket\.py.*)$", block)[0] for block in blocks
                       if "uneven_last_bucket.py" in block)
        _, said = run(*command.split(), "--shrink-time", "120", "--out", os.path.join(self.folder, "out"), folder=ROOT)
        for line in shown.splitlines():
            if not re.search(r"\d ?s(\b|  )", line):  # a time
                self.assertIn(line.rstrip(), said)


# Options in which PyTorch itself differs from the claim (docs/findings.md) are left out.
ITS_OWN = ["options.static_graph=false", "options.gradient_as_bucket_view=false"]
# (the file, the scenario that catches it, fields that are fixed, what the run says)
PLANTED = [
    ("average_left_out", "gradients.match", ITS_OWN, "the SUM of the ranks' gradients, not the average"),
    ("buffers_of_rank_1", "buffers.follow_rank_zero", [*ITS_OWN, "options.broadcast_buffers=true", 'forwards=["synced","synced"]'],
     "A forward must begin with rank 0's buffers where it synchronises them"),
    ("no_sync_ignored", "accumulation.no_sync", ITS_OWN, "no_sync did not keep it local"),
    ("padding_forgotten", "sampler.partitions", [], "Every rank must draw equally many samples"),
    ("bucket_order_by_rank", "gradients.match", [*ITS_OWN, "options.bucket_cap_bytes=1"], "bucket"),
    ("own_start", "replicas.start", [*ITS_OWN, "network.buffers=[]"], "on rank 1: the values it was built with: rank 0's never came"),
    ("own_start_and_sum", "training.is_one", [], "the SUM of the ranks' gradients, not the average"),
    ("divided_by_samples", "training.is_one", [], "the SUM of the ranks' gradients, not the average"),
    ("undefined_left_out", "gradients.undefined", ITS_OWN, "autograd passed None for this parameter"),
    ("root_by_rank", "replicas.start", [*ITS_OWN, "network.buffers=[]"], "src or dst is computed from the rank"),
]


@unittest.skipIf(MISSING, MISSING)
class Planted(OfFile):
    def planted(self, name, scenario, fields):
        fixed = [word for field in ["world.size=2", *fields] for word in ("--set", field)]
        return self.run_file(os.path.join(HERE, "planted", name + ".py"), scenario, *fixed, "--shrink-time", "3")

    def test_each_mistake_is_caught_and_named(self):
        for name, scenario, fields, diagnosis in PLANTED:
            with self.subTest(name):
                status, said = self.planted(name, scenario, fields)
                self.assertEqual(status, FAILED, said)
                self.assertIn(diagnosis, said)

    def test_without_a_mistake_the_same_cases_hold(self):
        for _, scenario, fields, _ in PLANTED:
            with self.subTest(scenario):
                status, said = self.planted("nothing_planted", scenario, fields)
                self.assertEqual(status, 0, said)

    def test_each_file_has_a_row(self):
        files = {name[:-3] for name in os.listdir(os.path.join(HERE, "planted")) if name.endswith(".py")}
        others = {"nothing_planted", "batch_norm", "batch_norm_of_own_batch"}
        self.assertEqual(files - others, {row[0] for row in PLANTED})


@unittest.skipIf(MISSING, MISSING)
class OtherPlugins(Case):
    def test_an_older_and_a_newer_one_are_refused_with_the_command_that_builds_it(self):
        for folder in os.environ["OTHER_PLUGINS"].split(":"):
            with self.subTest(folder):
                status, said = run("run", "sampler.partitions", "--subject", "pytorch", "--out",
                                   os.path.join(self.folder, "out"), LD_LIBRARY_PATH=folder)
                self.assertEqual(status, USAGE, said)
                self.assertIn(folder + "/liblockstep_pytorch.so is of another version than this program: build both "
                              "again, with ./lockstep build", said)
                self.assertEqual(said.count("\n"), 1, said)


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        raise SystemExit("LOCKSTEP=%s names no program" % PROGRAM)
    unittest.main()
