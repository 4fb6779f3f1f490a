"""Two hosts on this machine: network namespaces with a cable between them."""

import os
import shutil
import subprocess

ADDRESSES = ("10.231.7.1", "10.231.7.2")
HOSTS = range(2)


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


class TwoHosts:
    """Of a test case: two network namespaces, self.names, that see each other at ADDRESSES."""

    def make_hosts(self):
        if os.getuid() != 0:
            self.skipTest("only root makes network namespaces")
        if not shutil.which("ip"):
            self.skipTest("ip is not installed: apt-get install iproute2")
        self.names = ["lockstep-%d-%d" % (os.getpid(), host) for host in HOSTS]
        for name in self.names:
            self.addCleanup(ip, "netns", "delete", name)  # the cable goes with its ends
            made = ip("netns", "add", name)
            if made.returncode != 0:
                self.skipTest("this system makes no network namespaces: " + made.stderr.strip())
        self.ip_all("link", "add", "cable", "netns", self.names[0], "type", "veth", "peer", "name", "cable", "netns",
                    self.names[1])
        for name, address in zip(self.names, ADDRESSES):
            self.ip_all("-n", name, "address", "add", address + "/24", "dev", "cable")
            for device in ("cable", "lo"):
                self.ip_all("-n", name, "link", "set", device, "up")

    def ip_all(self, *arguments):
        done = ip(*arguments)
        if done.returncode != 0:
            self.skipTest("ip %s: %s" % (" ".join(arguments), done.stderr.strip()))

    def on_host(self, host, command):
        """With a name of its own, too, so that it is a host to whoever counts them."""
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"',
                self.names[host], *command]

    def cut_the_cable(self):
        self.ip_all("-n", self.names[1], "link", "set", "cable", "down")
