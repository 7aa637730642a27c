#!/usr/bin/env python3
"""Are the states that the kernel's ext4 leaves of real programs among those that the model allows?

Every variant of the scripts in workloads/programs is checked twice: on the model, where the search lists every outcome of
its checker, and on the kernel's own ext4 (crashcut check --fs kernel:ext4). An outcome of the kernel that the model does
not have is outside. If the model's search did not come to its end, such an outcome is not decided.

Exit codes: 0 nothing is outside, 1 something is, 2 wrong use, 4 a check failed (crashcut's failure, or the program did not
do its work), 77 it cannot run here.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import programs

PAGE = programs.ROOT / "docs" / "kernel.md"
BEGIN = "<!-- conform programs: made by scripts/conform_programs.py --update -->\n"
END = "<!-- conform programs: end -->\n"
SHORT = ["ed", "sed"]
# The kernel's images tear in blocks of 4096 bytes, so the model must not tear finer.
MODES = {"data=ordered": ["--data", "ordered"], "data=journal": ["--data", "journal"],
         "data=writeback": ["--data", "writeback"], "nodelalloc": ["-o", "nodelalloc"],
         "noauto_da_alloc": ["-o", "noauto_da_alloc"], "dioread_lock": ["-o", "dioread_lock"]}
# Reasons why a machine cannot mount the kernel's filesystem (recovery/kernel/filesystem.cc).
NOT_HERE = ("only root can", "There is no /dev/", "There is no mkfs", "This kernel has no")


class NotHere(Exception):
    """This machine lacks something."""


def check(script, variant, options, settings):
    """The result of one crashcut check, as a document."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="conform.")) / "out"
    directory.parent.chmod(0o755)  # servers that do not run as root come through it
    command = [str(programs.PROGRAMS / f"{script}.sh"), "check", variant, *options, "--time", str(settings.time),
               "--jobs", str(settings.jobs), "--out", str(directory)]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                         env=settings.environment, check=False)
    said = (run.stderr.strip() or run.stdout.strip()).splitlines()
    try:
        if run.returncode == 2 and any(reason in run.stderr for reason in NOT_HERE):
            raise NotHere(said[-1])
        if run.returncode not in (0, 1, 3) or not (directory / "result.json").exists():
            raise programs.CheckFailed(
                f"crashcut's exit code was {run.returncode}: {said[-1] if said else 'it said nothing'}")
        return json.loads((directory / "result.json").read_text())
    finally:
        shutil.rmtree(directory.parent, ignore_errors=True)


def outcomes_of(result):
    """What the checker said: the last part of an outcome; before it stands what --file adds on the kernel."""
    found = (re.search(r"(while|after): .*", outcome["stdout"]) for outcome in result["outcomes"])
    return {match[0] for match in found if match}


class Row:
    """One program on one mount."""

    def __init__(self, variant, mount, model, kernel):
        seen, allowed = outcomes_of(kernel), outcomes_of(model)
        self.is_whole = model["bound_hit"] is None
        self.unknown = sorted(seen - allowed)
        self.outside = len(self.unknown) if self.is_whole else 0
        decided = "0" if not self.unknown else f"{len(self.unknown)}" if self.is_whole else \
            f"{len(self.unknown)} not decided"
        self.text = (f"| `{variant}` | {mount} | {kernel['facts']['runs']} | {kernel['counts']['recoveries']} of "
                     f"{kernel['facts']['images']} | {len(seen)} | {len(allowed)}{'' if self.is_whole else ' or more'} | "
                     f"{decided} |")

    def key(self):
        return tuple(self.text.split(" | ")[:2])


HEADER = ["| program | mount options | runs | images mounted | outcomes seen | outcomes allowed | outside |",
          "|---|---|---|---|---|---|---|"]


def page_rows():
    text = PAGE.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"conform_programs: {PAGE} has no lines {BEGIN.strip()} and {END.strip()}")
    lines = text[text.index(BEGIN) + len(BEGIN):text.index(END)].splitlines()
    return [line for line in lines if line.startswith("| `")]


def update_page(rows, settings):
    """Rows of programs that were not run stay."""
    known = {tuple(line.split(" | ")[:2]): line for line in page_rows()}
    known.update({row.key(): row.text for row in rows})
    order = [(f"| `{variant}`", mount) for _, variant in programs.selected([]) for mount in MODES]
    table = HEADER + [known[key] for key in order if key in known]
    what = (f"`scripts/conform_programs.py --runs {settings.runs} --subsets {settings.subsets} --time {settings.time}`, on "
            f"Linux {platform.release()}\n\n")
    text = PAGE.read_text()
    before, after = text[:text.index(BEGIN) + len(BEGIN)], text[text.index(END):]
    PAGE.write_text(before + what + "\n".join(table) + "\n" + after)


def compare(script, variant, mount, settings):
    model = check(script, variant, [*MODES[mount], "--sector", "4096"], settings)
    kernel = check(script, variant, ["--fs", f"kernel:ext4:{mount}", "--runs", str(settings.runs), "--subsets",
                                     str(settings.subsets)], settings)
    return Row(variant, mount, model, kernel)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="scripts or variants, e.g. nano, 'joe -nobackups' (default: all)")
    parser.add_argument("--short", action="store_true", help="a quick subset")
    parser.add_argument("--update", action="store_true", help="put the rows into docs/kernel.md")
    parser.add_argument("--no-install", action="store_true", help="install nothing; leave out what is missing")
    parser.add_argument("-o", dest="mounts", action="append", choices=MODES, help="mount options (default: data=ordered)")
    parser.add_argument("--runs", type=int, default=8, help="of each program on the kernel (default: 8)")
    parser.add_argument("--subsets", type=int, default=16, help="images between two flushes, at most (default: 16)")
    parser.add_argument("--time", type=int, default=60, help="seconds for one check (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--crashcut", type=pathlib.Path, default=programs.ROOT / "build/release/crashcut")
    settings = parser.parse_args()
    settings.mounts = settings.mounts or ["data=ordered"]
    settings.drivers = settings.crashcut.resolve().parent / "drivers"
    if settings.short:
        settings.only = SHORT
    settings.environment = os.environ | {"CRASHCUT": str(settings.crashcut.resolve()),
                                         "PROGRAM_DRIVERS": str(settings.drivers)}
    return settings


def main():
    settings = parse_arguments()
    if not settings.crashcut.exists():
        sys.exit(f"conform_programs: no {settings.crashcut}; scripts/build.sh builds it")
    cases = list(programs.selected(settings.only))
    if not cases:
        print(f"conform_programs: nothing is called {' '.join(settings.only)}", file=sys.stderr)
        sys.exit(2)
    cases = programs.require_tools(cases, settings)
    if not cases:
        sys.exit(77)
    programs.build_drivers(cases, settings)
    rows, failures = [], 0
    for script, variant in cases:
        for mount in settings.mounts:
            try:
                rows.append(compare(script, variant, mount, settings))
            except NotHere as reason:
                print(f"conform_programs: skipped: {reason}", file=sys.stderr)
                sys.exit(77)
            except programs.CheckFailed as failure:
                print(f"conform_programs: {variant}, {mount}: FAILED: {failure}", file=sys.stderr)
                failures += 1
                continue
            print(rows[-1].text, flush=True)
            if settings.update:
                update_page(rows[-1:], settings)
            for outcome in rows[-1].unknown:
                print(f"  {'outside' if rows[-1].is_whole else 'not decided'}: {outcome}", flush=True)
    if any(row.outside for row in rows):
        sys.exit(1)
    sys.exit(4 if failures else 0)


if __name__ == "__main__":
    main()
