"""Checks what golden files cannot hold: what is left on disk and in /proc when something goes wrong."""

import fcntl
import glob
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest
import xml.etree.ElementTree

from program_case import PATIENCE_S, PROGRAM, ProgramCase, children


class Drawing(ProgramCase):
    def cases(self, *arguments):
        self.run_program("run", "toys.hold", *arguments)
        return {(event["scenario"], event["number"]): event["case"]
                for event in self.events() if event["event"] == "case"}

    def test_the_same_seed_runs_the_same_cases(self):
        self.assertEqual(self.cases("--seed", "0x11"), self.cases("--seed", "17", "-j", "1"))

    def test_another_seed_runs_others(self):
        self.assertNotEqual(self.cases("--seed", "1"), self.cases("--seed", "2"))

    def test_a_seed_that_was_not_given_is_printed(self):
        out = self.run_program("run", "toys.hold")[1]
        self.assertIn("seed " + self.latest()["seed"], out)

    def test_every_world_is_one_that_was_asked_for(self):
        cases = self.cases("--world", "1,4").values()
        self.assertEqual({case["world"]["size"] for case in cases}, {1, 4})


class Setting(ProgramCase):
    def test_a_scenario_without_the_field_is_skipped_and_says_so(self):
        status, out, _ = self.run_program("run", "toys.hold", "toys.bare", "--set", "factor=2")
        results = {result["scenario"]: result["result"] for result in self.latest()["results"]}
        self.assertEqual((status, results["toys.hold"], results["toys.bare"]), (0, "pass", "skip"))
        self.assertIn("1 skipped (1: no field 'factor' for --set)", out)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a GPU")
    def test_a_backend_that_this_machine_cannot_have_is_skipped_and_says_so(self):
        status, out, _ = self.run_program("run", "--backend", "nccl")
        self.assertEqual(status, 77)
        self.assertIn("no GPU on this machine", out)
        self.assertNotIn("canary", out)

    def test_a_field_that_no_selected_scenario_has_is_refused(self):
        status, _, error = self.run_program("run", "toys.bare", "--set", "factor=2")
        self.assertEqual(status, 2)
        self.assertIn("--set: toys.bare: case: unknown field 'factor'", error)


