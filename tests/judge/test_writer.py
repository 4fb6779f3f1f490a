"""The recorder's files, byte by byte, and what it does where it cannot write. Needs no torch."""

import os
import stat
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "recorder", "python"))

from lockstep_recorder import _history as recorder
from lockstep_recorder import _launch

VECTOR = os.path.join(HERE, "vectors", "rank1.history")


def opened(folder, rank, world, **about):
    history = recorder.History(folder, **about)
    history.open(rank, world)
    return history


def write_vector(folder):
    """The history that vectors/rank1.history holds, which recorded_run_test.cpp reads."""
    with mock.patch("time.monotonic_ns", return_value=7):
        history = opened(folder, 1, 2, program="train.py", torch="2.11.0")
        history.append(recorder.MOMENT, {"step": 0, "phase": "update"})
        history.append(recorder.ISSUED, {"op": "allreduce", "group": "world", "dtype": "float32", "sequence": 0,
                                         "elements": 6, "root": -1, "ns": 5})
        history.append(recorder.DONE, {"group": "world", "sequence": 0, "ns": 6})
        history.append(recorder.TENSORS, {"list": 0, "of": "model 0", "role": "parameters",
                                          "tensors": [["w", "float32", [2, 3]], ["b", "float32", []]]})
        history.append(recorder.DIGESTS, {"list": 0}, bytes(range(32)))
        history.append(recorder.FACT, {"name": "optimizer 0", "values": {"kind": "SGD", "groups": [{"lr": 0.5}]}})
        history.append(recorder.OBSERVATION, {"name": "loader 0", "dtype": "int64", "shape": [2]},
                       (3).to_bytes(8, "little") + (9).to_bytes(8, "little"))
        history.end("returned")
    return history


class Writer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep recorder ")
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "recorded")

    def content(self, history):
        with open(history.path, "rb") as file:
            return file.read()

    def test_a_history_is_that_of_the_vector(self):
        with open(VECTOR, "rb") as file:
            self.assertEqual(self.content(write_vector(self.folder)), file.read())

    def test_folder_and_file_are_private(self):
        history = write_vector(self.folder)
        self.assertEqual(stat.S_IMODE(os.stat(self.folder).st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(history.path).st_mode), 0o600)

    def test_a_history_that_is_there_is_never_overwritten_nor_a_link_followed(self):
        history = write_vector(self.folder)
        before = self.content(history)
        with self.assertRaisesRegex(OSError, "rank1.history: is there already; record into a new folder"):
            write_vector(self.folder)
        self.assertEqual(self.content(history), before)
        os.symlink(os.path.join(self.folder, "elsewhere"), os.path.join(self.folder, "rank0.history"))
        with self.assertRaises(OSError):
            opened(self.folder, 0, 2)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "elsewhere")))

    def test_a_full_history_ends_and_says_so(self):
        with mock.patch.object(recorder, "BYTES_MOST", 40000):
            history = opened(self.folder, 0, 1)
            for number in range(1000):
                history.append(recorder.FACT, {"name": "x", "values": {"number": number}})
        content = self.content(history)
        self.assertLess(len(content), 40000)
        self.assertIn(b'"kind":"overflowed","why":"a history has at most 40000 bytes"', content)
        history.append(recorder.FACT, {"name": "x", "values": {}})
        self.assertEqual(self.content(history), content)

    def test_a_disk_that_is_full_ends_the_recording_and_not_the_program(self):
        history = opened(self.folder, 0, 1)
        with mock.patch("os.write", side_effect=OSError(28, "No space left on device")), \
                mock.patch("sys.stderr") as said:
            history.append(recorder.FACT, {"name": "x", "values": {}})
        self.assertIn("No space left on device; recording ends", "".join(str(call) for call in said.mock_calls))
        self.assertTrue(history.has_ended)

    def test_a_process_that_was_forked_from_a_rank_writes_nothing(self):
        history = opened(self.folder, 0, 1)
        before = self.content(history)
        child = os.fork()
        if child == 0:
            history.end("returned")
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(self.content(history), before)

    def test_records_wait_for_their_rank(self):
        history = recorder.History(self.folder)
        history.append(recorder.FACT, {"name": "x", "values": {"number": 1}})
        self.assertFalse(os.path.exists(self.folder))
        history.open(1, 2)
        self.assertLess(self.content(history).index(b'"rank":1,"world":2'), self.content(history).index(b'"number":1'))

    def test_a_process_without_a_rank_leaves_nothing(self):
        recorder.History(self.folder).end("returned")
        self.assertFalse(os.path.exists(self.folder))

    def test_texts_that_are_not_utf_8_are_written_with_marks_in_their_place(self):
        history = opened(self.folder, 0, 1, program=os.fsdecode(b"tr\xffain.py"))
        history.append(recorder.FACT, {"name": "x", "values": {"text": "\ud800"}})
        self.content(history).decode("ascii", "surrogateescape")
        self.assertIn(b'"program":"tr?ain.py"', self.content(history))
        self.assertIn(b'"text":"?"', self.content(history))

    def test_an_exception_keeps_its_end(self):
        history = opened(self.folder, 0, 1)
        history.end("threw", "begin " + "x" * 1000000 + " parameter 3")
        self.assertRegex(self.content(history).decode("latin-1"), r'"why":"begin x+ \.\.\. x+ parameter 3"')
        self.assertLess(len(self.content(history)), 2 * recorder.WHY_MOST)

    def test_a_rank_that_is_no_number_is_refused_in_one_sentence(self):
        with mock.patch.dict(os.environ, RANK="abc"), self.assertRaisesRegex(SystemExit, "^lockstep_recorder: RANK is 'abc'; expected"):
            _launch.start(self.folder)

    def test_what_starts_without_a_folder_is_refused_with_the_usage(self):
        with mock.patch.dict(os.environ, clear=True), self.assertRaisesRegex(SystemExit, "usage: python -m lockstep_recorder"):
            _launch.main(["train.py"])


if __name__ == "__main__":
    if os.environ.get("LOCKSTEP_APPROVE") == "1":
        with tempfile.TemporaryDirectory() as made:
            os.replace(write_vector(made).path, VECTOR)
    unittest.main()
