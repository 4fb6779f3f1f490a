"""Where a run is shown: a terminal, a log, a step of a GitHub workflow."""

import json
import os
import pty
import re
import select
import subprocess
import unittest

from program_case import PATIENCE_S, PROGRAM, ProgramCase


class OnGithub(ProgramCase):
    def test_the_summary_is_appended_to_what_the_step_wrote(self):
        summary = os.path.join(self.folder, "step summary.md")
        with open(summary, "w", encoding="utf-8") as file:
            file.write("# before\n")
        status, out, _ = self.run_program("run", "toys.average", "--seed", "7", "--json", "run.json",
                                          GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=summary)
        self.assertEqual(status, 1)
        self.assertEqual(len(re.findall("(?m)^::error ", out)), 1)
        with open(summary, encoding="utf-8") as file:
            text = file.read()
        with open(self.path("runs", "latest", "summary.md"), encoding="utf-8") as file:
            self.assertEqual(text, "# before\n" + file.read())
        with open(os.path.join(self.folder, "run.json"), encoding="utf-8") as file:
            json.load(file)

    def test_a_full_summary_is_left_alone(self):
        summary = os.path.join(self.folder, "summary.md")
        with open(summary, "w", encoding="utf-8") as file:
            file.write("x" * (1 << 20))
        self.run_program("run", "toys.average", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=summary)
        self.assertEqual(os.path.getsize(summary), 1 << 20)

    def test_a_summary_that_cannot_be_written_changes_no_verdict(self):
        status, _, err = self.run_program("run", "toys.hold", GITHUB_ACTIONS="true",
                                          GITHUB_STEP_SUMMARY=self.folder + "/no/such/file")
        self.assertEqual(status, 0)
        self.assertIn("no/such/file, which cannot be written: No such file", err)

    def test_elsewhere_nothing_is_annotated(self):
        out = self.run_program("run", "toys.average")[1]
        self.assertNotIn("::error", out)


class Terminals(ProgramCase):
    def open_terminal(self):
        try:
            return pty.openpty()
        except OSError as error:
            self.skipTest(f"this machine has no terminals to give: {error}")

    def test_a_terminal_has_a_status_line_while_a_case_runs(self):
        terminal, end = self.open_terminal()
        os.mkfifo(self.pipe)
        process = subprocess.Popen(
            [PROGRAM, "run", "toys.wait", "--seed", "7", "--cases", "1"], cwd=self.folder,
            env={**self.environment, "TERM": "xterm", "TOYS_PIPE": self.pipe},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=end)
        os.close(end)
        seen = b""
        while b"0 of 1 case  toys.wait" not in seen:
            self.assertTrue(select.select([terminal], [], [], PATIENCE_S)[0], seen)
            seen += os.read(terminal, 1 << 12)
        self.release()
        out = process.communicate(timeout=PATIENCE_S)[0]
        self.assertEqual(process.returncode, 0)
        self.assertNotIn(b"\r", out)
        while select.select([terminal], [], [], 0)[0]:
            try:
                seen += os.read(terminal, 1 << 12)
            except OSError:  # Nobody holds its other end any more.
                break
        os.close(terminal)
        self.assertTrue(seen.endswith(b"\r\x1b[K"), seen)

    def colours(self, **environment):
        """Whether a run whose stdout is a terminal is coloured."""
        terminal, end = self.open_terminal()
        process = subprocess.Popen([PROGRAM, "run", "toys.hold"], cwd=self.folder,
                                   env={**self.environment, "TERM": "xterm", **environment},
                                   stdin=subprocess.DEVNULL, stdout=end, stderr=subprocess.DEVNULL)
        os.close(end)
        seen = b""
        try:
            while select.select([terminal], [], [], PATIENCE_S)[0]:
                more = os.read(terminal, 1 << 12)
                if not more:
                    break
                seen += more
        except OSError:  # The program has ended.
            pass
        os.close(terminal)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 0)
        self.assertIn(b"PASS", seen)
        return b"\x1b[32m" in seen

    def test_a_terminal_has_colour_unless_told_otherwise(self):
        self.assertTrue(self.colours())
        self.assertTrue(self.colours(NO_COLOR=""))
        self.assertFalse(self.colours(NO_COLOR="1"))
        self.assertFalse(self.colours(TERM="dumb"))


if __name__ == "__main__":
    unittest.main()