class ClosedStreams(ProgramCase):
    def test_streams_that_the_caller_closed_change_no_verdict(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            command = f'exec "$0" run toys.hold --cases 2 --out "$1" {closed}'
            run = subprocess.run(["bash", "-c", command, PROGRAM, self.path("closed")],
                                 capture_output=True, timeout=PATIENCE_S)
            self.assertEqual(run.returncode, 0, closed)


class Reports(ProgramCase):
    def test_junit_is_well_formed_and_its_names_are_unique(self):
        self.run_program("run", "toys.hold", "toys.crash", "toys.multiply", "toys.refuse",
                         "toys.check_throws", "--seed", "7", "--junit", "junit.xml")
        root = xml.etree.ElementTree.parse(os.path.join(self.folder, "junit.xml")).getroot()
        names = [(test.get("classname"), test.get("name")) for test in root.iter("testcase")]
        self.assertEqual(len(names), 10)  # The canary is one.
        self.assertEqual(len(set(names)), 10)
        self.assertEqual(len(list(root.iter("failure"))), 1)
        self.assertEqual(len(list(root.iter("error"))), 5)
        self.assertEqual(len(list(root.iter("skipped"))), 1)

    def test_the_json_asked_for_is_the_archives(self):
        self.run_program("run", "toys.hold", "--json", "run.json")
        with open(os.path.join(self.folder, "run.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), self.latest())

    def test_a_report_that_nobody_gets_is_no_success(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([PROGRAM, "list"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False, env=self.environment)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "lockstep: standard output cannot be written\n"))

    def test_a_reader_that_has_seen_enough_changes_no_verdict(self):
        for arguments in (["list"], ["run", "toys.hold", "--cases", "2"]):
            process = self.start(*arguments)
            process.stdout.close()
            self.assertEqual((process.wait(PATIENCE_S), process.stderr.read()), (0, ""), arguments)
            process.stderr.close()

    def test_a_report_that_cannot_be_written_does_not_hide_the_summary(self):
        status, out, err = self.run_program("run", "toys.hold", "--cases", "2", "--junit", "/dev/full")
        self.assertEqual(status, 2)
        self.assertIn("2 scenarios: 2 passed", out)
        self.assertRegex(err, r"^lockstep: /dev/full: .*No space left on device\n$")

    def test_progress_in_a_log_has_no_carriage_return(self):
        self.assertNotIn("\r", "".join(self.run_program("run", "toys.hold")[1:]))

    def test_the_folder_of_a_run_has_a_summary_to_read(self):
        self.run_program("run", "toys.average", "--seed", "7")
        with open(self.path("runs", "latest", "summary.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("## Lockstep: failed\n"), text)
        self.assertIn("note: all ranks agree with each other", text)

    def test_a_crash_has_its_function_and_line(self):
        out = self.run_program("run", "toys.crash_in_a_step", "--seed", "7")[1]
        self.assertRegex(out, r"\n  rank 1 was in\n    \| lockstep::toys::crashes_in_a_step at toys\.cpp:\d+\n\n")
        with open(glob.glob(self.path("runs", "latest", "logs", "*", "rank1.stacks"))[0], encoding="utf-8") as file:
            self.assertIn("crashes_in_a_step(lockstep::toys::(anonymous namespace)::Toy const&", file.read())

    def on_terminal(self, columns, *arguments):
        """The output on a terminal of that width: stdout and stderr."""
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest(f"this machine has no terminals to give: {error}")
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env={**self.environment, "TERM": "xterm"},
                                   stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = ""
        with open(ours, encoding="utf-8", newline="") as terminal:
            try:
                while line := terminal.readline():
                    text += line
            except OSError:  # How Linux says that nobody holds the other side any more.
                pass
        process.wait(PATIENCE_S)
        return text

    def assert_fits(self, columns, text):
        """Only a word may be wider, behind its label, which has up to 18 columns."""
        for line in text.split("\r\n"):
            line = line.rsplit("\x1b[K", 1)[-1]  # What follows the status line.
            is_one_word = any(len(word) + 18 > columns for word in line.split())
            self.assertTrue(len(line) <= columns or is_one_word, line)

    def test_on_a_terminal_only_a_word_is_wider_than_it(self):
        text = self.on_terminal(60, "run", "--tier", "cold", "toys.average", "toys.hang", "--seed", "7", "--timeout", "1",
                                "--shrink-time", "2", "--color", "never")
        self.assertRegex(text, "    name          reference  rank 0  rank 1  ratio  …\r\n(.*\r\n)+    … 1 column left out")
        self.assert_fits(60, text)

    def test_no_command_is_wider_than_the_terminal(self):
        for arguments in (["list"], ["explain", "toys.average"], ["doctor"], ["--help"], ["run", "--help"], [],
                          ["run", "toys.nope"], ["runn"], ["run", "toys.hold", "--set", "no_such_field_at_all=2"]):
            text = self.on_terminal(60, *arguments)
            self.assertGreater(len(text.split("\r\n")), 1, arguments)
            self.assert_fits(60, text)

    def test_an_attachment_is_a_file(self):
        self.run_program("run", "toys.multiply", "--seed", "7", "--junit", "junit.xml")
        root = xml.etree.ElementTree.parse(os.path.join(self.folder, "junit.xml")).getroot()
        output = next(root.iter("system-out")).text
        path = re.search(r"^\[\[ATTACHMENT\|(/.*)\]\]$", output, re.MULTILINE).group(1)
        self.assertTrue(os.path.isfile(path), path)


class Disks(ProgramCase):
    def test_a_full_disk_is_one_sentence_at_the_start(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        mount = shutil.which("mount")
        if not mount or subprocess.run([mount, "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk],
                                       stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("this user cannot mount a small file system")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        status, out, err = self.run_program("run", "toys.hold", "--out", disk + "/out")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("No space left on device", err)
        self.assertEqual(err.count("\n"), 1)

    def test_a_disk_that_fills_up_ends_the_run_with_a_sentence(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        mount = shutil.which("mount")
        if not mount or subprocess.run([mount, "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk],
                                       stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("this user cannot mount a small file system")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        status, _, err = self.run_program("run", "toys.hold", "--cases", "300", "--world", "1,2,3",
                                          "--subject", "toy,other", "--out", disk)
        self.assertEqual(status, 2)
        self.assertIn("No space left on device", err)


class Ending(ProgramCase):
    def test_a_case_is_written_down_before_it_runs(self):
        process = self.start_waiting()
        process.kill()
        process.communicate()
        events = [event for event in self.events() if event["event"] != "start"]
        self.assertTrue(events)
        self.assertEqual({event["event"] for event in events}, {"case"})
        self.assertEqual(self.left_running(), [], "its ranks die with the runner")
        shutil.rmtree(self.temporary)  # Nobody was left to tidy up.
        os.mkdir(self.temporary)

    def interrupt(self, number):
        process = self.start_waiting()
        process.send_signal(number)
        status, out, _ = self.finish(process)
        self.assertEqual(status, 130)
        self.assertIn("no result for 1 scenario: the run was interrupted", out)
        run = self.latest()
        self.assertTrue(run["interrupted"])
        self.assertEqual(run["exit_code"], 130)
        self.assertEqual([skip["scenario"] for skip in run["not_finished"]], ["toys.wait"])
        self.assertEqual(self.events()[-1]["event"], "end")
        self.assertFalse(os.path.exists(self.path("failures")))

    def test_ctrl_c_ends_the_run_and_leaves_its_archive(self):
        self.interrupt(signal.SIGINT)

    def test_ctrl_c_while_cases_are_drawn_is_one_sentence(self):
        process = self.start("run", "toys.hold", "--cases", "1000000")
        self.wait_until(lambda: self.ignores_or_handles(process, signal.SIGINT), process)
        process.send_signal(signal.SIGINT)
        status, out, err = self.finish(process)
        self.assertEqual((status, out), (130, ""))
        self.assertIn("lockstep: the run was interrupted while cases were drawn: none was run\n", err)

    def test_termination_is_the_same(self):
        self.interrupt(signal.SIGTERM)

    def test_sigusr1_reports_what_runs_and_the_run_continues(self):
        process = self.start_waiting("-q", "-j", "2")
        process.send_signal(signal.SIGUSR1)
        line = process.stderr.readline()
        self.assertRegex(line, r"^running: toys\.wait, case \d of 4 \(toy, cold, gloo\), for \d+\.\d s\n$")
        self.release()
        status, _, _ = self.finish(process)
        self.assertEqual(status, 0)

    def test_sigusr1_that_comes_too_early_or_too_late_ends_nothing(self):
        process = self.start("run", "toys.hold", "--cases", "2", "-q")
        self.wait_until(lambda: self.ignores_or_handles(process, signal.SIGUSR1), process)
        while process.poll() is None:
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.001)
        self.assertEqual(self.finish(process)[0], 0)

    def ignores_or_handles(self, process, number):
        with open("/proc/%d/status" % process.pid, encoding="ascii") as file:
            masks = dict(line.split(":", 1) for line in file)
        handled = int(masks["SigIgn"], 16) | int(masks["SigCgt"], 16)
        return bool(handled >> (number - 1) & 1)

    def test_a_rank_killed_by_hand_is_a_crash(self):
        process = self.start_waiting("--cases", "1")
        self.wait_until(lambda: self.process_of_rank(1), process)
        os.kill(self.process_of_rank(1), signal.SIGKILL)
        self.wait_until(lambda: any(event["event"] == "verdict" for event in self.events()), process)
        self.release()
        status, out, _ = self.finish(process)
        self.assertEqual(status, 1)
        first = next(event for event in self.events() if event["event"] == "verdict")
        self.assertEqual(first["verdict"], "crash")
        self.assertIn("was ended by SIGKILL", first["text"])
        self.assertIn("FLAKY", out, "nobody killed the second run")

    def process_of_rank(self, rank):
        """A rank of toys.wait leaves it beside the pipe before it waits; None until the whole line is there."""
        try:
            with open("%s rank%d" % (self.pipe, rank), encoding="ascii") as file:
                line = file.read()
        except FileNotFoundError:
            return None
        return int(line) if line.endswith("\n") else None

    def test_a_server_killed_by_hand_is_inconclusive(self):
        process = self.start_waiting()
        for server in children(self.mark, process.pid):
            os.kill(server, signal.SIGKILL)
        status, out, _ = self.finish(process)
        self.assertEqual(status, 3, out)
        self.assertIn("? The tier must run the case", out)
        shutil.rmtree(self.temporary)  # A killed server tidies nothing up.
        os.mkdir(self.temporary)


if __name__ == "__main__":
    unittest.main()
