#!/usr/bin/env python3
"""Runs the commands of pages of docs/ and compares what they print with what the pages say.

A block ```c save.c (any language, then a name) is a file. In a block ```console a line "$ command" is run by bash, and the
lines below it are its output. All of it happens in one new directory a page, in the order of the page. Times, tokens, paths of
that directory and numbers of jobs differ from run to run: they are compared, and written, with placeholders in their place.

The links of all pages to files of this tree are looked up, too.

Exit codes: 0 the pages are right, 1 one is not, 2 wrong use, 77 it cannot run here.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND_SECONDS_MOST = 300
PAGES = ["tutorial.md", "ci.md", "writing_a_checker.md", "bounding_a_search.md", "troubleshooting.md"]


def plain(command, text, directory):
    """The output with placeholders for what differs from run to run."""
    text = re.sub(r"^\d+ \w+: \d+ (recover|execution).*\n", "", text, flags=re.MULTILINE)  # progress, where it is slow
    text = text.replace(str(directory), "~")
    text = re.sub(r"\bcc2[\w-]{20,}", "TOKEN", text)
    text = re.sub(r"\b\d+\.\d\d s\b", "0.00 s", text)
    if "--jobs" not in command:
        text = re.sub(r"\b\d+ jobs?\b", "2 jobs", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def run(command, directory, environment):
    # timeout(1) ends what bash started, too.
    done = subprocess.run(["timeout", str(COMMAND_SECONDS_MOST), "bash", "-c", command], cwd=directory, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return plain(command, done.stdout, directory)


def console(block, directory, environment):
    """The block with the output that its commands have now."""
    text = ""
    for line in block.splitlines():
        if line.startswith("$ "):
            text += line + "\n" + run(line[2:], directory, environment)
    return text


def made_anew(page, directory, environment):
    """The whole page, with its commands run."""
    def block(match):
        language, name, body = match.groups()
        if name:
            path = directory / name
            path.write_text(body)
        elif language == "console":
            body = console(body, directory, environment)
        return f"```{language}{' ' + name if name else ''}\n{body}```"

    return BLOCK.sub(block, page)


def is_right(page, settings):
    """Whether the page says what is printed now. With --update it does."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name).resolve()
        path = f"{settings.crashcut.resolve().parent}:{os.environ['PATH']}"
        now = made_anew(text, directory, os.environ | {"PATH": path, "LC_ALL": "C", "HOME": str(directory)})
    if settings.update:
        page.write_text(now)
    elif now != text:
        sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), now.splitlines(True), str(page), "what is printed now"))
        print(f"pages: {page} is out of date: scripts/pages.py --update writes it anew")
        return False
    return True


def broken_links():
    """Links of Markdown pages that lead to no file: "README.md: docs/gone.md"."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text()):
            if not (page.parent / link).exists():
                yield f"{page.relative_to(ROOT)}: {link}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=pathlib.Path, nargs="*", default=[ROOT / "docs" / name for name in PAGES])
    parser.add_argument("--update", action="store_true", help="write what the commands print into the pages")
    parser.add_argument("--crashcut", type=pathlib.Path, default=ROOT / "build/release/crashcut")
    settings = parser.parse_args()
    if not settings.crashcut.exists():
        print(f"pages: no {settings.crashcut}; scripts/build.sh builds it", file=sys.stderr)
        sys.exit(2)
    if not os.access("/dev/fuse", os.W_OK):
        print("pages: SKIPPED: there is no /dev/fuse that can be opened", file=sys.stderr)
        sys.exit(77)
    broken = list(broken_links())
    for link in broken:
        print(f"pages: a link leads nowhere: {link}")
    sys.exit(0 if all([is_right(page, settings) for page in settings.pages]) and not broken else 1)


if __name__ == "__main__":
    main()
