#!/usr/bin/env python3
"""Pulls the plug on real programs and says in a Markdown table what each can lose.

Every variant of every script in workloads/programs is checked by crashcut under each journaling mode. What a program
does when it saves is read from the trace (docs/trace_format.md), what it can lose from the outcomes.

Exit codes: 0 the table was made, 1 --compare found that docs/programs.md says otherwise, 2 wrong use, 4 a check failed
(crashcut's failure, or the program did not do its work), 77 it cannot run here.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "workloads" / "programs"
PAGE = ROOT / "docs" / "programs.md"
BEGIN = "<!-- programs: made by scripts/programs.py --update -->"
END = "<!-- programs: end -->"

SCRIPTS = ["shell", "ed", "sed", "nano", "joe", "vim", "emacs", "micro",
           "sqlite", "leveldb", "lmdb", "gdbm", "git", "redis"]
# What ctest runs: some seconds.
SHORT = ["shell", "ed", "sed", "nano", "sqlite3 journal_mode=DELETE synchronous=FULL"]
MODES = {
    "ordered": ["--data", "ordered"],
    "journal": ["--data", "journal"],
    "writeback": ["--data", "writeback"],
    "noauto_da_alloc": ["--data", "ordered", "-o", "noauto_da_alloc"],
    "nodelalloc": ["--data", "ordered", "-o", "nodelalloc"],
}
DEFAULT_MODES = ["ordered", "journal", "writeback"]
STEPS_MOST = 9
# What the checkers print (workloads/programs/program.sh).
OUTCOME = re.compile(r"(while|after): (.*?)(?:; backup: (.*))?")


class CheckFailed(Exception):
    """No verdict: the tool's or the set-up's failure, never a violation."""


# ---- the trace -------------------------------------------------------------------------------------------------

class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self):
        length = self.number()
        self.at += length
        return self.data[self.at - length:self.at].decode(errors="replace")


def records_of(path):
    """The bodies of a trace's records, the header first."""
    data = path.read_bytes()
    at = 12
    while at + 12 <= len(data):
        length = int.from_bytes(data[at:at + 4], "little")
        yield data[at + 12:at + 12 + length]
        at += 12 + length


class Steps:
    """Follows names through a trace and collects (verb, file) of what happened after the set-up."""

    def __init__(self):
        self.names = {}     # (dir, name) -> ino
        self.label = {2: "."}  # ino -> the name that it had last
        self.made = set()   # names that the program created
        self.taken = []     # (verb, label)
        self.started = self.saved = False

    def add(self, verb, label):
        if self.started and not self.saved:
            self.taken.append((verb, label))

    def apply(self, body):
        r = Reader(body)
        call = r.number()
        r.number()
        r.number()
        handler = getattr(self, f"on_{call}", None)
        if handler:
            handler(r)

    def create(self, r, verb):
        ino, key = r.number(), (r.number(), r.text())
        self.names[key] = ino
        self.label[ino] = key[1]
        if self.started:
            self.made.add(key[1])
        self.add(verb, key[1])

    def on_1(self, r):
        self.create(r, "create")

    def on_2(self, r):
        ino, key = r.number(), (r.number(), r.text())
        self.names[key] = ino
        self.label[ino] = key[1] + "/"

    def on_3(self, r):
        self.create(r, "symlink")

    def on_5(self, r):
        ino, key = r.number(), (r.number(), r.text())
        self.add("link", f"{self.label.get(ino)} to {key[1]}")
        self.names[key] = ino

    def on_6(self, r):
        key = (r.number(), r.text())
        ino = self.names.pop(key, None)
        self.add("unlink", key[1])
        for (_, name), other in self.names.items():
            if other == ino:
                self.label[ino] = name  # the one that is left

    def on_8(self, r):
        old, new = (r.number(), r.text()), (r.number(), r.text())
        ino = self.names.pop(old, None)
        over = new in self.names
        self.names[new] = ino
        self.label[ino] = new[1]
        self.add("rename", f"{old[1]} {'over' if over else 'to'} {new[1]}")

    def on_14(self, r):
        ino = r.number()
        r.number()
        flags = r.number()
        self.add("write+sync" if flags & 12 else "write", self.label.get(ino, "?"))

    def on_15(self, r):
        self.add("truncate", self.label.get(r.number(), "?"))

    def on_17(self, r):
        ino = r.number()
        self.add("fdatasync" if r.number() & 1 else "fsync", self.label.get(ino, "?"))

    def on_18(self, _):
        self.add("sync", "")

    def on_20(self, _):
        self.started = True

    def on_21(self, r):
        if r.text() == "saved":
            self.saved = True


