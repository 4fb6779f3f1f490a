"""Texts of a stranger's history: whatever it says, in whichever field, no output has a character that a terminal acts on, a
line that GitHub takes as a command, or markup."""

import copy
import json
import os
import re
import struct
import subprocess
import unittest
import xml.etree.ElementTree

from program_case import PATIENCE_S, PROGRAM, ProgramCase

COMMIT = 0x50455453_4B434F4C
HOSTILE = ("x\n::error::injected\n\u00a0::warning::injected ##[error]injected \x1b[2J\x07\u009b31m\u009d0;t\u202e\u2066\u2028\u200b\ufeff\U000e0041"
           "<b>injected</b> ` | [injected](http://x)\r")
# Characters that a terminal acts on, that turn the direction of text, that end lines elsewhere, or that are not seen.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\U000e0000-\U000e0fff]")
EIGHT = struct.pack("<Qd", 7, 1.0)


def history(records):
    out = b""
    for number, (kind, header, payload) in enumerate(records):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        body = struct.pack("<IIQ", len(text), kind, len(payload)) + text + payload
        out += body + bytes(-len(body) % 8) + struct.pack("<Q", COMMIT ^ number)
    return out


def records_of(rank):
    """A rank that recorded something of every kind; the ranks end with other parameters."""
    records = [(1, {"protocol": 1, "rank": rank, "world": 2, "program": "train.py", "torch": "2.11.0", "clock": "a"}, b""),
               (13, {"name": "process group", "values": {"rank": rank, "world": 2, "backend": "gloo"}}, b""),
               (2, {"step": 0, "phase": "construction"}, b""),
               (10, {"buckets": [{"elements": 3, "parameters": ["w"]}]}, b""),
               (13, {"name": "model 0", "values": {"kind": "Net", "dropouts": 1}}, b""),
               (11, {"list": 0, "of": "model 0", "role": "parameters", "tensors": [["w", "float32", [3]]]}, b""),
               (11, {"list": 1, "of": "model 0", "role": "gradients", "tensors": [["w", "float32", [3]]]}, b""),
               (12, {"list": 0}, EIGHT),
               (2, {"step": 0, "phase": "data"}, b""),
               (13, {"name": "loader 0", "values": {"epoch": 0, "length": 4, "sampler": "DistributedSampler", "replicas": 2,
                                                    "rank": rank, "shuffle": True, "fingerprint": "ab%d" % rank}}, b""),
               (3, {"name": "loader 0", "dtype": "int64", "shape": [2]}, struct.pack("<qq", rank, rank + 2)),
               (2, {"step": 0, "phase": "backward"}, b""),
               (4, {"op": "allreduce" if rank == 0 else "broadcast", "group": "world", "dtype": "float32", "sequence": 0,
                    "elements": 3, "root": -1, "ns": 100 + rank}, b""),
               (5, {"group": "world", "sequence": 0, "ns": 120}, b""),
               (4, {"op": "allgather", "group": "ranks 0,1", "dtype": "int64", "sequence": 0, "elements": 1, "root": -1,
                    "ns": 130 + 50 * rank}, b""),
               (14, {"name": "backward", "from": 90, "ns": 125}, b""),
               (13, {"name": "backward", "values": {"model": "model 0", "kind": "synchronised", "loss": 0.5}}, b""),
               (12, {"list": 1}, struct.pack("<Qd", 9 + rank, 1.0 + rank)),
               (6, {"kind": "delay", "rank": rank, "collective": 0, "amount": 5, "at": {"step": 0, "phase": "backward"}}, b""),
               (7, {"what": "a thread"}, b""),
               (2, {"step": 0, "phase": "update"}, b""),
               (13, {"name": "optimizer 0", "values": {"kind": "SGD", "groups": [{"lr": 0.5 + rank, "name": "g%d" % rank}],
                                                       "owned": [["model 0", "w"]], "foreign": 0}}, b""),
               (12, {"list": 0}, struct.pack("<Qd", 20 + rank, 2.0 + rank)),
               (8, {"kind": "threw", "why": "RuntimeError: no", "ns": 300}, b"")]
    return records


def places_of(value, at=()):
    """The paths of all texts in it, names of fields of facts among them."""
    if isinstance(value, str):
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places_of(part, at + (key,))


def with_text(header, at, text):
    changed = copy.deepcopy(header)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = text
    return changed


