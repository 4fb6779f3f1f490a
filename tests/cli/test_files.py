"""Files that somebody else wrote: what nests, grows, blocks or lies costs a sentence and no more."""

import json
import os
import re
import subprocess
import unittest

from program_case import PROGRAM, ProgramCase

DEEP = "[" * 100_000 + "]" * 100_000
MEMORY_MOST_KB = 1 << 20  # The program itself takes a third of it.


class FilesCase(ProgramCase):
    def write(self, text, *names):
        path = os.path.join(self.folder, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def commands(self, path, archived):
        """The three ways into the program; what is archived is read by a run."""
        return (["replay", path], ["report", path]) if not archived else (["run", "toys.hold"],)

    def assert_refused(self, arguments, *parts):
        status, out, err = self.run_program(*arguments)
        self.assertEqual((status, out, err.count("\n")), (2, "", 1), (arguments[0], out[:500], err[:500]))
        for part in parts:
            self.assertIn(part, err[:1000])

    def run_json(self, **fields):
        """A passing run of toys.hold, changed."""
        self.run_program("run", "toys.hold", "--seed", "7", "--json", "run.json")
        with open(os.path.join(self.folder, "run.json"), encoding="utf-8") as file:
            return {**json.load(file), **fields}


class Nesting(FilesCase):
    def test_a_hundred_thousand_levels_are_refused_wherever_they_come_in(self):
        for value in (DEEP, '{"a":' * 100_000 + "1" + "}" * 100_000):
            case = '{"lockstep_case": 1, "scenario": "toys.hold", "value": {"factor": %s}}' % value
            self.assert_refused(["replay", self.write(case, "case.json")], "case.json", "100 levels deep")
            run = '{"lockstep_run": 1, "news": %s}' % value
            self.assert_refused(["report", self.write(run, "deep.json")], "deep.json", "100 levels deep")
            self.write(case, ".lockstep", "failures", "toys.hold-123456.json")
            self.assert_refused(["run", "toys.hold"], "toys.hold-123456.json", "100 levels deep", "delete it")

    def test_a_hundred_thousand_levels_on_the_command_line(self):
        self.assert_refused(["run", "toys.hold", "--set", "factor=" + "[" * 50_000 + "]" * 50_000], "100 levels deep")


class Names(FilesCase):
    def test_no_file_of_an_option_is_a_standard_stream(self):
        tried = 0
        for command in ("run", "list", "replay", "judge", "matrix", "report"):
            for option in re.findall(r"(?m)^  (--[a-z]+) (?:FILE|FOLDER)\b", self.run_program(command, "--help")[1]):
                status, _, err = self.run_program(command, option, "-")
                self.assertEqual((status, "lockstep: %s: '-' names no standard stream; ./- is a path" % option in err), (2, True),
                                 (command, option, err))
                tried += 1
        self.assertGreater(tried, 15)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "-")))

    def test_a_name_that_a_terminal_acts_on_is_spelled(self):
        self.write("{", ".lockstep", "failures", "toys.hold-\n\x1b[31m\u009b\u202e.json")
        self.assert_refused(["run", "toys.hold"], r"toys.hold-\x0a\x1b[31m\xc2\x9b\xe2\x80\xae.json: not JSON")

    def test_no_text_of_a_case_file_or_a_flag_begins_a_line(self):
        theirs = "x\n::error::injected\r\u200b"
        case = self.write(json.dumps({"lockstep_case": 1, "scenario": theirs, "value": {}}), "theirs.json")
        for arguments in (["replay", case], ["run", theirs], ["run", "--" + theirs], ["run", "toys.hold", "--subject", theirs],
                          ["run", "toys.hold", "--tier", theirs], ["run", "toys.hold", "--set", theirs + "=1"], [theirs]):
            status, out, err = self.run_program(*arguments)
            self.assertIn(status, (2, 4), (arguments, out, err))
            self.assertIn(r"x\x0a::error::injected\x0d\xe2\x80\x8b", out + err, arguments)
            self.assertNotRegex(out + err, r"(?m)^::", arguments)

    def test_a_run_of_somebody_else_does_not_turn_what_a_terminal_shows(self):
        for mark in ("\u009b31m", "\u202e", "\u2028"):
            run = self.run_json()
            run["results"][0]["claim"] = "It holds" + mark
            self.assert_refused(["report", self.write(json.dumps(run), "theirs.json")], "claim: expected one line without control characters")


