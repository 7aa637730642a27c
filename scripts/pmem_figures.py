#!/usr/bin/env python3
"""Runs the programs of workloads/pmem and says in Markdown tables what each costs, and how fast recording is.

Programs: recoveries and time of `crashcut pmem` with 4 keys and with 1,000, the accesses of main(), and how many failure
points a search as Jaaru's would have (tests/bench/pmem_count.c counts both). Beside them, what the paper says of a
structure of the same kind.
Speed: the B+-tree with 10,000 keys (tests/bench/pmem_tree.c), the best of several runs.
Memory: the undo log with 50,000 transfers, more than a million stores, flushes and fences; and the first recoveries of it.
All times are processor time, of all processes together: other programs on the machine disturb that less.

Exit codes: 0 the tables were made, 1 --check found that a bar is not met, 2 wrong use, 4 a program did not do its work.
"""

import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "workloads" / "pmem"
BENCH = ROOT / "tests" / "bench"
DOCS = ROOT / "docs" / "pmem.md"
BEGIN = "<!-- figures: made by scripts/pmem_figures.py --update -->"
END = "<!-- figures: end -->"

NAMES = ["list", "append_log", "undo_log", "allocator", "lock_free_hash", "radix_tree", "extendible_hash", "btree",
         "checksum_log"]
# Jaaru, figure 14, 4 keys: a structure of the same kind, its executions, seconds and failure points.
JAARU = {
    "extendible_hash": ("CCEH", 891, 14.5, 528),
    "btree": ("FAST_FAIR", 170, 1.48, 41),
    "radix_tree": ("P-ART", 174, 1.86, 22),
    "lock_free_hash": ("P-CLHT", 25, 1.59, 12),
}
MOST_SECONDS = 2 * 60  # a minute on 2 cores
MOST_ACCESS_NS = 100
MOST_DRAM_NS = 10
LEAST_RECOVERIES_PER_SECOND = 5000
MOST_BYTES = 2e9  # of a million accesses
LEAST_ACCESSES = 1_000_000
ROUNDS = 3


class Failed(Exception):
    """A program was not built or did not do its work."""


