"""Strangers at the ports of a launched campaign on this machine.

usage: test_strangers.py LOCKSTEP_TOYS LOCKSTEP [TEST ...]
"""

import socket
import struct
import threading
import time
import unittest

from campaign_case import Campaign

# Requests of c10d's TCPStore: a client says that it is one, then sets keys.
VALIDATE, SET, MAGIC = 0, 1, 0x3C85F7CE
RANK_ZERO = b"/lockstep/campaign/attempt_0/rank_zero"


def counted(text):
    return struct.pack("=Q", len(text)) + text


class Stranger(threading.Thread):
    """Sets the key at which rank 0 once said where it is, over and over, as soon as the store answers; and counts who
    then comes to the address that it says."""

    def __init__(self, port):
        super().__init__()
        self.port, self.is_over, self.came, self.has_set = port, False, 0, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        here = b'{"address":"127.0.0.1","port":%d,"token":"t"}' % self.listener.getsockname()[1]
        self.message = bytes([SET]) + counted(RANK_ZERO) + counted(here)

    def run(self):
        while not self.is_over:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as store:
                    store.sendall(bytes([VALIDATE]) + struct.pack("=I", MAGIC))
                    while not self.is_over:
                        store.sendall(self.message)
                        self.has_set = True
                        self.look()
                        time.sleep(0.001)  # a flood makes the store drop its client
            except OSError:
                continue
        self.listener.close()

    def look(self):
        try:
            self.listener.accept()[0].close()
            self.came += 1
        except BlockingIOError:
            pass


class Strangers(Campaign):
    def test_rank_zeros_address_is_not_a_strangers_to_say(self):
        world = self.by_hand(3, self.run_of("toys.hold", "--cases", "2"))
        stranger = Stranger(int(self.world["MASTER_PORT"]))
        stranger.start()
        try:
            said = self.all_ended(world)
        finally:
            stranger.is_over = True
            stranger.join()
        self.assertTrue(stranger.has_set)
        self.assertEqual(stranger.came, 0)
        self.assert_only_rank_zero_speaks(said, 0)

    def test_processes_with_one_secret_are_one_campaign(self):
        said = self.all_ended(self.by_hand(3, self.run_of("toys.hold", "--cases", "2"), LOCKSTEP_SECRET="of all"))
        self.assert_only_rank_zero_speaks(said, 0)

    def test_a_process_with_another_secret_says_what_to_do(self):
        rank_zero = self.by_hand(2, self.run_of("toys.hold"), ranks=[0], LOCKSTEP_SECRET="of all")[0]
        said = self.ended(self.start(self.run_of("toys.hold"), {"RANK": "1", **self.world, "LOCKSTEP_SECRET": "another"}))
        self.end(rank_zero)
        self.assertEqual((said.status, said.out), (2, ""), str(said))
        self.assertIn("rank 0 does not prove that it has the LOCKSTEP_SECRET of this process: give all processes of the campaign "
                      "the same LOCKSTEP_SECRET", said.err)

    def test_all_say_which_process_has_a_secret_and_which_has_none(self):
        for own in range(2):
            run = self.run_of("toys.hold")
            world = self.by_hand(2, [["env", "LOCKSTEP_SECRET=mine", *run] if rank == own else run for rank in range(2)])
            for said in self.all_ended(world):
                self.assertEqual((said.status, said.out), (2, ""), str(said))
                self.assertIn("the processes do not agree on LOCKSTEP_SECRET: rank 0 has %s, and rank 1 has %s: give all processes "
                              "of the campaign the same one" % (("one", "none") if own == 0 else ("none", "one")), said.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
