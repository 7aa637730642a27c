#!/usr/bin/env python3
"""docs_test.py CRASHCUT SOURCE_DIR: makes the pages of docs/pages/ anew, and compares them with those that are there.

CRASHCUT_UPDATE=1 writes them instead.
"""

import os
import shutil
import subprocess
import sys
import tempfile

CRASHCUT, SOURCE = sys.argv[1:3]
# Nothing in a page depends on the machine: the same jobs and memory everywhere, and names without directories.
SAME = ["--jobs", "1", "--memory-limit", "1G"]
PAGES = {
    "save.html": ["run", *SAME, "save_lossy.c"],
    "compare.html": ["compare", *SAME, "save_lossy.c"],
}


def make(words, directory):
    page = os.path.join(directory, "page.html")
    ran = subprocess.run([CRASHCUT, words[0], "--html", page, *words[1:]], cwd=directory, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 1:
        sys.exit(f"crashcut {' '.join(words)} ended with status {ran.returncode}:\n{ran.stdout}")
    with open(page, "rb") as file:
        return file.read().replace(directory.encode() + b"/", b"")  # an assertion names its file


def main():
    differing = []
    for name, words in PAGES.items():
        path = os.path.join(SOURCE, "docs/pages", name)
        with tempfile.TemporaryDirectory(prefix="page_test.") as directory:
            shutil.copy(os.path.join(SOURCE, "workloads/examples/save_lossy.c"), directory)
            page = make(words, directory)
        if os.environ.get("CRASHCUT_UPDATE") == "1":
            with open(path, "wb") as file:
                file.write(page)
        elif not os.path.exists(path) or open(path, "rb").read() != page:
            differing.append(path)
    if differing:
        sys.exit(f"{', '.join(differing)}: not what crashcut writes today. CRASHCUT_UPDATE=1 writes it anew.")


main()