def run(words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(str(w) for w in words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Builder:
    """Compiles programs into a directory that is gone afterwards."""

    def __init__(self, crashcut, directory):
        self.crashcut = crashcut
        self.directory = pathlib.Path(directory)
        self.includes = [f"-I{ROOT}", f"-I{ROOT}/include", f"-I{PROGRAMS}"]
        self.counter = self.directory / "count.o"
        run(["cc", "-O2", *self.includes, "-c", BENCH / "pmem_count.c", "-o", self.counter])

    def instrumented(self, source, name, *more):
        made = self.directory / name
        run([self.crashcut, "cc", "--pmem", "-O2", *self.includes, source, *more, "-o", made])
        return made

    def plain(self, source, name, *more):
        made = self.directory / name
        run(["clang-14", "-O2", "-mclwb", *self.includes, source, *more, "-o", made])
        return made


def counts_of(text, phase):
    line = next(l for l in text.splitlines() if l.startswith(phase + " "))
    words = line.split()[1:]
    return {name: int(number) for name, number in zip(words[::2], words[1::2])}


# ---- programs --------------------------------------------------------------------------------------------------

def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_program(builder, program, keys, *options):
    begin = processor_seconds()
    out = run([builder.crashcut, "pmem", "--recovery-limit", 600, *options, program, keys]).stdout
    found = re.search(r"verified .*: all (\d+) recover(?:y|ies), none failed", out)
    if not found:
        raise Failed(f"{program} {keys} was not verified:\n{out[-2000:]}")
    return int(found[1]), processor_seconds() - begin


def thousands(number):
    return f"{number:,}"


def row_of_program(builder, name, misses):
    source = PROGRAMS / f"{name}.c"
    program = builder.instrumented(source, name)
    counting = builder.instrumented(source, name + "_counted", builder.counter)
    counts = [counts_of(run([counting, keys]).stderr, "all") for keys in ("4", "1000")]
    checks = [check_program(builder, program, keys) for keys in ("4", "1000")]
    if checks[1][1] > MOST_SECONDS:
        misses.append(f"{name} with 1,000 keys took {checks[1][1]:.0f} s of processor time")
    theirs = "none"
    if name in JAARU:
        kind, executions, seconds, points = JAARU[name]
        theirs = f"{kind}: {executions} in {seconds} s, {points} failure points"
        if checks[0][0] > executions:
            misses.append(f"{name} had {checks[0][0]} recoveries, {kind} {executions} executions")
    cells = [name]
    for (recoveries, seconds), count in zip(checks, counts):
        accesses = count["loads"] + count["stores"]
        cells += [thousands(recoveries), f"{seconds:.2f} s", thousands(count["failure_points"]), thousands(accesses)]
    return "| " + " | ".join(cells + [theirs]) + " |"


def table_of_programs(builder, names, misses):
    lines = ["| program | recoveries, 4 keys | time | failure points | accesses | recoveries, 1,000 keys | time | "
             "failure points | accesses | Jaaru, 4 keys |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        lines.append(row_of_program(builder, name, misses))
    return lines


# ---- speed -----------------------------------------------------------------------------------------------------

def times_of(words):
    """Processor time of inserting and of finding, the least of several runs; and the bytes of the tree."""
    best = None
    for _ in range(ROUNDS):
        found = re.search(r"insert_ns (\d+) find_ns (\d+) bytes (\d+)", run(words).stdout)
        if not found:
            raise Failed(f"{words[-1]} printed no times")
        times = [int(n) for n in found.groups()]
        best = times if best is None else [min(a, b) for a, b in zip(best, times)]
    return best


def recoveries_per_second(builder):
    """Of the list with 4 keys, beyond what starting takes, on one core: more keys, more recoveries."""
    program = builder.instrumented(PROGRAMS / "list.c", "list_speed")
    best = 0
    for _ in range(ROUNDS):
        few, first = check_program(builder, program, "4", "--jobs", "1")
        many, second = check_program(builder, program, "200", "--jobs", "1")
        best = max(best, (many - few) / max(second - first, 1e-3))
    return best


def table_of_speeds(builder, misses):
    tree = BENCH / "pmem_tree.c"
    counted = run([builder.instrumented(tree, "tree_counted", "-DCOUNT", builder.counter)]).stderr
    insert, find = counts_of(counted, "insert"), counts_of(counted, "find")
    plain_insert, plain_find, size = times_of([builder.plain(tree, "tree_plain")])
    in_dram = times_of([builder.crashcut, "pmem", builder.instrumented(tree, "tree_dram", "-DDRAM")])
    unflushed = times_of([builder.crashcut, "pmem", builder.instrumented(tree, "tree_unflushed", "-DUNFLUSHED")])
    whole = times_of([builder.crashcut, "pmem", builder.instrumented(tree, "tree")])

    dram_ns = (in_dram[0] + in_dram[1]) / sum(c[k] for c in (insert, find) for k in ("loads", "stores", "dram"))
    load_ns = (whole[1] - find["dram"] * dram_ns) / find["loads"]
    store_ns = (unflushed[0] - insert["loads"] * load_ns - insert["dram"] * dram_ns) / insert["stores"]
    flush_ns = (whole[0] - unflushed[0]) / (insert["flushes"] + insert["fences"])
    mean_ns = (whole[0] + whole[1]) / (insert["loads"] + insert["stores"] + find["loads"])
    slower_insert, slower_find = whole[0] / plain_insert, whole[1] / plain_find
    per_second = recoveries_per_second(builder)
    for name, value, most in (("a persistent access", mean_ns, MOST_ACCESS_NS), ("a store", store_ns, MOST_ACCESS_NS),
                              ("a load", load_ns, MOST_ACCESS_NS), ("a DRAM access", dram_ns, MOST_DRAM_NS)):
        if value > most:
            misses.append(f"{name} took {value:.0f} ns")
    if per_second < LEAST_RECOVERIES_PER_SECOND:
        misses.append(f"{per_second:.0f} recoveries a second")
    return [
        f"| B+-tree, 10,000 keys, a set of {size // 1024} KiB | accesses | ns each |",
        "|---|---|---|",
        f"| persistent loads | {thousands(insert['loads'] + find['loads'])} | {load_ns:.1f} |",
        f"| persistent stores | {thousands(insert['stores'])} | {store_ns:.1f} |",
        f"| flushes and fences | {thousands(insert['flushes'] + insert['fences'])} | {flush_ns:.1f} |",
        f"| loads and stores with all flushes and fences, mean | "
        f"{thousands(insert['loads'] + insert['stores'] + find['loads'])} | {mean_ns:.1f} |",
        f"| accesses to ordinary memory (the same tree there) | "
        f"{thousands(sum(c[k] for c in (insert, find) for k in ('loads', 'stores', 'dram')))} | {dram_ns:.1f} |",
        "",
        textwrap.fill(
            f"Against the program that is not instrumented: {slower_insert:.0f} times as long for inserting (its clwb and "
            f"sfence are real there), {slower_find:.0f} times for finding. The list, each recovery from a warm image, on "
            f"one core: {thousands(round(per_second))} recoveries a second.", 125),
    ]


# ---- memory ----------------------------------------------------------------------------------------------------

def descendants_of(root):
    """The process and all that it started, as far as they live."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                pass  # it has ended
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def memory_of(pids):
    """Bytes of all processes together: a page that several of them share counts once."""
    kib = 0
    for pid in pids:
        try:
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue  # it has ended
        kib += int((re.search(r"^Pss:\s+(\d+) kB", rollup, re.M) or [0, 0])[1])
    return kib * 1024


def peak_memory(words):
    begun = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peak = 0
    while begun.poll() is None:
        peak = max(peak, memory_of(descendants_of(begun.pid)))
        time.sleep(0.02)
    out = begun.stdout.read()
    if begun.returncode not in (0, 3):
        raise Failed(f"{words[-2]} {words[-1]}: exit code {begun.returncode}\n{out[-2000:]}")
    return peak


def line_of_memory(builder, misses):
    source, keys = PROGRAMS / "undo_log.c", "50000"
    counts = counts_of(run([builder.instrumented(source, "million_counted", builder.counter), keys]).stderr, "all")
    accesses = counts["stores"] + counts["flushes"] + counts["fences"]
    if accesses < LEAST_ACCESSES:
        raise Failed(f"undo_log {keys} has {accesses} stores, flushes and fences")
    peak = peak_memory([builder.crashcut, "pmem", "--max-recoveries", "20", "--recovery-limit", 600,
                        builder.instrumented(source, "million"), keys])
    if peak > MOST_BYTES:
        misses.append(f"recording {accesses} accesses took {peak / 1e6:.0f} MB")
    return textwrap.fill(
        f"Memory: the undo log with {thousands(int(keys))} transfers, {thousands(accesses)} stores, flushes and fences, "
        f"and 20 recoveries of it: at most {peak / 1e6:.0f} MB in all processes together.", 125)


# ---- the page --------------------------------------------------------------------------------------------------

def update(text):
    page = DOCS.read_text()
    if BEGIN not in page or END not in page:
        raise Failed(f"{DOCS} has no place for the figures")
    before, rest = page.split(BEGIN)
    DOCS.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashcut", default=ROOT / "build" / "release" / "crashcut")
    parser.add_argument("--only", nargs="*", choices=NAMES + ["speed", "memory"],
                        help="these programs, the speed, or the memory")
    parser.add_argument("--update", action="store_true", help="write the tables into docs/pmem.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is not met")
    options = parser.parse_args()
    misses = []
    names = [n for n in NAMES if options.only is None or n in options.only]
    try:
        with tempfile.TemporaryDirectory() as directory:
            builder = Builder(options.crashcut, directory)
            lines = table_of_programs(builder, names, misses) if names else []
            if options.only is None or "speed" in options.only:
                lines += [""] * bool(lines) + table_of_speeds(builder, misses)
            if options.only is None or "memory" in options.only:
                lines += [""] * bool(lines) + [line_of_memory(builder, misses)]
        print("\n".join(lines))
        if options.update:
            update("\n".join(lines))
    except Failed as failed:
        print(f"pmem_figures.py: {failed}", file=sys.stderr)
        return 4
    for miss in misses:
        print(f"bar not met: {miss}", file=sys.stderr)
    return 1 if misses and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
