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

    def test_elsewhere_nothing_is_annotated_or_stopped(self):
        out = self.run_program("run", "toys.average")[1]
        self.assertNotIn("::", out)

    def commands_acted_on(self, out):
        """The commands on which GitHub would act: https://github.com/actions/runner, ActionCommandManager.TryProcessCommand."""
        acted, token = [], None
        for line in re.split(r"\r\n|\r|\n", out):
            stop = re.fullmatch(r"\s*::stop-commands::(.+)", line)
            if token is not None:
                if line.strip() == "::%s::" % token:
                    token = None
            elif stop:
                token = stop.group(1)
                self.assertRegex(token, "^[0-9a-f]{32}$")
            elif line.lstrip().startswith("::") or "##[" in line:
                acted.append(line)
        self.assertIsNone(token, "commands were left stopped")
        return acted

    def changed_run(self, change):
        """The output of `report` on another job's failing run that was changed."""
        self.run_program("run", "toys.average", "--seed", "7", "--json", "run.json")
        path = os.path.join(self.folder, "run.json")
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        change(run)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(run, file)
        return self.run_program("report", "run.json", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="summary.md")

    def test_texts_of_another_job_are_no_commands(self):
        def change(run):
            result = run["results"][0]
            finding, commands = result["findings"][0], "\n::error::planted\r::add-mask::planted\n##[error]planted"
            finding["diagnosis"] += commands
            finding["details"].append("a note" + commands)
            result["failure"]["tail"] = "::warning::planted\n::stop-commands::planted"
            result["failure"]["case_file"] = "x\n::error::planted"
            result["failure"]["logs"] = "x\n::error::planted"
            result["failure"]["unlike_default"] = {"a\n::error::planted": "b\n::error::planted"}
        status, out, err = self.changed_run(change)
        self.assertEqual((status, err), (1, ""))
        self.assertIn("planted", out)
        acted = self.commands_acted_on(out)
        self.assertEqual(len(acted), 1, acted)
        self.assertTrue(acted[0].startswith("::error title=fail%3A toys.average"), acted)
        self.assertIn(r"a\x0a::error::planted b\x0a::error::planted", out)

    def test_what_is_one_line_must_be_one(self):
        def planted(text):
            return text + "\n::error::planted"

        def in_version(run):
            run["version"] = planted(run["version"])

        def in_claim(run):
            run["results"][0]["claim"] = planted("x")

        def in_rule(run):
            run["results"][0]["findings"][0]["rule"] = planted("x")

        def in_reason(run):
            run["results"][0]["groups"][0]["reason"] = planted("x")

        def in_setting(run):
            run["jobs"][0]["tier"] = run["results"][0]["tier"] = "cold\r::error::planted"

        for change in (in_version, in_claim, in_rule, in_reason, in_setting):
            status, out, err = self.changed_run(change)
            self.assertEqual(status, 2, change)
            self.assertRegex(err, r"^lockstep: run\.json: .* one line", change)
            self.assertEqual(self.commands_acted_on(out + err), [], change)

    def test_what_a_rank_wrote_is_no_command(self):
        out = self.run_program("run", "toys.multiply", "--seed", "7", GITHUB_ACTIONS="true")[1]
        self.assertTrue(all(line.startswith("::error title=") for line in self.commands_acted_on(out)))
        out = self.run_program("run", "toys.hold", GITHUB_ACTIONS="true")[1]
        self.assertEqual(self.commands_acted_on(out), [])

    def test_every_token_is_another(self):
        tokens = {re.findall("::stop-commands::(.*)", self.run_program("run", "toys.bare", GITHUB_ACTIONS="true")[1])[0]
                  for _ in range(3)}
        self.assertEqual(len(tokens), 3)


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
            [PROGRAM, "run", "--tier", "cold", "toys.wait", "--seed", "7", "--cases", "1"], cwd=self.folder,
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
        process = subprocess.Popen([PROGRAM, "run", "--tier", "cold", "toys.hold"], cwd=self.folder,
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

    def test_a_terminal_has_colour_unless_a_flag_says_otherwise(self):
        self.assertTrue(self.colours())
        self.assertTrue(self.colours(NO_COLOR=""))
        self.assertFalse(self.colours(NO_COLOR="1"))
        self.assertFalse(self.colours(TERM="dumb"))
        self.assertFalse(self.colours(CLICOLOR="0"))
        self.assertTrue(self.colours(FORCE_COLOR="1", CLICOLOR="0", TERM="dumb"))
        self.assertFalse(self.colours(FORCE_COLOR="1", NO_COLOR="1"))

    def test_variables_force_colour_where_there_is_no_terminal(self):
        def has_colour(*flags, **environment):
            return "\x1b[32m" in self.run_program("run", "toys.hold", *flags, **environment)[1]
        self.assertFalse(has_colour())
        for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
            self.assertTrue(has_colour(**{name: "1"}), name)
            self.assertFalse(has_colour(**{name: "0"}), name)
            self.assertFalse(has_colour(**{name: "1", "NO_COLOR": "1"}), name)
            self.assertFalse(has_colour("--color", "never", **{name: "1"}), name)


if __name__ == "__main__":
    unittest.main()
