"""crashcut in pytest: pulls the plug on a function that saves files.

    # conftest.py: pytest_plugins = ["crashcut_pytest"]
    def save():
        with open("notes.tmp", "w") as file:
            file.write("new")
            file.flush()
            os.fsync(file.fileno())
        os.rename("notes.tmp", "notes.txt")
        ...

    def test_save(crashcut_check):
        crashcut_check(save, before={"notes.txt": "old"})

The function runs once, in a Python of its own, on a disk that holds the versions before. Its current directory is the root of that disk.
Then `crashcut check` looks at every state that a crash can leave. Each file must be found old or new, whole, and new once the function has
returned. The test fails with crashcut's report. It is skipped if a bound (--time, --max-recoveries) ended the search with nothing found.
"""

import os
import subprocess
import sys

import pytest

VERIFIED, VIOLATION, BOUNDED = 0, 1, 3  # exit codes of crashcut
# Modules are not looked for in the current directory, which is the disk.
CALL = "import sys; sys.path.pop(0); import importlib; getattr(importlib.import_module(sys.argv[1]), sys.argv[2])()"


class CrashcutFailed(Exception):
    """crashcut has no verdict. This is no violation."""


def pytest_addoption(parser):
    parser.addoption("--crashcut", default="crashcut", metavar="PATH", help="the command crashcut (default: that in PATH)")


def words_of(function):
    """How another Python finds the function: its module and its name there."""
    name = getattr(function, "__qualname__", "")
    if not name.isidentifier() or getattr(sys.modules.get(function.__module__), name, None) is not function:
        raise ValueError(f"{function!r} cannot be found by its name: crashcut_check() takes a function of a module, not one that is made "
                         "in another function, nor a lambda or a method")
    return [function.__module__, name]


def make_files(directory, files):
    directory.mkdir()
    for name, contents in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())


@pytest.fixture
def crashcut_check(request, tmp_path):
    """crashcut_check(function, saves, before, options): fails if a crash while `function` runs, or after it, can lose data.

    saves: the files that are asked about (default: those of `before`; every file if there are none)
    before: {name: contents} that the disk holds at first, str or bytes
    options: more options of crashcut check, such as ["--data", "journal"]
    """
    def check(function, saves=None, before=None, options=()):
        before = before or {}
        count = len(list(tmp_path.glob("before*")))
        make_files(tmp_path / f"before{count}", before)
        words = [request.config.getoption("--crashcut"), "check", "--from", str(tmp_path / f"before{count}"),
                 "--out", str(tmp_path / f"crashcut.out{count}"), *options]
        for name in before if saves is None else saves:
            words += ["--file", name]
        words += ["--", sys.executable, "-B", "-c", CALL, *words_of(function)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        run = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", env=environment, check=False)
        if run.returncode == VIOLATION:
            pytest.fail(run.stdout, pytrace=False)
        if run.returncode == BOUNDED:
            pytest.skip(run.stdout.splitlines()[-1])
        if run.returncode != VERIFIED:
            raise CrashcutFailed(run.stdout)

    return check
