"""Two hosts on this machine: network namespaces with a cable between them, which know each other by name."""

import os
import shutil
import signal
import subprocess

ADDRESSES = ("10.231.7.1", "10.231.7.2")
HOSTS = range(2)


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


class TwoHosts:
    """The hosts of a Launched test case: two network namespaces, self.names, that see each other at ADDRESSES and by these names."""

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
        self.hosts_file = os.path.join(self.folder(), "hosts")
        with open(self.hosts_file, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + "".join(map("%s %s\n".__mod__, zip(ADDRESSES, self.names))))
        entered = subprocess.run(self.on_host(0, ["true"]), capture_output=True, text=True, check=False)
        if entered.returncode != 0:
            self.skipTest("this system does not let a namespace have names of its own: " + entered.stderr.strip())

    def ip_all(self, *arguments):
        done = ip(*arguments)
        if done.returncode != 0:
            self.skipTest("ip %s: %s" % (" ".join(arguments), done.stderr.strip()))

    def on_host(self, host, command):
        """With a name of its own, too, so that it is a host to a program that counts hosts."""
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "sh", "-c",
                'mount --bind "$1" /etc/hosts && hostname "$0" && shift && exec "$@"', self.names[host], self.hosts_file, *command]

    def cut_the_cable(self):
        self.ip_all("-n", self.names[1], "link", "set", "cable", "down")

    def end_processes(self, host):
        """At once, all that run on one host."""
        for process in ip("netns", "pids", self.names[host]).stdout.split():
            try:
                os.kill(int(process), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def switch_off(self, host):
        """Ends the host's processes; the other host receives nothing about it."""
        self.cut_the_cable()
        self.end_processes(host)