class Gate(ProgramCase):
    def run_program(self, *arguments, **environment):
        """With the bytes as they are."""
        process = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env={**self.environment, **environment}, timeout=PATIENCE_S,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return process.returncode, process.stdout.decode(), process.stderr.decode()

    def write(self, changed=None, header=None, ranks=(0,)):
        """The run, in which record number `changed` of these ranks has another header."""
        os.makedirs(os.path.join(self.folder, "run"), exist_ok=True)
        for rank in (0, 1):
            records = records_of(rank)
            if rank in ranks and changed is not None:
                records[changed] = (records[changed][0], header(rank) if callable(header) else header, records[changed][2])
            with open(os.path.join(self.folder, "run", "rank%d.history" % rank), "wb") as file:
                file.write(history(records))

    def text_in(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8", newline="") as file:
            text = file.read()
        os.remove(os.path.join(self.folder, name))
        return text

    def assert_inert(self, text, what):
        found = FORBIDDEN.search(text)
        self.assertIsNone(found, "%s: %r" % (what, text[max(0, found.start() - 60):found.end()] if found else ""))

    def assert_no_commands(self, text, what):
        """As GitHub reads it, which trims all that is a space in Unicode."""
        stopped = None
        for line in text.split("\n"):
            line = line.strip()
            if stopped:
                stopped = None if line == "::%s::" % stopped else stopped
            elif line.startswith("::stop-commands::"):
                stopped = line[len("::stop-commands::"):]
            elif not line.startswith(("::error title=", "::warning title=")):
                self.assertFalse(line.startswith("::"), "%s: %s" % (what, line))
                self.assertNotIn("##[", line, what)

    def assert_no_markup(self, summary, what):
        outside, is_fenced = [], False
        for line in summary.split("\n"):
            if line.startswith("```"):
                is_fenced = not is_fenced
            elif not is_fenced:
                outside.append(re.sub("`[^`]*`", "", line))
        self.assertFalse(is_fenced, what)
        self.assertNotIn("injected", "\n".join(outside), what)

    def everything_said(self, what, reports=True):
        """Every command and every format that says something of a recorded run."""
        said = []
        for command in (["judge", "run", "--json", "run.json", "--junit", "junit.xml", "--html", "page.html", "--color", "never"],
                        ["report", "run.json", "--summary", "other.md", "--html", "other.html", "--color", "never"],
                        ["trace", "run"]):
            if command[0] == "report" and not reports:
                continue
            if command[0] == "report" and not os.path.getsize(os.path.join(self.folder, "run.json")):
                continue  # `judge` has refused it.
            status, out, err = self.run_program(*command, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="summary.md")
            self.assertIn(status, (0, 1, 2, 3), out + err)
            for text in (out, err):
                self.assert_inert(text, (what, command[0]))
                self.assert_no_commands(text, (what, command[0]))
            said += [out, err]
        for name in ("run.json", "junit.xml", "page.html", "other.html", "summary.md", "other.md", "run/trace.json"):
            if not os.path.exists(os.path.join(self.folder, name)):
                continue
            text = self.text_in(name)
            if not text:
                continue
            self.assert_inert(text if name != "run.json" else "", (what, name))
            if name.endswith(".xml"):
                xml.etree.ElementTree.fromstring(text)
            if name.endswith(".html"):
                self.assertNotIn("<b>injected", text, (what, name))
            if name.endswith(".md"):
                self.assert_no_markup(text, (what, name))
            if name.endswith(".json"):
                json.loads(text)
            said.append(text)
        return "".join(said)

    def test_a_run_that_nobody_changed_is_run_in_every_format(self):
        self.write()
        said = self.everything_said("as it is")
        for part in ("parameters.are_the_same", "allgather", "rank 0 waited"):
            self.assertIn(part, said)

    def test_no_text_of_a_history_reaches_an_output_as_it_is(self):
        seen, tried = 0, set()
        for number, (kind, header, _) in enumerate(records_of(0)):
            for at in places_of(header):
                place = (kind, header.get("name"), at)
                if place in tried:
                    continue
                tried.add(place)
                self.write(number, with_text(header, at, HOSTILE))
                seen += "injected" in self.everything_said(place, reports=len(tried) % 8 == 0)
        self.assertGreater(seen, 10, "of %d texts" % len(tried))

    def test_a_line_that_begins_with_a_name_is_no_command(self):
        for kind, field in ((1, "program"), (4, "op")):
            number = next(number for number, record in enumerate(records_of(0)) if record[0] == kind)
            for name in ("::error::injected", "\u00a0\u2003::error::injected", "##[error]injected"):
                self.write(number, lambda rank: {**records_of(rank)[number][1], field: name}, ranks=(0, 1))
                self.assertIn("injected", self.everything_said((field, name)))

    def test_no_name_of_a_setting_does_either(self):
        number = next(number for number, record in enumerate(records_of(0)) if record[1].get("name") == "optimizer 0")
        self.write(number, lambda rank: {"name": "optimizer 0", "values": {"kind": "SGD", "groups": [{HOSTILE: rank}]}}, ranks=(0, 1))
        self.assertIn("injected", self.everything_said("the name of a setting"))

    def test_a_name_that_is_no_text_does_not_make_the_run_unreadable(self):
        for name in (rb"tr\ud8ffin.py", b"tr\xffin.py"):
            self.write(0, lambda rank: b'{"protocol":1,"rank":%d,"world":2,"program":"%s"}' % (rank, name), ranks=(0, 1))
            status, out, err = self.run_program("judge", "run")
            self.assertEqual(status, 1, out + err)
            self.assertRegex(out, r"tr\\(xff|ud8ff)in\.py")


if __name__ == "__main__":
    unittest.main()
