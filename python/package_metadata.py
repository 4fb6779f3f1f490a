"""The parts of the package's metadata that depend on the environment of its build: pyproject.toml asks for it."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def series_of_torch() -> str:
    """Such as "2.11": releases of one series have one layout of classes."""
    # -I: pip builds with a path of its own, which lacks the environment's packages.
    origin = subprocess.run([sys.executable, "-I", "-c", "import importlib.util; print(importlib.util.find_spec('torch').origin)"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    if not origin:
        raise RuntimeError(f"{sys.executable} finds no PyTorch: the package of Lockstep is built against that of the environment "
                           "which it is for, so install torch there first")
    return re.search(r"__version__ = '(\d+\.\d+)", pathlib.Path(origin).with_name("version.py").read_text(encoding="utf-8")).group(1)


def dynamic_metadata(field: str, settings: dict | None = None, *_: object) -> str | list[str]:
    """The version, 0.1.0+torch2.11 say, and the requirement that goes with it."""
    if field == "dependencies":
        return [f"torch=={series_of_torch()}.*"]
    version = re.search(r"project\(lockstep VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    return f"{version}+torch{series_of_torch()}"
