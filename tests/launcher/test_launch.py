"""lockstep launch: a program as ranks on this machine.

usage: test_launch.py PROGRAM LOCKSTEP [TEST ...], where PROGRAM is tests/launcher/launched
"""

import os
import re
import signal
import time
import unittest

from campaign_case import LOCKSTEP, Campaign, marked
from launched_case import PROGRAM
from processes import DEADLINE_S, ROOT

PYTHON_PROGRAM = """
import datetime, os, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
sum = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(sum)
print("rank %d of %d, sum %d" % (dist.get_rank(), dist.get_world_size(), sum.item()))
dist.destroy_process_group()
"""


class Launch(Campaign):
    def launch(self, size, *command, **variables):
        return self.result_of([LOCKSTEP, "launch", "-n", str(size), "--", *command], variables)

    def lines(self, said):
        return sorted(said.out.splitlines())

    def test_ranks_need_no_rendezvous_address(self):
        said = self.launch(3, PROGRAM)
        self.assertEqual((said.status, said.err), (0, ""), str(said))
        self.assertEqual(self.lines(said), ["[%d] rank %d of 3, here %d, sum 6" % (rank, rank, rank) for rank in range(3)])

    def test_the_earliest_report_is_the_cause_in_whatever_order_they_end(self):
        """Rank 1 fails and tells rank 0, which ends before it."""
        report = ('echo \'{"message": {"message": "\'$1\'", "extraInfo": {"timestamp": "7", "time_ns": "\'$2\'"}}}\' '
                  '> "$TORCHELASTIC_ERROR_FILE"')
        ranks = ('report() { %s; }; if [ $RANK = 0 ]; then report "a peer has failed" 9; echo $$ > "$0.tmp"; mv "$0.tmp" "$0";'
                 ' exit 3; fi; report "the disk is full" 8; until [ -e "$0" ]; do sleep 0.01; done;'
                 ' while kill -0 $(cat "$0") 2> /dev/null; do sleep 0.01; done; exit 4') % report
        said = self.launch(2, "sh", "-c", ranks, os.path.join(self.out, "pid"))
        self.assertEqual((said.status, said.err), (4, "lockstep: rank 1 failed first, with exit code 4: the disk is full\n"),
                         str(said))

    def test_worlds_that_are_launched_at_once_do_not_meet(self):
        worlds = [self.start([LOCKSTEP, "launch", "-n", "2", "--", PROGRAM]) for _ in range(3)]
        for said in self.all_ended(worlds):
            self.assertEqual(said.status, 0, str(said))

    def test_a_program_of_pytorchs_meets_as_under_torchrun(self):
        python = os.path.join(ROOT, ".venv-peer", "bin", "python")
        if not os.path.exists(python):
            self.skipTest("there is no .venv-peer: ./lockstep setup --peer makes it")
        said = self.launch(2, python, "-c", PYTHON_PROGRAM)
        self.assertEqual(self.lines(said), ["[0] rank 0 of 2, sum 3", "[1] rank 1 of 2, sum 3"], str(said))

    def test_by_default_there_is_a_rank_for_each_core(self):
        said = self.result_of(["taskset", "-c", "0", LOCKSTEP, "launch", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE"])
        self.assertEqual(said.out, "[0] 0 of 1\n")

    def test_flags_behind_the_program_are_its_own(self):
        for separator in ([], ["--"]):
            said = self.result_of([LOCKSTEP, "launch", "-n", "1", *separator, "printf", "%s\\n", "-n", "3", "--", "--help"])
            self.assertEqual(said.out, "[0] -n\n[0] 3\n[0] --\n[0] --help\n")

    def test_lines_are_whole_and_each_has_its_rank(self):
        said = self.launch(4, "sh", "-c", "for i in $(seq 300); do echo out $RANK; echo err $RANK >&2; done; printf last")
        for text, word in ((said.out, "out"), (said.err, "err")):
            lines = text.splitlines()
            self.assertEqual(sum(line == "[%s] %s %s" % (line[1], word, line[1]) for line in lines), 1200)
        self.assertEqual(said.out.count("] last\n"), 4)

    def test_the_rank_that_fails_first_decides_and_says_why(self):
        said = self.launch(3, PROGRAM, "interface")
        self.assertEqual(said.status, 1)
        self.assertRegex(said.err, r"(?m)^lockstep: rank \d failed first, with exit code 1: rank 1 cannot take part: "
                                   r"it cannot listen on the interface nope0")

    def test_a_programs_own_sentence_is_the_reason(self):
        said = self.launch(1, PROGRAM, "throw")
        self.assertEqual((said.status, said.err.splitlines()[-1]),
                         (1, "lockstep: rank 0 failed first, with exit code 1: batch 2 cannot be read"))

    def test_the_others_of_one_that_failed_are_ended(self):
        said = self.launch(3, "sh", "-c", "test $RANK = 1 && exit 3; sleep 1000")
        self.assertEqual((said.status, said.err), (3, "lockstep: rank 1 failed first, with exit code 3\n"))

    def test_where_all_exit_alike_nobody_is_named(self):
        said = self.launch(3, "sh", "-c", "exit 77")
        self.assertEqual((said.status, said.err), (77, "lockstep: every rank exited with code 77\n"))

    def test_a_line_without_an_end_costs_no_more_than_others(self):
        said = self.launch(2, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
        lines = said.out.splitlines()
        self.assertEqual((said.status, sum(line.count("x") for line in lines)), (0, 6000000))
        self.assertLess(max(map(len, lines)), 2000000)

    def test_a_reader_that_has_seen_enough_ends_the_ranks_as_in_any_pipeline(self):
        process = self.start([LOCKSTEP, "launch", "-n", "2", "--", "yes"])
        self.assertRegex(process.stdout.readline(), r"^\[\d\] y$")
        process.stdout.close()
        self.assertEqual(process.wait(DEADLINE_S), 128 + signal.SIGPIPE)
        self.assertRegex(process.stderr.read(), r"failed first, by SIGPIPE|every rank")

    def test_output_that_is_lost_is_no_success(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            process = self.start([LOCKSTEP, "launch", "-n", "1", "--", "echo", "hi"], stdout=full)
            err = process.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual((process.returncode, err),
                         (2, "lockstep: standard output cannot be written: No space left on device\n"))

    def test_as_many_ranks_as_open_files_allow(self):
        limited = ["sh", "-c", 'ulimit -Sn 128; ulimit -Hn "$1"; shift; exec "$@"', "sh"]
        command = [LOCKSTEP, "launch", "-n", "60", "--", "sh", "-c", "ulimit -Sn"]
        said = self.result_of([*limited, "512", *command])
        self.assertEqual((said.status, said.err, said.out.count("] 128\n")), (0, "", 60))
        said = self.result_of([*limited, "256", *command])
        self.assertEqual((said.status, said.err), (2, "lockstep: launch: 60 ranks take 304 open files, and this process "
                                                      "may have 256 (ulimit -Hn)\n"))

    def test_one_that_does_not_end_is_killed_and_named(self):
        said = self.launch(2, "sh", "-c", "trap '' TERM; test $RANK = 0 && exit 4; while :; do sleep 1; done")
        self.assertEqual(said.status, 4)
        self.assertIn("rank 0 failed first, with exit code 4; rank 1 did not end in time and was killed", said.err)

    def test_a_rank_that_is_killed_is_reported_with_its_signal(self):
        said = self.launch(1, "sh", "-c", "kill -SEGV $$")
        self.assertEqual((said.status, said.err), (139, "lockstep: rank 0 failed first, by SIGSEGV\n"))

    def test_what_cannot_be_started_is_refused(self):
        for command, reason in ((["no such program"], "there is no program 'no such program' in PATH"),
                                (["/etc/passwd"], "/etc/passwd is no program that can be run"),
                                ([], "say which program")):
            said = self.launch(2, *command)
            self.assertEqual((said.status, said.out), (2, ""))
            self.assertIn("lockstep: launch: " + reason, said.err)
        said = self.launch(0, "true")
        self.assertEqual(said.status, 2)
        self.assertIn("-n 0: expected a whole number from 1 to 4,096", said.err)

    def test_ranks_on_several_hosts_are_for_engines(self):
        for flags in (["--nnodes", "2", "--node-rank", "0", "--rendezvous", "node-a:29500"], ["--nnodes=2"],
                      ["--node-rank", "1"], ["--rendezvous=node-a"], ["--nnodes", "1", "--"]):
            said = self.result_of([LOCKSTEP, "launch", "-n", "2", *flags, "true"])
            self.assertEqual((said.status, said.out), (2, ""), str(said))
            self.assertRegex(said.err, r"^lockstep: launch: %s: launch starts ranks on this machine alone; over several hosts start "
                                       r"the program with torchrun --no-python, srun, mpirun or a Kubernetes operator, as "
                                       r"docs/scale\.md shows\n$" % flags[0].split("=")[0])

    def test_an_unknown_option_is_no_program(self):
        said = self.result_of([LOCKSTEP, "launch", "--timeout", "3", "true"])
        self.assertEqual((said.status, said.err), (2, "lockstep: launch: unknown option '--timeout'\n"))

    def started(self, *command):
        """A launch whose two ranks have said so."""
        process = self.start([LOCKSTEP, "launch", "-n", "2", "--", *command])
        for _ in range(2):
            self.said_ready = process.stdout.readline()
            self.assertIn("ready", self.said_ready)
        return process

    def test_a_signal_is_passed_on_and_ends_all(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.started("sh", "-c", "trap 'echo told; exit 0' INT TERM; echo ready; while :; do sleep 0.1; done")
            process.send_signal(number)
            said = self.ended(process)
            self.assertEqual(said.status, 128 + number, str(said))
            self.assertEqual(said.out.count("told"), 2)

    def test_a_second_signal_kills(self):
        process = self.started("sh", "-c", "trap 'echo told' INT TERM; echo ready; while :; do sleep 0.1; done")
        process.send_signal(signal.SIGTERM)
        self.assertIn("told", process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        said = self.ended(process)
        self.assertEqual(said.status, 128 + signal.SIGTERM)
        self.assertIn("ranks 0, 1 did not end in time and were killed", said.err)

    def test_nothing_outlives_a_launcher_that_is_killed(self):
        """Processes that ranks have started and taken out of their group end too."""
        process = self.started("sh", "-c", "setsid sleep 1000 & echo ready; wait")
        process.kill()
        until = time.monotonic() + DEADLINE_S
        while marked(self.mark) and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(marked(self.mark), [])

    def test_nothing_is_left_where_the_process_that_watches_is_killed_alone(self):
        process = self.started("sh", "-c", "setsid sleep 1000 & echo ready $PPID; wait")
        os.kill(int(self.said_ready.split()[-1]), signal.SIGKILL)
        said = self.ended(process)
        self.assertEqual((said.status, said.err), (2, "lockstep: the process that watches over the ranks is gone\n"))
        self.assertEqual((marked(self.mark), os.listdir(self.environment["TMPDIR"])), ([], []))

    def test_a_shells_own_children_are_left_alone(self):
        process = self.start(["sh", "-c", 'sleep 1000 & echo $!; exec "$0" launch -n 1 -- sh -c "echo ready \\$PPID; exec sleep 1000"',
                              LOCKSTEP])
        shells, server = (int(process.stdout.readline().split()[-1]) for _ in range(2))
        os.kill(server, signal.SIGKILL)
        self.assertEqual(process.wait(DEADLINE_S), 2)
        os.kill(shells, signal.SIGKILL)  # which throws if it is gone

    def test_what_ranks_left_running_ends_with_them(self):
        said = self.launch(2, "sh", "-c", "setsid sleep 1000 & echo bye")
        self.assertEqual((said.status, said.out.count("bye")), (0, 2))

    def test_its_store_is_on_loopback_alone(self):
        process = self.started("sh", "-c", "echo ready $MASTER_PORT; sleep 1000")
        port = int(self.said_ready.split()[-1])
        with open("/proc/net/tcp", encoding="ascii") as file:
            sockets = [line.split() for line in file]
        at = [address for _, address, _, state, *_ in sockets if state == "0A" and int(address[-4:], 16) == port]
        process.send_signal(signal.SIGTERM)
        self.ended(process)
        self.assertEqual(at, ["0100007F:%04X" % port])

    def test_variables_are_torchruns(self):
        said = self.launch(2, "env")
        for rank in "01":
            for variable in ("RANK=" + rank, "LOCAL_RANK=" + rank, "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                             "TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RESTART_COUNT=0"):
                self.assertIn("[%s] %s\n" % (rank, variable), said.out)
        self.assertEqual(len(set(re.findall(r"MASTER_PORT=(\d+)", said.out))), 1)

    def test_ranks_share_a_secret_that_is_new_each_time_unless_the_caller_has_one(self):
        secrets = [re.findall(r"LOCKSTEP_SECRET=(\w+)", self.launch(2, "env").out) for _ in range(2)]
        self.assertEqual([len(each) for each in secrets], [2, 2])
        self.assertEqual([len(set(each)) for each in secrets], [1, 1])
        self.assertNotEqual(secrets[0], secrets[1])
        own = self.launch(2, "env", LOCKSTEP_SECRET="mine").out
        self.assertEqual(re.findall(r"LOCKSTEP_SECRET=(\w+)", own), ["mine"] * 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