def describe_steps(trace, scratch):
    """What the program did until it said saved: 'truncate notes.txt, write it, fsync it'."""
    steps = Steps()
    for body in list(records_of(trace))[1:]:
        steps.apply(body)
    gone = steps.made - {name for _, name in steps.names}

    def plain(name):
        if re.fullmatch(r"[0-9a-f]{38}", name):
            return "object"
        return "temp" if name in gone and re.search(r"\.tmp$|tmp_|^sed[A-Za-z0-9]{6}$|^temp|^t$", name) else name

    words, last, seen = [], None, set()
    for verb, label in steps.taken:
        names = re.split(r" (?:over|to) ", label)
        if any(fnmatch.fnmatch(name, pattern) for name in names for pattern in scratch):
            continue
        label = re.sub(r"[^ ]+", lambda m: m[0] if m[0] in ("over", "to") else plain(m[0]), label)
        if verb == "write" and last == ("create", label):
            words.pop()
            words.append(f"create and write {label}")
        elif (verb, label) != last and (verb, label) not in seen:
            words.append(f"{verb} {label}".strip())
        last = (verb, label)
        if words and words[-1].startswith("create and write"):
            last = ("write", label)
        # A long story tells each kind of step once.
        if len(steps.taken) > 40:
            seen.add((verb, label))
    if len(words) > STEPS_MOST:
        words = words[:STEPS_MOST - 1] + [f"{len(words) - STEPS_MOST + 1} more steps"]
    return ", ".join(words)


# ---- one check -------------------------------------------------------------------------------------------------

class Losses:
    """What the outcomes of one check say."""

    def __init__(self, result):
        self.partial = result["bound_hit"] is not None
        self.recoveries = result["counts"]["recoveries"]
        self.found = {"while": {}, "after": {}}  # what -> set of what the backup held; "" without one
        for outcome in result["outcomes"]:
            match = OUTCOME.fullmatch(outcome["output"].strip())
            if match:
                self.found[match[1]].setdefault(match[2], set()).add(match[3] or "")

    def lost(self, when):
        return {what: backups for what, backups in self.found[when].items() if what not in ("old", "new")}

    def without_backup(self):
        return any(not backups <= {"old", "new"} for when in self.found for backups in self.lost(when).values())

    def not_durable(self):
        return bool(self.found["after"].keys() - {"new"})

    def cell(self, when):
        lost = self.lost(when)
        parts = []
        if lost:
            text = ", ".join(sorted(lost))
            kept = [backups <= {"old", "new"} for backups in lost.values()]
            if any(backups - {""} for backups in lost.values()):
                text += "; the backup has it" if all(kept) else "; the backup can be lost too"
            parts.append(f"**{text}**")
        if when == "after" and "old" in self.found[when]:
            parts.append("old is back")
        return (" or ".join(parts) or "safe") + (" †" if self.partial else "")


