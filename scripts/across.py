#!/usr/bin/env python3
"""What a program can rely on across ext4, xfs and btrfs: outcomes of usual ways to save, side by side, in Markdown.

Each way is a short shell script on a file that holds `old`. crashcut compare runs it on the model and on each of the
kernel's filesystems, and says what a crash can leave. Nothing here is proven of the kernel: an outcome that is not in
the table was not seen in the runs and images that the page names.

Exit codes: 0 the page was made, 2 wrong use, 4 a comparison failed, 77 it
cannot run here.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "across_filesystems.md"
BEGIN = "<!-- across: made by scripts/across.py --update -->\n"
END = "<!-- across: end -->\n"
FILESYSTEMS = ["ext4", "xfs", "btrfs"]
SETUP = "yes old | head -c 12000 > f"
NEW = "yes new | head -c 12000"

# Name, script, and whether the file must hold the new version once the script has ended.
WAYS = [
    ("write a new file, fsync, rename over", f"{NEW} > t && sync t && mv t f", False),
    ("the same, then fsync of the directory", f"{NEW} > t && sync t && mv t f && sync .", True),
    ("write a new file, rename over, no fsync", f"{NEW} > t && mv t f", False),
    ("truncate and write", f"{NEW} > f", False),
    ("truncate, write, fsync", f"{NEW} > f && sync f", True),
    ("overwrite in place", f"{NEW} | dd of=f conv=notrunc status=none", False),
    ("overwrite in place, fsync", f"{NEW} | dd of=f conv=notrunc,fsync status=none", True),
    ("append", "echo more >> f", False),
    ("append, fsync", "echo more >> f && sync f", True),
]
SHORT = WAYS[:1]


class Failed(Exception):
    """No verdict: never an outcome."""


def compare(crashcut, way, filesystems, bounds, directory):
    """{filesystem: set of outcomes}; the model is None."""
    _, script, is_durable = way
    target = directory / "comparison.json"
    command = [crashcut, "compare", "--profile", "ext4", "--data", "ordered", "--outcomes", "--json",
               str(target), "--quiet", "--setup", SETUP, "--file", "f", *bounds]
    if not is_durable:
        command.append("--no-durable")
    for filesystem in filesystems:
        command += ["--fs", f"kernel:{filesystem}"]
    ran = subprocess.run([*command, "--", "sh", "-c", script], cwd=directory, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1, 3):
        raise Failed(f"{script}: {ran.stdout}{ran.stderr}")
    columns = {}
    for row in json.loads(target.read_text()):
        model = row["model"]
        name = model["fs"].removeprefix("kernel:") if "fs" in model else None
        # The first row of the model has the default options.
        columns.setdefault(name, {outcome["output"] for outcome in row["outcomes"]})
    return columns


# What crashcut says of a file, and the word for it in the table.
WORDS = [
    (r"f is ", ""),
    (r"\d+ bytes long with NUL bytes .*", "NULs"),
    (r"\d+ bytes long, as no version is.*", "cut short"),
    (r"no version.*", "a mixture"),
]


def word_for(outcome):
    for pattern, word in WORDS:
        outcome = re.sub("^" + pattern, word, outcome)
    return outcome


def cell(outcomes):
    words = {word_for(outcome) for outcome in outcomes}
    order = [word for word in ("old", "new") if word in words]
    return ", ".join(order + sorted(words - set(order))) or "nothing"


def make_table(crashcut, ways, filesystems, bounds):
    lines = ["| " + " | ".join(["way to save", "model (ext4)", *filesystems]) + " |", "|---" * (len(filesystems) + 2) + "|"]
    for way in ways:
        with tempfile.TemporaryDirectory() as scratch:
            columns = compare(crashcut, way, filesystems, bounds, pathlib.Path(scratch))
        cells = [cell(columns[filesystem]) for filesystem in [None, *filesystems]]
        lines.append("| " + " | ".join([way[0] + (" †" if way[2] else ""), *cells]) + " |")
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashcut", default=str(ROOT / "build" / "release" / "crashcut"))
    parser.add_argument("--update", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--short", action="store_true", help="one way only, on ext4, to see that the command works")
    parser.add_argument("--runs", default="6")
    parser.add_argument("--subsets", default="16")
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not os.access("/dev/loop-control", os.R_OK):
        print("skipped: it mounts disks, which needs root and /dev/loop-control")
        return 77
    filesystems = FILESYSTEMS[:1] if arguments.short else FILESYSTEMS
    for filesystem in filesystems:
        if not shutil.which(f"mkfs.{filesystem}", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            print(f"skipped: there is no mkfs.{filesystem}")
            return 77
    bounds = ["--runs", arguments.runs, "--subsets", arguments.subsets]
    try:
        table = make_table(arguments.crashcut, SHORT if arguments.short else WAYS, filesystems, bounds)
    except Failed as failure:
        print(f"across.py: {failure}", file=sys.stderr)
        return 4
    text = (f"Linux {platform.release()}; {arguments.runs} runs on each filesystem, at most {arguments.subsets} images "
            f"between two flushes.\n\n{table}")
    print(text, end="")
    if arguments.update:
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + text + page[end:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