class Sizes(FilesCase):
    def peak_kb(self, *arguments):
        """Exit status, output, and the most memory that the program had."""
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out = process.stdout.read()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, out, usage.ru_maxrss

    def test_ranges_of_a_hundred_million_cases_take_no_memory(self):
        cases = 100_000_000
        run = self.run_json()
        result, planned = run["results"][0], run["jobs"][0]
        planned["cases"] = cases
        result["groups"] = [{**result["groups"][0], "cases": "1-%d" % cases}]
        result["judged"] = cases
        result["labels"] = {label: cases for label in result["groups"][0]["labels"]}
        result["world_min"] = result["world_max"] = result["groups"][0]["world"]
        count = 8
        run["results"] = [{**result, "tier": "tier%d" % i} for i in range(count)]
        run["jobs"] = [{**planned, "tier": "tier%d" % i} for i in range(count)]
        status, out, peak = self.peak_kb("report", self.write(json.dumps(run), "large.json"))
        self.assertEqual(status, 0, out)
        self.assertIn("800,000,000 cases", out)
        self.assertLess(peak, MEMORY_MOST_KB)

    def test_a_case_in_two_groups_is_refused(self):
        run = self.run_json()
        run["results"][0]["groups"] = 2 * run["results"][0]["groups"][:1]
        self.assert_refused(["report", self.write(json.dumps(run), "twice.json")], "a case is in two groups")

    def test_hundreds_of_thousands_of_unknown_fields_are_read_in_a_moment(self):
        run = self.run_json()
        known = json.dumps(run)
        for at in (run, run["results"][0]):
            at.update({"news%d" % i: 1 for i in range(200_000)})
        before = self.run_program("report", self.write(known, "known.json"))
        self.assertEqual(self.run_program("report", self.write(json.dumps(run), "news.json")), before)

    def test_a_field_that_comes_twice_is_refused(self):
        text = json.dumps(self.run_json())
        text = text[:-1] + ', "version": "9"}'
        self.assert_refused(["report", self.write(text, "twice.json")], 'has the field "version" twice')

    def test_names_of_megabytes_take_no_longer_than_they_are(self):
        name = "x" * (4 << 20)
        case = json.dumps({"lockstep_case": 1, "scenario": name, "value": {}})
        status, _, peak = self.peak_kb("replay", self.write(case, "case.json"))
        self.assertEqual(status, 2)
        self.assertLess(peak, MEMORY_MOST_KB)
        case = json.dumps({"lockstep_case": 1, "scenario": "toys.hold", "value": {name: 1}})
        status, _, peak = self.peak_kb("replay", self.write(case, "case.json"))
        self.assertEqual(status, 2)
        self.assertLess(peak, MEMORY_MOST_KB)

    def test_a_file_over_the_limit_is_refused_unread(self):
        path = self.write("", "large.json")
        os.truncate(path, 1 << 40)
        for command in ("replay", "report"):
            self.assert_refused([command, path], "large.json", "1,099,511,627,776 bytes; at most 67,108,864 are read")


class Kinds(FilesCase):
    def test_what_is_no_file_is_refused_before_it_is_read(self):
        pipe = os.path.join(self.folder, "a pipe")
        os.mkfifo(pipe)
        for command, path, kind in (("replay", pipe, "a pipe"), ("report", pipe, "a pipe"),
                                    ("replay", "/dev/zero", "a device"), ("report", "/dev/zero", "a device"),
                                    ("replay", self.folder, "a folder")):
            self.assert_refused([command, path], "it is %s; expected a regular file" % kind)

    def test_an_archived_failure_that_is_no_file_is_named_with_what_to_do(self):
        os.makedirs(self.path("failures"))
        place = self.path("failures", "toys.hold-123456.json")
        for number, make in enumerate((os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path),
                                       lambda path: os.symlink("nowhere", path))):
            make(place)
            self.assert_refused(["run", "toys.hold"], "toys.hold-123456.json: cannot be read: ",
                                "move it out of this folder")
            os.rename(place, place + " before %d" % number)


class Archives(FilesCase):
    def test_runs_that_save_the_same_failure_at_the_same_time_all_report_it(self):
        processes = [self.start("run", "toys.multiply", "toys.hold", "--seed", "7") for _ in range(6)]
        for process in processes:
            status, out, err = self.finish(process)
            self.assertEqual(status, 1, err)
            self.assertIn("scenarios: ", out)
            self.assertNotIn("not whole", err)
        files = os.listdir(self.path("failures"))
        self.assertEqual([name for name in files if not re.fullmatch(r"toys\.[a-z]+-[0-9a-f]{6}\.json", name)], [])

    def test_a_file_in_the_way_of_an_unfinished_one_costs_nothing(self):
        self.run_program("run", "toys.multiply", "--seed", "7")
        saved = self.latest()["results"][0]["failure"]["case_file"]
        os.mkdir(os.path.join(self.folder, saved + ".unfinished"))
        status, out, err = self.run_program("run", "toys.multiply", "--seed", "7")
        self.assertEqual((status, err), (1, ""), out)
        self.assertIn("replay " + saved, out)

    def test_a_failure_that_cannot_be_saved_is_reported_all_the_same(self):
        os.makedirs(self.path())
        self.write("in the way", ".lockstep", "failures")
        status, out, err = self.run_program("run", "toys.multiply", "toys.hold", "--seed", "7", "--junit", "junit.xml",
                                            "--json", "run.json")
        self.assertEqual(status, 1, err)
        self.assertIn("✗ ", out)
        self.assertIn("scenarios: ", out)
        self.assertNotIn("  replay ", out)
        self.assertRegex(err, r"^lockstep: the archive of this run is not whole: .*failures: .*\n$")
        self.assertEqual(sorted(result["result"] for result in self.latest()["results"]), ["fail", "pass", "pass"])
        for report in ("junit.xml", "run.json"):
            self.assertTrue(os.path.getsize(os.path.join(self.folder, report)) > 0)

    def test_a_run_whose_folder_is_taken_away_goes_on_and_is_no_success(self):
        process = self.start_waiting("--cases", "2", "--json", "run.json")
        os.rename(self.path("runs"), self.path("taken away"))
        self.release()
        status, out, err = self.finish(process)
        self.assertIn("1 scenario: 1 passed", out)
        self.assertRegex(err, r"(?m)^lockstep: the archive of this run is not whole: .*No such file or directory.*$")
        self.assertEqual(status, 2)
        with open(os.path.join(self.folder, "run.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["exit_code"], 2)


if __name__ == "__main__":
    unittest.main()
