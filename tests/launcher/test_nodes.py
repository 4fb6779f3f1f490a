"""lockstep launch --nnodes: one program on several machines, as network namespaces or as launchers on this one.

usage: test_nodes.py PROGRAM LOCKSTEP [TEST ...], where PROGRAM is tests/launcher/launched
"""

import re
import signal
import socket
import threading
import time
import unittest

from campaign_case import LOCKSTEP, Campaign, marked
from launched_case import PROGRAM, free_port
from processes import DEADLINE_S
from two_hosts import ADDRESSES, TwoHosts

WAITS = ("sh", "-c", "echo ready; sleep 1000")


class Nodes(Campaign):
    def setUp(self):
        super().setUp()
        self.place = "127.0.0.1:%d" % free_port()

    def command(self, node, *command, ranks=2, nodes=2, timeout="60"):
        return [LOCKSTEP, "launch", "-n", str(ranks), "--nnodes", str(nodes), "--node-rank", str(node), "--rendezvous",
                self.place, "--timeout", timeout, "--", *command]

    def node(self, node, *command, variables=None, **options):
        return self.start(self.command(node, *command, **options), variables or {})

    def both(self, *command, **options):
        return self.all_ended([self.node(node, *command, **options) for node in (1, 0)])[::-1]

    def assert_both(self, said, status, err):
        for one in said:
            self.assertEqual((one.status, one.err), (status, err), "\n".join(map(str, said)))

    def ready(self, *command, count=2):
        """Two nodes whose ranks have all said so."""
        nodes = [self.node(node, *command) for node in range(2)]
        for node in nodes:
            for _ in range(count):
                self.assertIn("ready", node.stdout.readline())
        return nodes


class Together(Nodes):
    def test_ranks_are_numbered_over_the_nodes_whichever_comes_first(self):
        first, second = self.both(PROGRAM)
        self.assertEqual((first.status, first.err, second.status, second.err), (0, "", 0, ""), "%s\n%s" % (first, second))
        self.assertEqual(sorted(first.out.splitlines()), ["[%d] rank %d of 4, here %d, sum 10" % (rank, rank, rank)
                                                          for rank in (0, 1)])
        self.assertEqual(sorted(second.out.splitlines()), ["[%d] rank %d of 4, here %d, sum 10" % (rank, rank, rank - 2)
                                                           for rank in (2, 3)])

    def test_nodes_may_have_unequally_many_ranks(self):
        said = self.all_ended([self.node(node, "sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK "
                                                           "$GROUP_WORLD_SIZE", ranks=ranks, nodes=3)
                               for node, ranks in ((2, 1), (0, 1), (1, 3))])
        self.assertEqual([sorted(one.out.splitlines()) for one in said],
                         [["[4] 4 5 0 1 2 3"], ["[0] 0 5 0 1 0 3"],
                          ["[1] 1 5 0 3 1 3", "[2] 2 5 1 3 1 3", "[3] 3 5 2 3 1 3"]])

    def test_all_ranks_have_the_name_of_one_launch(self):
        said = self.both("sh", "-c", "echo $TORCHELASTIC_RUN_ID $MASTER_ADDR $MASTER_PORT")
        self.assertEqual(len({line.split(" ", 1)[1] for one in said for line in one.out.splitlines()}), 1)

    def test_who_fails_first_decides_on_every_node(self):
        said = self.both("sh", "-c", "test $RANK = 3 && exit 5; sleep 1000")
        self.assert_both(said, 5, "lockstep: rank 3 of node 1 failed first, with exit code 5\n")

    def test_the_earliest_report_is_the_cause_whichever_node_hears_of_it_first(self):
        report = ('echo "{\\"message\\": {\\"message\\": \\"the disk of $RANK is full\\", \\"extraInfo\\": '
                  '{\\"time_ns\\": \\"$((9 - RANK))\\"}}}" > "$TORCHELASTIC_ERROR_FILE"; exit $((RANK + 3))')
        said = self.both("sh", "-c", report)
        self.assert_both(said, 6, "lockstep: rank 3 of node 1 failed first, with exit code 6: the disk of 3 is full\n")

    def test_where_all_exit_alike_nobody_is_named(self):
        self.assert_both(self.both("sh", "-c", "exit 77"), 77, "lockstep: every rank exited with code 77\n")
        said = self.both("sh", "-c", "test $RANK -lt 2 || exit 77")
        self.assert_both(said, 77, "lockstep: every rank of node 1 exited with code 77\n")

    def test_a_signal_to_one_node_is_passed_on_to_all(self):
        for told in range(2):
            nodes = self.ready("sh", "-c", "trap 'exit 0' INT; echo ready; while :; do sleep 0.1; done")
            nodes[told].send_signal(signal.SIGINT)
            self.assert_both(self.all_ended(nodes), 130, "lockstep: ended by SIGINT\n")

    def test_a_launcher_that_is_killed_ends_the_others_which_name_it(self):
        for killed in range(2):
            nodes = self.ready(*WAITS)
            nodes[killed].kill()
            said = self.ended(nodes[1 - killed])
            self.assertEqual(said.status, 2, str(said))
            self.assertRegex(said.err, r"^lockstep: node %d \(\S+\) is gone: its launcher has been killed, or its host does "
                                       r"not answer\n$" % killed)
            self.ended(nodes[killed])
            until = time.monotonic() + DEADLINE_S
            while marked(self.mark) and time.monotonic() < until:
                time.sleep(0.02)
            self.assertEqual(marked(self.mark), [])


