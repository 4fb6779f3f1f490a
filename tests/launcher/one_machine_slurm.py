"""A Slurm cluster of this machine alone, in a folder of its own, for as long as a test runs."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
READY_S = 30
CONFIGURATION = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slurm:
    def __init__(self):
        self.folder = None
        self.processes = []
        self.environment = {}

    def start(self):
        """Why there is none; nothing once it takes jobs."""
        missing = [tool for tool in TOOLS if not shutil.which(tool)]
        if missing:
            return "%s not installed: apt-get install slurm-wlm" % ", ".join(missing)
        if os.getuid() != 0:
            return "slurmd starts jobs as root only"
        self.folder = tempfile.mkdtemp(prefix="lockstep-slurm-")
        for name in ("state", "spool"):
            os.mkdir(os.path.join(self.folder, name))
        key = os.path.join(self.folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
            file.write(os.urandom(128))
        configuration = os.path.join(self.folder, "slurm.conf")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(host=socket.gethostname().split(".")[0], user="root", folder=self.folder,
                                            controller_port=_free_port(), daemon_port=_free_port()))
        self.environment = {"SLURM_CONF": configuration}
        munge = ["--%s=%s/munge.%s" % (name + "-file" * (name != "socket"), self.folder, name)
                 for name in ("socket", "pid", "log", "seed")]
        self._run("munged", "--foreground", "--force", "--key-file=" + key, *munge)
        self._wait_for(lambda: os.path.exists(os.path.join(self.folder, "munge.socket")))
        self._run("slurmctld", "-D")
        self._run("slurmd", "-D")
        if self._wait_for(self._is_idle):
            return None
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return "the cluster of this machine takes no jobs: " + " | ".join(file.read().splitlines()[-5:])

    def _run(self, *command):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.processes.append(subprocess.Popen(command, env={**os.environ, **self.environment}, stdout=log,
                                                   stderr=log, stdin=subprocess.DEVNULL, start_new_session=True))

    def _is_idle(self):
        state = subprocess.run(["sinfo", "--noheader", "--format=%T"], env={**os.environ, **self.environment},
                               capture_output=True, text=True, check=False, timeout=READY_S)
        return state.stdout.strip() == "idle"

    @staticmethod
    def _wait_for(condition):
        deadline = time.monotonic() + READY_S
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
