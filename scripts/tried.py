#!/usr/bin/env python3
"""Runs crashcut on programs and suites from Debian and says in docs/tried.md what was expected and what it said.

Three parts: programs that save, under crashcut check; threaded programs, under crashcut threads; suites that work a
filesystem hard, in crashcut mount. Every row has the version that was run, what was expected, what was said, how much was
explored and how long it took. A difference has its reason beside it, in the script or table that names the program.

Exit codes: 0 the page was made, 1 a row differs from what is expected without a reason, 2 wrong use, 4 crashcut or a
program could not do its work, 77 it cannot run here.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import programs  # noqa: E402  (the checks of single programs and what they can lose)

ROOT = programs.ROOT
PAGE = ROOT / "docs" / "tried.md"
SOURCES = ROOT / "workloads" / "tried"

# Scripts of workloads/programs that the table of docs/programs.md does not have.
CHECKED = ["nvim", "mg", "jed", "kak", "ne", "nvi", "in_place", "java", "glib", "qt", "hg", "dpkg", "useradd",
           "rocksdb", "bdb", "etcd", "postgresql", "mariadb"]
NOT_INSTALLED = "not installed"
EXPECTED_TEXT = {
    "safe": "safe: old or new, and new once it said so",
    "atomic": "old or new, whole; old may be back",
    "loses": "can be lost: nothing is fsynced before the old one goes",
}


@dataclasses.dataclass
class Row:
    name: str
    version: str
    command: str
    expected: str
    said: str
    explored: str
    seconds: float
    differs: bool = False
    because: str = ""

    def cells(self):
        verdict = self.because or ("**not explained**" if self.differs else "")
        return [f"`{self.name}`", self.version, self.command, self.expected, self.said, self.explored,
                f"{self.seconds:.1f} s", verdict]


@dataclasses.dataclass
class Threaded:
    """A program under crashcut threads. `files` is what it finds on its disk."""
    name: str
    packages: list
    words: list
    expected: str               # "nothing found", or what the violation's headline must contain
    options: list = dataclasses.field(default_factory=list)
    files: dict = dataclasses.field(default_factory=dict)
    source: str = ""            # in workloads/tried, compiled first; words[0] is then its executable
    libraries: list = dataclasses.field(default_factory=list)
    because: str = ""


@dataclasses.dataclass
class Suite:
    """A command in a directory that crashcut mount made."""
    name: str
    packages: list
    words: list
    expected: str = "no error"
    because: str = ""


TEXT = "".join(f"line {i * 7919 % 1000} of a text that can be made smaller\n" for i in range(400))

THREADED = [
    Threaded("zstd -T2", ["zstd"], ["/usr/bin/zstd", "-q", "-T2", "-B1MB", "--no-progress", "text", "-o", "out.zst"],
             "nothing found", files={"text": TEXT}),
    Threaded("xz -T2", ["xz-utils"], ["/usr/bin/xz", "-k", "-T2", "--block-size=8KiB", "-0", "text"], "nothing found",
             files={"text": TEXT}),
    Threaded("pigz -p2", ["pigz"], ["/usr/bin/pigz", "-k", "-p2", "-b", "128", "text"], "nothing found",
             files={"text": TEXT}),
    Threaded("pbzip2 -p2", ["pbzip2"], ["/usr/bin/pbzip2", "-k", "-p2", "-b1", "text"], "nothing found",
             files={"text": TEXT}),
    Threaded("lbzip2 -n2", ["lbzip2"], ["/usr/bin/lbzip2", "-k", "-n2", "text"], "nothing found", files={"text": TEXT}),
    Threaded("plzip -n2", ["plzip"], ["/usr/bin/plzip", "-k", "-n2", "-B", "8KiB", "-0", "text"], "nothing found",
             files={"text": TEXT}),
    Threaded("sort --parallel=2", ["coreutils"],
             ["/usr/bin/sort", "--parallel=2", "-S", "1M", "text", "-o", "sorted"], "nothing found", files={"text": TEXT * 400}),
    Threaded("SQLite, one connection", ["libsqlite3-dev"], ["sqlite_threads", "one", "DELETE"], "nothing found",
             source="sqlite_threads.c", libraries=["sqlite3"]),
    Threaded("SQLite, two connections, rollback journal", ["libsqlite3-dev"], ["sqlite_threads", "two", "DELETE"],
             "nothing found", source="sqlite_threads.c", libraries=["sqlite3"]),
    Threaded("SQLite, two connections, WAL", ["libsqlite3-dev"], ["sqlite_threads", "two", "WAL"], "nothing found",
             source="sqlite_threads.c", libraries=["sqlite3"],
             because="refused by name: WAL maps its index shared and writable; `crashcut check` takes it, and the sentence names a way without"),
    Threaded("LevelDB, two writers", ["libleveldb-dev"], ["leveldb_threads"], "nothing found",
             source="leveldb_threads.cc", libraries=["leveldb"]),
    Threaded("Boost.Asio thread_pool", ["libboost-dev"], ["asio_pool"], "nothing found", source="asio_pool.cc"),
    Threaded("oneTBB parallel_for", ["libtbb-dev"], ["tbb_sum"], "nothing found", source="tbb_sum.cc", libraries=["tbb"]),
    Threaded("std::async", ["g++"], ["async_sum"], "nothing found", source="async_sum.cc"),
    Threaded("C++ bounded queue", ["g++"], ["queue", "right"], "nothing found", source="queue.cc"),
    Threaded("C++ bounded queue, one condition for two", ["g++"], ["queue", "wrong"], "deadlock", source="queue.cc"),
    Threaded("Rust Mutex and Condvar", ["rustc"], ["handover", "right"], "nothing found", source="handover.rs"),
    Threaded("Rust Mutex, two locks crosswise", ["rustc"], ["handover", "crosswise"], "deadlock", source="handover.rs",
             because="not found: std locks by atomic instructions, and no operation comes between the two; the verdict says "
                     "that they are not seen (docs/scheduler.md, Rust)"),
    Threaded("Rust mpsc", ["rustc"], ["handover", "channel"], "nothing found", source="handover.rs"),
]

FIO = ["fio", "--name=v", "--directory=.", "--size=1M", "--bs=4k", "--rw=randwrite", "--verify=crc32c",
       "--verify_fatal=1", "--randrepeat=1", "--output=/dev/null"]
FIO_ENGINES = ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "mmap", "io_uring", "ftruncate",
               "falloc", "filecreate", "filestat", "filedelete"]
# Engines that make, look at or remove files take no pattern that could be verified.
FIO_WITHOUT_DATA = {"ftruncate", "falloc", "filecreate", "filestat", "filedelete"}
# They mount, or look at the system and not at files.
STRESSORS_LEFT_OUT = {"bind-mount", "binderfs", "procfs", "fanotify"}


def suites():
    for engine in FIO_ENGINES:
        words = [word for word in FIO if "verify" not in word] if engine in FIO_WITHOUT_DATA else list(FIO)
        if engine == "ftruncate":
            words = [word if not word.startswith("--rw") else "--rw=write" for word in words]
        yield Suite(f"fio --ioengine={engine}", ["fio"], [*words, f"--ioengine={engine}"])
    listed = subprocess.run(["stress-ng", "--class", "filesystem?"], capture_output=True, text=True, check=False).stdout
    for stressor in sorted(set(listed.partition(":")[2].split()) - STRESSORS_LEFT_OUT):
        yield Suite(f"stress-ng --{stressor}", ["stress-ng"],
                    ["stress-ng", f"--{stressor}", "1", "--timeout", "2s", "--verify", "--temp-path", ".", "-q"])
    yield Suite("dbench 2", ["dbench"], ["dbench", "-t", "5", "-D", ".", "2"])


# ---- running ---------------------------------------------------------------------------------------------------

def version_of(packages):
    run = subprocess.run(["dpkg-query", "-W", "-f=${Version}", packages[0]], capture_output=True, text=True, check=False)
    if run.returncode == 0 and run.stdout:
        return re.sub(r"^\d+:", "", run.stdout)
    if packages[0] == "rustc" and shutil.which("rustc"):  # a toolchain of the user's own
        return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    return NOT_INSTALLED


def class_of(losses):
    if losses.lost("while") or losses.lost("after"):
        return "loses"
    return "atomic" if "old" in losses.found["after"] else "safe"


def check_row(script, variant, settings):
    begin = time.monotonic()
    losses, steps = programs.check(script, variant, "ordered", settings)
    seconds = time.monotonic() - begin
    ask = lambda verb: programs.lists(script, verb, variant)  # noqa: E731
    expected = (ask("expected") or [""])[0]
    said = class_of(losses)
    names = sorted({what for when in ("while", "after") for what in losses.lost(when)})
    text = {"safe": "safe", "atomic": "old may be back", "loses": f"**{', '.join(names)}**"}[said]
    if losses.partial:
        text += " †"
    recoveries = f"{losses.recoveries} recoveries"
    packages = programs.lists(script, "packages")
    word = re.match(r"\w+", variant)[0]
    package = next((name for name in packages if word in name), packages[0])
    return Row(variant, version_of([package]), steps, EXPECTED_TEXT[expected], text, recoveries,
               seconds, said != expected, " ".join(ask("because")))


def build_threaded(case, settings):
    """The executable of a case that is compiled from our source; None where there is no compiler for it."""
    if not case.source:
        return case.words[0] if os.path.exists(case.words[0]) else None
    source = SOURCES / case.source
    target = settings.work / source.stem
    if not target.exists():
        if source.suffix == ".rs":
            command = ["rustc", "-O", "-o", str(target), str(source)]
        else:
            compiler = "gcc" if source.suffix == ".c" else "g++"
            standard = [] if source.suffix == ".c" else ["-std=c++20"]
            command = [compiler, "-O1", "-g", *standard, "-I", str(ROOT / "include"), "-o", str(target), str(source),
                       *[f"-l{name}" for name in case.libraries], "-pthread"]
        if shutil.which(command[0]) is None:
            return None
        subprocess.run(command, check=True)
    return str(target)


def thread_row(case, settings):
    program = build_threaded(case, settings)
    if program is None:
        return None
    disk = settings.work / "disk"
    shutil.rmtree(disk, ignore_errors=True)
    disk.mkdir()
    for name, text in case.files.items():
        (disk / name).write_text(text)
    result_path = settings.work / "result.json"
    result_path.unlink(missing_ok=True)
    words = [program, *case.words[1:]]
    command = [str(settings.crashcut), "threads", "--time", str(settings.time), "--from", str(disk), *case.options,
               "--json", str(result_path), "--", *words]
    begin = time.monotonic()
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    seconds = time.monotonic() - begin
    if run.returncode not in (0, 1, 3):
        said = (run.stderr.strip() or run.stdout.strip()).splitlines()
        said, explored = f"exit {run.returncode}: {said[-1] if said else 'nothing'}", "-"
    else:
        result = json.loads(result_path.read_text())
        said = result["verdict"] + (f": {headline_of(run.stdout)}" if run.returncode == 1 else "")
        said += f" ({result['bound_hit']})" if run.returncode == 3 else ""
        explored = f"{result['counts']['executions']} executions"
    found = "nothing found" if run.returncode in (0, 3) else said
    differs = case.expected not in found
    shown = " ".join(shlex.quote(word) for word in [pathlib.Path(program).name, *case.words[1:]])
    return Row(case.name, version_of(case.packages), f"`{shown}`", case.expected, said, explored, seconds, differs,
               case.because)


def headline_of(text):
    for line in text.splitlines():
        if line.startswith("violation"):
            return line.partition(":")[2].split(";")[0].strip()
    return ""


def suite_row(case, settings):
    mountpoint = settings.work / "mnt"
    mountpoint.mkdir(exist_ok=True)
    command = [str(settings.crashcut), "mount", str(mountpoint), "--", *case.words]
    begin = time.monotonic()
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
                         timeout=600)
    seconds = time.monotonic() - begin
    last = (run.stderr.strip() or run.stdout.strip()).splitlines()
    said = "no error" if run.returncode == 0 else f"exit {run.returncode}: {last[-1] if last else 'nothing'}"
    return Row(case.name, version_of(case.packages), f"`{' '.join(case.words[1:5])} ...`", case.expected, said, "-",
               seconds, run.returncode != 0, case.because)


# ---- the page --------------------------------------------------------------------------------------------------

PARTS = ["check", "threads", "suites"]
HEAD = ["program", "version", "what was run", "expected", "crashcut said", "explored", "time", "difference"]
BEGIN = "<!-- {}: made by scripts/tried.py --update -->"
END = "<!-- {}: end -->"


def table(rows):
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row.cells()) + " |" for row in rows]


def update_page(part, rows, is_whole):
    text = PAGE.read_text()
    begin, end = BEGIN.format(part), END.format(part)
    if begin not in text or end not in text:
        sys.exit(f"tried: {PAGE} has no lines {begin} and {end}")
    lines = table(rows)
    if not is_whole:  # the rows of the programs that were named; the others stay
        known = {line.split("|")[1]: line for line in text[text.index(begin):text.index(end)].splitlines()
                 if line.startswith("| `")}
        known.update({line.split("|")[1]: line for line in lines[2:]})
        lines = lines[:2] + list(known.values())
    PAGE.write_text(text[:text.index(begin)] + begin + "\n\n" + "\n".join(lines) + "\n\n" + text[text.index(end):])


def cases_of(part, only):
    if part == "check":
        cases = [(variant, programs.lists(script, "packages"), (script, variant))
                 for script in CHECKED for variant in programs.lists(script, "variants")
                 if not only or script in only or variant in only]
        return cases
    everything = THREADED if part == "threads" else list(suites())
    return [(case.name, case.packages, case) for case in everything if not only or case.name in only]


def make_row(part, case, settings):
    if part == "check":
        return check_row(*case, settings)
    return thread_row(case, settings) if part == "threads" else suite_row(case, settings)


def install(packages, settings):
    missing = [package for package in sorted(packages) if version_of([package]) == NOT_INSTALLED]
    if missing and not settings.no_install:
        print(f"tried: installing {' '.join(missing)}", file=sys.stderr)
        subprocess.run([str(ROOT / "scripts/setup.sh"), *missing], stdout=sys.stderr, check=True)
        missing = []
    return set(missing)


def run_part(part, settings):
    cases = cases_of(part, settings.only)
    missing = install({package for _, packages, _ in cases for package in packages}, settings)
    rows, failures = [], []
    for number, (name, packages, case) in enumerate(cases, 1):
        print(f"tried: {part} {number}/{len(cases)} {name}", file=sys.stderr)
        if missing & set(packages):
            print(f"tried: {name}: skipped, it is not installed", file=sys.stderr)
            continue
        try:
            row = make_row(part, case, settings)
        except (programs.CheckFailed, subprocess.SubprocessError) as failure:
            failures.append(f"{name}: {failure}")
            print(f"tried: {name}: FAILED: {failure}", file=sys.stderr)
            continue
        if row is None:
            print(f"tried: {name}: skipped, there is no compiler for it here", file=sys.stderr)
            continue
        rows.append(row)
        print("  ".join(row.cells()), flush=True)
    if settings.update and rows:
        update_page(part, rows, is_whole=not settings.only)
    return rows, failures


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="programs, e.g. mg, 'zstd -T2', 'fio --ioengine=mmap' (default: all)")
    parser.add_argument("--part", choices=PARTS, action="append", help="one part only (default: all three)")
    parser.add_argument("--update", action="store_true", help="write docs/tried.md")
    parser.add_argument("--no-install", action="store_true", help="install nothing; leave out what is missing")
    parser.add_argument("--time", type=int, default=60, help="seconds for one search (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--crashcut", type=pathlib.Path, default=ROOT / "build/release/crashcut")
    parser.add_argument("--drivers", type=pathlib.Path, help="where the drivers were built (default: beside crashcut)")
    settings = parser.parse_args()
    settings.crashcut = settings.crashcut.resolve()
    settings.drivers = settings.drivers or settings.crashcut.parent / "drivers"
    settings.keep, settings.keep_all = None, False
    settings.environment = os.environ | {"CRASHCUT": str(settings.crashcut), "PROGRAM_DRIVERS": str(settings.drivers.resolve())}
    return settings


def main():
    settings = parse_arguments()
    if not settings.crashcut.exists():
        sys.exit(f"tried: no {settings.crashcut}; scripts/build.sh builds it")
    if not os.path.exists("/dev/fuse"):
        print("tried: skipped, there is no /dev/fuse", file=sys.stderr)
        sys.exit(77)
    parts = settings.part or list(PARTS)
    if settings.only and not any(cases_of(part, settings.only) for part in parts):
        print(f"tried: nothing is called {' '.join(settings.only)}", file=sys.stderr)
        sys.exit(2)
    rows, failures = [], []
    with tempfile.TemporaryDirectory(prefix="tried.") as work:
        settings.work = pathlib.Path(work)
        for part in parts:
            if part == "check":
                cases = [case for _, _, case in cases_of(part, settings.only)]
                programs.build_drivers(cases, settings)
            made, failed = run_part(part, settings)
            rows += made
            failures += failed
    unexplained = [row.name for row in rows if row.differs and not row.because]
    print(f"tried: {len(rows)} rows, {len([row for row in rows if row.differs])} differ from what was expected, "
          f"{len(unexplained)} of them without a reason; {len(failures)} failed", file=sys.stderr)
    sys.exit(4 if failures else 1 if unexplained else 0)


if __name__ == "__main__":
    main()