class Meeting(Nodes):
    def test_nodes_that_do_not_come_are_named_to_those_that_do(self):
        said = self.all_ended([self.node(node, "true", nodes=4, timeout="2") for node in (0, 2)])
        for node, one in zip((0, 2), said):
            self.assertEqual((one.status, one.out, one.err),
                             (2, "", "lockstep: launch: node %d of 4 at %s: these nodes did not come within 2000 ms: 1, 3 "
                                     "(these did: 0, 2)\n" % (node, self.place)))

    def test_without_node_zero_the_others_say_so(self):
        said = self.ended(self.node(1, "true", timeout="1"))
        self.assertEqual(said.status, 2)
        self.assertIn("lockstep: launch: node 1 of 2 at %s: node 0 has not come, or is on another host (" % self.place, said.err)

    def test_two_of_one_number_are_refused_with_all(self):
        said = self.all_ended([self.node(node, "true", nodes=3) for node in (0, 2, 2)])
        for node, one in zip((0, 2, 2), said):
            self.assertEqual(one.status, 2)
            self.assertRegex(one.err, r"^lockstep: launch: node %d of 3 at %s: two launchers were given --node-rank 2, on hosts "
                                      r"\S+ and \S+\n$" % (node, re.escape(self.place)))

    def test_numbers_of_nodes_that_differ_are_refused(self):
        said = self.all_ended([self.node(0, "true", nodes=2), self.node(1, "true", nodes=3)])
        for one in said:
            self.assertEqual(one.status, 2)
            self.assertRegex(one.err, r"node 1 \(host \S+\) was given --nnodes 3, and node 0 --nnodes 2\n$")

    def test_too_many_ranks_together_are_refused(self):
        said = self.all_ended([self.node(0, "true", ranks=4000), self.node(1, "true", ranks=97)])
        for one in said:
            self.assertIn("all nodes together have 4097 ranks, at most 4096 are allowed\n", one.err)

    def test_one_that_was_killed_before_all_came_may_come_again(self):
        waiting = [self.node(node, "true", nodes=3) for node in range(2)]
        for node in waiting:
            self.wait_until_it_takes_signals(node)
        time.sleep(0.3)
        waiting[1].kill()
        self.ended(waiting[1])
        said = self.all_ended([waiting[0], *(self.node(node, "true", nodes=3) for node in (1, 2))])
        self.assertEqual([one.status for one in said], [0, 0, 0], "\n".join(map(str, said)))

    def wait_until_it_takes_signals(self, process):
        """As descriptors: from then on it waits for the others."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            with open("/proc/%d/status" % process.pid, encoding="ascii") as file:
                blocked = int(re.search(r"SigBlk:\s*(\w+)", file.read()).group(1), 16)
            if blocked >> (signal.SIGTERM - 1) & 1:
                return
            time.sleep(0.01)
        self.fail("it never took signals")

    def test_a_signal_ends_the_wait(self):
        for node in range(2):
            process = self.node(node, "true")
            self.wait_until_it_takes_signals(process)
            process.send_signal(signal.SIGTERM)
            said = self.ended(process)
            self.assertEqual((said.status, said.err), (143, "lockstep: ended by SIGTERM before all nodes had come\n"))

    def test_only_who_knows_the_secret_takes_part(self):
        zero = self.node(0, "sh", "-c", "echo $LOCKSTEP_SECRET", variables={"LOCKSTEP_SECRET": "mine"})
        for wrong in ({"LOCKSTEP_SECRET": "yours"}, {}):
            said = self.ended(self.node(1, "true", variables=wrong))
            self.assertEqual(said.status, 2, str(said))
            self.assertRegex(said.err, r"node 1 \(host \S+\) does not prove that it has node 0's LOCKSTEP_SECRET: give all "
                                       r"nodes the same one\n$")
        one = self.node(1, "sh", "-c", "echo $LOCKSTEP_SECRET", variables={"LOCKSTEP_SECRET": "mine"})
        for said in self.all_ended([zero, one]):
            self.assertEqual((said.status, said.out.count("] mine\n")), (0, 2), str(said))

    def test_who_has_a_secret_joins_nobody_without_it(self):
        zero = self.node(0, "true", timeout="3")
        said = self.ended(self.node(1, "true", variables={"LOCKSTEP_SECRET": "mine"}))
        self.assertIn("node 0 does not prove that it has the LOCKSTEP_SECRET of this one: give all nodes the same one\n", said.err)
        self.ended(zero)

    def test_strangers_do_not_disturb(self):
        zero = self.node(0, PROGRAM)
        host, port = self.place.split(":")
        strangers = []
        until = time.monotonic() + DEADLINE_S
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"", b"\0" * 5000, b"\x2d\1\0\0\2\0\0\0{}"):
            while True:
                try:
                    strangers.append(socket.create_connection((host, int(port)), 5))
                    break
                except OSError:
                    self.assertLess(time.monotonic(), until)
                    time.sleep(0.05)
            strangers[-1].sendall(noise)
        said = self.all_ended([zero, self.node(1, PROGRAM)])
        for stranger in strangers:
            stranger.close()
        self.assertEqual([one.status for one in said], [0, 0], "\n".join(map(str, said)))

    def test_a_stranger_at_the_place_is_told_apart(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.place = "127.0.0.1:%d" % server.getsockname()[1]
            threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
            said = self.ended(self.node(1, "true"))
            self.assertIn("what accepts connections there is no `lockstep launch`, or has ended\n", said.err)
            said = self.ended(self.node(0, "true"))
            self.assertRegex(said.err, r"it cannot listen there: .*Address already in use")

    def test_node_zero_is_where_the_address_is(self):
        self.place = "192.0.2.1:29500"
        said = self.ended(self.node(0, "true", timeout="1"))
        self.assertEqual(said.status, 2)
        self.assertIn("node 0 of 2 at 192.0.2.1:29500: ", said.err)

    def test_what_is_missing_or_wrong_is_said(self):
        for flags, sentence in (
                (["--nnodes", "2"], "launch: several nodes need --node-rank, from 0 on, and --rendezvous HOST:PORT"),
                (["--node-rank", "0"], "launch: --node-rank is for several nodes: say --nnodes"),
                (["--nnodes", "2", "--node-rank", "2", "--rendezvous", "a:1"], "--node-rank 2: expected a whole number"),
                (["--nnodes", "2", "--node-rank", "0", "--rendezvous", "a:0"], "--rendezvous 0: expected a whole number"),
                (["--nnodes", "2", "--node-rank", "0", "--rendezvous", ":1"], "--rendezvous :1: expected HOST:PORT"),
                (["--nnodes", "2", "--node-rank", "0", "--rendezvous", "a b"], "--rendezvous a b: expected HOST:PORT")):
            said = self.play([LOCKSTEP, "launch", *flags, "--", "true"])
            self.assertEqual((said.status, said.out), (2, ""), flags)
            self.assertIn(sentence, said.err)

    def test_one_node_is_as_none(self):
        said = self.play([LOCKSTEP, "launch", "--nnodes", "1", "-n", "2", "--", PROGRAM])
        self.assertEqual((said.status, len(said.out.splitlines())), (0, 2), str(said))


class Hosts(TwoHosts, Nodes):
    def setUp(self):
        super().setUp()
        self.make_hosts()
        self.place = ADDRESSES[0] + ":29500"

    def hosts(self, *command, **options):
        return [self.start(self.on_host(node, self.command(node, *command, **options)), {}) for node in range(2)]

    def test_a_world_over_two_hosts_needs_no_python(self):
        said = self.all_ended(self.hosts(PROGRAM))
        self.assertEqual([one.status for one in said], [0, 0], "\n".join(map(str, said)))
        self.assertEqual(sorted(line for one in said for line in one.out.splitlines()),
                         ["[%d] rank %d of 4, here %d, sum 10" % (rank, rank, rank % 2) for rank in range(4)])

    def test_the_hosts_name_will_do(self):
        self.place = ADDRESSES[0]  # and torchrun's port
        said = self.all_ended(self.hosts(PROGRAM))
        self.assertEqual([one.status for one in said], [0, 0], "\n".join(map(str, said)))

    def test_a_campaign_runs_over_both(self):
        said = self.all_ended(self.hosts(LOCKSTEP, "run", "--tier", "launched", "gradients.match", "--cases", "4", "--seed",
                                         "7", "--out", self.out))
        self.assertEqual([one.status for one in said], [0, 0], "\n".join(map(str, said)))
        self.assertIn("1 scenario: 1 passed", said[0].out)

    def test_a_cable_that_is_cut_ends_both(self):
        nodes = self.hosts(*WAITS)
        for node in nodes:
            for _ in range(2):
                self.assertIn("ready", node.stdout.readline())
        self.cut_the_cable()
        for node, said in enumerate(self.all_ended(nodes)):
            self.assertEqual(said.status, 2, str(said))
            self.assertRegex(said.err, r"node %d \(\S+\) is gone: its launcher has been killed, or its host does not answer"
                             % (1 - node))


if __name__ == "__main__":
    unittest.main(verbosity=2)