def check(script, variant, mode, settings):
    """One run of crashcut: its Losses and the steps of the trace."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="programs.", dir=settings.keep)) / "out"
    directory.parent.chmod(0o755)  # servers that do not run as root come through it
    command = [str(PROGRAMS / f"{script}.sh"), "check", variant, *MODES[mode], "--time", str(settings.time),
               "--jobs", str(settings.jobs), "--out", str(directory)]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                         env=settings.environment, check=False)
    said = (run.stderr.strip() or run.stdout.strip()).splitlines()
    if run.returncode not in (0, 1, 3) or not (directory / "result.json").exists():
        raise CheckFailed(f"crashcut's exit code was {run.returncode}: {said[-1] if said else 'it said nothing'}")
    result = json.loads((directory / "result.json").read_text())
    execution = result["execution"]
    if execution["code"] != 0 or execution["signal"] != 0 or execution["timed_out"]:
        raise CheckFailed(f"the program did not do its work (status {execution['code']}): {said[-1] if said else ''}")
    if result["facts"]["not_deterministic"]:
        raise CheckFailed(f"the checker is not deterministic: {result['facts']['not_deterministic']}")
    if result["kinds"].get("check did not end", 0) > 0:
        raise CheckFailed("the checker did not end in time")
    for violation in result["violations"]:
        if violation["kind"] == "check failed" and not OUTCOME.fullmatch(violation["message"].strip()):
            raise CheckFailed(f"the checker itself failed: {violation['message']}")
    losses = Losses(result)
    if result["settings"]["files"] and not losses.partial:
        kinds = result["kinds"]
        if ("lost" in kinds) != losses.without_backup() or ("not durable" in kinds) > losses.not_durable():
            raise CheckFailed("--file and the checker do not agree")
    scratch = subprocess.run([str(PROGRAMS / f"{script}.sh"), "scratch"], capture_output=True, text=True, check=True)
    steps = describe_steps(directory / "trace", scratch.stdout.split())
    if not settings.keep_all:
        shutil.rmtree(directory.parent, ignore_errors=True)
    return losses, steps


# ---- the table -------------------------------------------------------------------------------------------------

def header(modes):
    columns = ["program", "what it does when it saves"]
    columns += [f"{mode}: {when}" for mode in modes for when in ("while saving", "after it said saved")]
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]


def row(variant, steps, cells):
    return "| " + " | ".join([f"`{variant}`", steps, *cells]) + " |"


def lists(script, *words):
    run = subprocess.run([str(PROGRAMS / f"{script}.sh"), *words], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def selected(only):
    """(script, variant) of those whose script or variant is named."""
    for script in SCRIPTS:
        for variant in lists(script, "variants"):
            if not only or script in only or variant in only:
                yield script, variant


def missing_drivers(script, settings):
    return [name for name in lists(script, "drivers") if not (settings.drivers / name).exists()]


def make_row(script, variant, settings):
    """(row, failure): one of them is None."""
    missing = missing_drivers(script, settings)
    if missing:
        return None, f"{variant}: skipped, {', '.join(missing)} was not built"
    steps, cells = "", []
    for mode in settings.modes:
        try:
            losses, steps = check(script, variant, mode, settings)
        except CheckFailed as failure:
            return None, f"{variant}, {mode}: FAILED: {failure}"
        cells += [losses.cell("while"), losses.cell("after")]
    return row(variant, steps, cells), None


def page_rows():
    text = PAGE.read_text()
    if BEGIN not in text or END not in text:
        return []
    return text[text.index(BEGIN):text.index(END)].splitlines()


def key_of(line):
    return line.split("|")[1].strip() if line.startswith("| `") else None


def update_page(modes, rows):
    """Replaces the rows that were made; those of programs that were not run stay."""
    known = {key_of(line): line for line in [*page_rows(), *rows]}
    order = [f"`{variant}`" for _, variant in selected([])]
    table = header(modes) + [known[key] for key in order if key in known]
    text = PAGE.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"programs: docs/programs.md has no line {BEGIN} and {END}")
    before, after = text[:text.index(BEGIN)], text[text.index(END):]
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(table) + "\n\n" + after)


def compare(rows):
    """Cells of the table in docs/programs.md that differ from what was seen; those of sampled searches are not compared."""
    stored = {key_of(line): line for line in page_rows()}
    wrong = []
    for line in rows:
        then = stored.get(key_of(line))
        if then is None:
            wrong.append(f"docs/programs.md has no row {key_of(line)}")
        elif "†" not in then + line and then.split("|")[3:] != line.split("|")[3:]:
            wrong.append(f"docs/programs.md says {then}\n  but now it is {line}")
    return wrong


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="scripts or variants, e.g. nano, 'joe -nobackups' (default: all)")
    parser.add_argument("--short", action="store_true", help="a quick subset")
    parser.add_argument("--update", action="store_true",
                        help="replace the table in docs/programs.md, or the rows of the programs that are named")
    parser.add_argument("--compare", action="store_true", help="fail where docs/programs.md says otherwise")
    parser.add_argument("--no-install", action="store_true", help="install nothing; leave out what is missing")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=DEFAULT_MODES)
    parser.add_argument("--time", type=int, default=60, help="seconds for one check (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--crashcut", type=pathlib.Path, default=ROOT / "build/release/crashcut")
    parser.add_argument("--drivers", type=pathlib.Path, help="where the drivers were built (default: beside crashcut)")
    parser.add_argument("--keep", help="keep what crashcut left in this directory")
    settings = parser.parse_args()
    settings.keep_all = settings.keep is not None
    settings.drivers = settings.drivers or settings.crashcut.resolve().parent / "drivers"
    if settings.keep:
        os.makedirs(settings.keep, exist_ok=True)
    if settings.update and settings.modes != DEFAULT_MODES:
        parser.error("the table in docs/programs.md has the default modes")
    if settings.short:
        settings.only = SHORT
    settings.environment = os.environ | {"CRASHCUT": str(settings.crashcut.resolve()),
                                         "PROGRAM_DRIVERS": str(settings.drivers.resolve())}
    return settings


def require_tools(cases, settings):
    """Installs what is missing; without that, leaves out the cases that need it."""
    packages = sorted({package for script, _ in cases for package in lists(script, "packages")})
    installed = {package for package in packages
                 if subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True,
                                   text=True, check=False).stdout == "installed"}
    missing = set(packages) - installed
    if missing and not settings.no_install:
        print(f"programs: installing {' '.join(sorted(missing))}", file=sys.stderr)
        setup = [str(ROOT / "scripts/setup.sh"), *sorted(missing)]
        if subprocess.run(setup, stdout=sys.stderr, check=False).returncode != 0:
            sys.exit("programs: could not install them; --no-install leaves them out")
        return cases
    usable = [case for case in cases if not missing & set(lists(case[0], "packages"))]
    for _, variant in [case for case in cases if case not in usable]:
        print(f"programs: {variant}: skipped, it is not installed", file=sys.stderr)
    return usable


def build_drivers(cases, settings):
    """Those whose headers were not there when crashcut was built."""
    names = sorted({name for script in {script for script, _ in cases} for name in missing_drivers(script, settings)})
    build = settings.drivers.resolve().parent
    if names and not settings.no_install and (build / "CMakeCache.txt").exists():
        print(f"programs: building {' '.join(names)}", file=sys.stderr)
        subprocess.run(["cmake", str(build)], stdout=subprocess.DEVNULL, check=False)
        subprocess.run(["cmake", "--build", str(build), "--target", *names], stdout=subprocess.DEVNULL, check=False)


def main():
    settings = parse_arguments()
    if not settings.crashcut.exists():
        sys.exit(f"programs: no {settings.crashcut}; scripts/build.sh builds it")
    if not os.path.exists("/dev/fuse"):
        print("programs: skipped, there is no /dev/fuse", file=sys.stderr)
        sys.exit(77)
    cases = list(selected(settings.only))
    if not cases:
        print(f"programs: nothing is called {' '.join(settings.only)}", file=sys.stderr)
        sys.exit(2)
    cases = require_tools(cases, settings)
    build_drivers(cases, settings)
    rows, failures = [], []
    for number, (script, variant) in enumerate(cases, 1):
        print(f"programs: {number}/{len(cases)} {variant}", file=sys.stderr)
        line, failure = make_row(script, variant, settings)
        rows += [line] if line else []
        if failure:
            print(f"programs: {failure}", file=sys.stderr)
            failures += [failure] if "FAILED" in failure else []
    table = header(settings.modes) + rows
    print("\n".join(table))
    if settings.update and not failures:
        update_page(settings.modes, rows)
    wrong = compare(rows) if settings.compare else []
    for sentence in wrong:
        print(f"programs: {sentence}", file=sys.stderr)
    if failures:
        print(f"programs: {len(failures)} failed, and say nothing about the programs", file=sys.stderr)
        sys.exit(4)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
