#!/usr/bin/env python3
"""browser_test.py MADE_UP_PAGES CRASHCUT SOURCE_DIR: opens pages in headless Chromium, clicks, drags and resizes them.

Exit status 77: there is no browser here.
"""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser as web  # noqa: E402

MADE_UP_PAGES, CRASHCUT, SOURCE = sys.argv[1:4]

LINE = ".moment"
STATES = """
const data = JSON.parse(document.getElementById("data").textContent)[0];
const operation = data.violation.crashes[0].operations[Number(document.querySelector(".moment").getAttribute("aria-valuenow"))].number;
const possible = data.states.list.filter((s) => s.earliest <= operation && operation <= s.latest);
return {operation, possible: possible.length, failing: possible.filter((s) => s.violation).length,
  said: document.querySelector(".panel p").textContent};
"""


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="page_test.")
        subprocess.run([MADE_UP_PAGES, cls.directory.name], check=True)
        cls.browser = web.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.directory.cleanup()

    def setUp(self):
        self.browser.resize(1280, 900)
        self.browser.set_colours("light")

    def open(self, name):
        self.browser.open(os.path.join(self.directory.name, name))

    def run_crashcut(self, page, *words):
        """Runs a command that writes a page, and opens it."""
        ran = subprocess.run([CRASHCUT, *words], cwd=self.directory.name, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        self.assertIn(ran.returncode, (0, 1), ran.stdout)
        self.open(page)
        return ran.returncode

    def assert_no_errors(self):
        self.assertEqual(self.browser.messages(), [])

    def assert_says_what_is_possible(self):
        state = self.browser.run(STATES)
        self.assertIn(f"can leave {state['possible']:,} state", state["said"])
        self.assertIn(f"{state['failing'] or 'none'} of them", state["said"])
        return state

    def test_line_moves_by_keys(self):
        self.open("small.html")
        before = self.assert_says_what_is_possible()
        self.browser.press(LINE, "\ue013")  # arrow up
        after = self.assert_says_what_is_possible()
        self.assertEqual(after["operation"], before["operation"] - 1)
        self.browser.press(LINE, "\ue011")  # home
        self.assertEqual(self.assert_says_what_is_possible()["operation"], 0)
        self.browser.press(LINE, "\ue010")  # end
        self.assertEqual(self.assert_says_what_is_possible()["operation"], 11)
        self.assertEqual(self.browser.run("return document.activeElement.className"), "moment")
        self.assert_no_errors()

    def test_line_is_a_slider_that_speaks(self):
        self.open("small.html")
        self.browser.press(LINE, "\ue013\ue013")
        line = self.browser.run("""const l = document.querySelector(".moment");
            return [l.getAttribute("role"), l.getAttribute("aria-valuetext"), l.tabIndex];""")
        self.assertEqual(line[0], "slider")
        self.assertIn("after operation 8, write(notes.txt", line[1])
        said = self.browser.post("execute/async", {"script": """const done = arguments[0];
            setTimeout(() => done(document.querySelector("[aria-live=polite][role=status]").textContent), 600);""", "args": []})
        self.assertIn("can leave", said)

    def test_line_is_dragged(self):
        for kind in ("mouse", "touch"):
            with self.subTest(kind):
                self.open("small.html")
                self.browser.run("document.querySelector('.moment').scrollIntoView({block: 'center'})")
                before = self.assert_says_what_is_possible()["operation"]
                self.browser.drag(LINE, -120, kind)
                after = self.assert_says_what_is_possible()["operation"]
                self.assertLess(after, before)
                # The line stands at the lower edge of its operation.
                off = self.browser.run("""const rows = [...document.querySelectorAll(".operations tbody tr")];
                    const row = rows.find((r) => r.classList.contains("above"));
                    const line = document.querySelector(".moment").getBoundingClientRect();
                    return Math.abs(row.getBoundingClientRect().bottom - (line.top + line.bottom) / 2);""")
                self.assertLess(off, 2)
        self.assert_no_errors()

    def test_operations_after_the_line_have_not_run(self):
        self.open("small.html")
        self.browser.press(LINE, "\ue011\ue015\ue015\ue015")  # home, and three down
        rows = self.browser.run("""return [...document.querySelectorAll(".operations tbody tr")].map((r) =>
            [r.classList.contains("later"), r.cells[0].textContent]);""")
        self.assertEqual([row[0] for row in rows], [False] * 4 + [True] * 8)

    def test_a_click_on_a_state_shows_it(self):
        self.open("small.html")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.states .hand').length"), 1)
        self.browser.click(".states li:last-child button")
        pressed = self.browser.run("""return [...document.querySelectorAll(".states button")].map((b) => b.getAttribute("aria-pressed"));""")
        self.assertEqual(pressed.count("true"), 1)
        self.assertFalse(self.browser.run("""return document.querySelector('.states [aria-pressed="true"] .hand') !== null"""))
        self.assert_no_errors()

    def test_hostile_texts_do_nothing_and_are_seen(self):
        pages = sorted(name for name in os.listdir(self.directory.name) if name.startswith("hostile-"))
        self.assertEqual(len(pages), 14)
        for name in pages:
            with self.subTest(name):
                self.open(name)
                found = self.browser.run("""
                    for (const b of document.querySelectorAll("summary, .states button")) b.click();
                    const text = JSON.parse(document.getElementById("data").textContent)[0].violation.sentence;
                    return {hit: window.wasHit === undefined, images: document.images.length, scripts: document.scripts.length,
                      title: document.querySelector("h1").textContent, text,
                      raw: /[\\u0000-\\u0008\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]/.test(document.getElementById("page").textContent),
                      wide: document.documentElement.scrollWidth - innerWidth};""")
                self.assertTrue(found["hit"])
                self.assertEqual((found["images"], found["scripts"]), (0, 2))
                self.assertFalse(found["raw"], "a character that changes what is seen is not spelled out")
                self.assertLessEqual(found["wide"], 0, "a long text makes the page scroll sideways")
                self.assertEqual(found["title"][:3].lower(), found["text"][:3].lower())
                self.assert_no_errors()

    def test_long_names_can_be_read_whole(self):
        self.open("hostile-13.html")
        length = "return document.querySelector('h1').textContent.length"
        self.assertLess(self.browser.run(length), 1000)
        self.browser.click("h1 button")
        self.assertEqual(self.browser.run(length), 10000)

    def test_large_page_is_quick(self):
        self.assertLess(os.path.getsize(os.path.join(self.directory.name, "large.html")), 5_000_000)
        self.open("large.html")
        self.assert_says_what_is_possible()
        took = self.browser.run("""
            const line = document.querySelector(".moment"), begin = performance.now();
            for (let i = 0; i < 20; ++i) line.dispatchEvent(new KeyboardEvent("keydown", {key: i % 2 ? "PageUp" : "ArrowUp"}));
            document.body.offsetHeight;
            return (performance.now() - begin) / 20;""")
        print(f"large page: {took:.1f} ms a move of the line")
        self.assertLess(took, 400)
        self.assert_says_what_is_possible()
        self.assertLess(self.browser.run("return document.querySelectorAll('*').length"), 5000)
        self.assert_no_errors()

    def machines(self):
        """Where the line of machine 0 is, by its value and its words, and what is said of that moment."""
        return self.browser.run("""const line = document.querySelector(".moment"), panel = document.querySelector(".panel");
            const failure = document.querySelector("tr.failure");
            return {now: Number(line.getAttribute("aria-valuenow")), text: line.getAttribute("aria-valuetext"),
              label: line.textContent, said: panel.querySelector("p").textContent,
              above: failure ? [...failure.parentElement.children].indexOf(failure) : null,
              off: failure ? Math.abs(failure.getBoundingClientRect().top - (line.getBoundingClientRect().top + line.getBoundingClientRect().bottom) / 2) : 0};""")

    def test_the_line_of_a_machine_moves(self):
        self.open("machines.html")
        before = self.machines()
        self.assertEqual((before["above"], before["text"]), (23, "after 23 steps"))
        self.assertIn("Machine 0 dies after 23 steps in 1 execution of the 8 shown; 1 of them fails.", before["said"])
        self.browser.press(LINE, "\ue013")  # arrow up
        after = self.machines()
        self.assertEqual(after["now"], before["now"] - 1)
        self.assertLess(after["above"], before["above"])
        self.assertIn("none of them fail", after["said"])
        self.assertLess(after["off"], 2)
        self.assertEqual(self.browser.run("return document.activeElement.getAttribute('aria-label')"), "When machine 0 fails")
        self.browser.press(LINE, "\ue011")  # home
        self.assertEqual(self.machines()["now"], 0)
        self.browser.press(LINE, "\ue010")  # end
        self.assertEqual(self.machines(), before)
        for kind in ("mouse", "touch"):
            with self.subTest(kind):
                self.open("machines.html")
                self.browser.run("document.querySelector('.moment').scrollIntoView({block: 'center'})")
                self.browser.drag(LINE, -250, kind)
                dragged = self.machines()
                self.assertLess(dragged["above"], before["above"])
                self.assertLess(dragged["off"], 2)
        self.assert_no_errors()

    def test_a_large_page_of_machines_is_quick(self):
        self.assertLess(os.path.getsize(os.path.join(self.directory.name, "large_machines.html")), 5_000_000)
        self.open("large_machines.html")
        took = self.browser.run("""
            const line = document.querySelector(".moment"), begin = performance.now();
            for (let i = 0; i < 20; ++i) line.dispatchEvent(new KeyboardEvent("keydown", {key: i % 2 ? "PageUp" : "ArrowUp"}));
            document.body.offsetHeight;
            return (performance.now() - begin) / 20;""")
        print(f"large page of machines: {took:.1f} ms a move of the line")
        self.assertLess(took, 400)
        self.assertLess(self.browser.run("return document.querySelectorAll('*').length"), 5000)
        self.assert_no_errors()

    def test_machines_that_die_at_other_moments(self):
        with open(os.path.join(self.directory.name, "box.c"), "w") as file:
            file.write("""#include <assert.h>
#include "crashcut.h"
struct box { _Alignas(64) long data; _Alignas(64) long ready; };
int main(void) {
  struct box* b = crashcut_cxl("box", sizeof *b);
  if (crashcut_machine() == 0) {
    b->data = 42;
    __atomic_store_n(&b->ready, 1, __ATOMIC_RELEASE);
  } else {
    crashcut_wait_machine(0);
    if (__atomic_load_n(&b->ready, __ATOMIC_ACQUIRE)) assert(b->data == 42);
  }
  return 0;
}
""")
        self.assertEqual(self.run_crashcut("box.html", "cxl", "--machines", "2", "--html", "box.html", "box.c"), 1)
        at_hand = self.machines()
        self.assertIn("machine 0 dies", at_hand["label"])
        self.assertIn("in main box.c:7", self.browser.run("return document.querySelector('.panel').innerText"))
        self.assertIn("A flush of box and a fence after box.c:7", self.browser.run("return document.body.innerText"))
        self.browser.press(LINE, "\ue010")  # end: it does not die
        self.assertIn("does not die", self.machines()["said"])
        self.assertEqual(self.browser.run("return document.querySelectorAll('tr.failure').length"), 0)
        self.browser.press(LINE, "\ue011")
        self.assertIn("Machine 0 dies after", self.machines()["said"])
        # The right program has no violation, and shows what was explored all the same.
        self.assertEqual(self.run_crashcut("ring.html", "cxl", "--html", "ring.html", "--machines", "2",
                                           f"{SOURCE}/tests/cxl_mend/none_promise.c"), 1)
        self.assertIn("No single flush or fence", self.browser.run("return document.body.innerText"))
        self.assert_no_errors()

    def test_fits_narrow_and_wide_in_both_colours(self):
        colours = set()
        for scheme in ("light", "dark"):
            for width in (360, 800, 1280, 1900):
                self.browser.resize(width, 800, width < 500)
                self.browser.set_colours(scheme)
                self.open("small.html")
                wide, paper = self.browser.run("""return [document.documentElement.scrollWidth,
                    getComputedStyle(document.documentElement).backgroundColor];""")
                self.assertLessEqual(wide, width)
                colours.add((scheme, paper))
        self.assertEqual(len({paper for _, paper in colours}), 2)

    def test_line_follows_a_resize(self):
        self.open("small.html")
        self.browser.resize(400, 800)
        off = self.browser.post("execute/async", {"script": """const done = arguments[0];
            requestAnimationFrame(() => requestAnimationFrame(() => {
              const row = document.querySelector(".operations tr.above").getBoundingClientRect();
              const line = document.querySelector(".moment").getBoundingClientRect();
              done(Math.abs(row.bottom - (line.top + line.bottom) / 2)); }));""", "args": []})
        self.assertLess(off, 2)

    def test_marks_differ_without_colours(self):
        self.open("small.html")
        words = self.browser.run("""return [...document.querySelectorAll(".mark")].every((m) =>
            m.textContent !== "" || m.parentElement.textContent.trim() !== "");""")
        self.assertTrue(words)

    def test_tables_have_heads(self):
        self.open("small.html")
        self.assertEqual(self.browser.run("""return [...document.querySelectorAll("table")].filter((t) =>
            ![...t.querySelectorAll("thead th")].some((h) => h.scope === "col")).length;"""), 0)

    def test_a_check_of_a_file(self):
        code = self.run_crashcut("check.html", "check", "--html", "check.html", "--setup", "echo old > notes.txt", "--file",
                                 "notes.txt", "--", "sh", "-c", "echo new contents > notes.txt")
        self.assertEqual(code, 1)
        state = self.assert_says_what_is_possible()
        self.assertEqual(state["operation"], 9)  # the last before the exit is promised
        page = self.browser.run("return document.getElementById('page').innerText")
        for words in ("A crash can leave notes.txt empty", "before: 4 bytes", "expected: 13 bytes", "after the crash: 0 bytes",
                      "the crash at hand"):
            self.assertIn(words, page)
        left = os.listdir(os.path.join(self.directory.name, "crashcut.out", "1"))
        self.assertIn("page.html", left)
        self.assert_no_errors()

    def test_a_comparison_of_models(self):
        self.run_crashcut("compare.html", "compare", "--html", "compare.html", f"{SOURCE}/workloads/examples/save_lossy.c")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.matrix thead th').length"), 6)
        self.browser.click(".matrix tbody + tbody tr:first-child td:nth-child(2) button")  # NULs under the first model
        shown = self.browser.run("""return [document.querySelector('.states [aria-pressed="true"]').textContent,
            document.querySelector(".matrix [aria-pressed=true]").textContent];""")
        self.assertIn("fails", shown[0])
        self.assertIn("1 recovery", shown[1])
        self.assert_no_errors()

    def test_a_schedule_has_stacks_and_source_lines(self):
        self.assertEqual(self.run_crashcut("race.html", "threads", "--jobs", "1", "--html", "race.html",
                                           f"{SOURCE}/tests/lock_mend/counter.c"), 1)
        self.assertFalse(self.browser.run("return document.querySelector('.lanes details .stack').checkVisibility()"))
        self.browser.click(".lanes details summary")
        stack = self.browser.run("return document.querySelector('.lanes details .stack').innerText")
        self.assertRegex(stack, r"main at counter\.c:\d+")
        lines = self.browser.run("""return [...document.querySelectorAll(".source tr.at")].map((row) =>
            [row.cells[0].textContent, row.cells[1].textContent.trim(), row.cells[2].innerText]);""")
        race = [line for line in lines if line[1] == "counter++;"]
        self.assertEqual(len(race), 1, lines)
        self.assertEqual(race[0][0], "14")
        self.assertRegex(race[0][2], r"thread \d (writes|reads)")
        self.assertIn("one more mutex, held around counter.c:14 (count)", self.browser.run("return document.body.innerText"))
        self.assert_no_errors()

    def test_calls_have_source_lines(self):
        self.assertEqual(self.run_crashcut("save.html", "run", "--html", "save.html",
                                           f"{SOURCE}/workloads/examples/save_lossy.c"), 1)
        rows = self.browser.run("""return [...document.querySelectorAll(".operations tbody tr, .calls li")]
            .map((row) => row.innerText);""")
        for call, place in (("rename(", "save"), ("write(", "write_file"), ("read(", "crashcut_recover")):
            told = [row for row in rows if call in row]
            self.assertTrue(told, rows)
            for row in told:
                self.assertRegex(row, rf"{place} save_lossy\.c:\d+")
        self.assert_no_errors()

    def test_many_threads_are_named_at_each_step(self):
        with open(os.path.join(self.directory.name, "many.c"), "w") as file:
            file.write("""#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void* run(void* a) { pthread_mutex_lock(&m); return a; }
int main(void) {
  pthread_t t[9];
  for (int i = 0; i < 9; ++i) pthread_create(&t[i], 0, run, 0);
  for (int i = 0; i < 9; ++i) pthread_join(t[i], 0);
  return 0;
}
""")
        self.assertEqual(self.run_crashcut("many.html", "threads", "--jobs", "1", "--html", "many.html", "many.c"), 1)
        names = self.browser.run("""return [...document.querySelectorAll(".lanes tbody tr")].map((row) => row.cells[1].innerText);""")
        self.assertTrue(all("thread " in name or "main" in name for name in names), names)

    def test_states_of_a_crash_after_a_schedule(self):
        with open(os.path.join(self.directory.name, "two.c"), "w") as file:
            file.write(r"""#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
#include "crashcut.h"
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int fd;
static void* put(void* text) {
  pthread_mutex_lock(&m);
  assert(write(fd, text, 1) == 1);
  crashcut_mark(text);
  pthread_mutex_unlock(&m);
  return NULL;
}
int main(void) {
  fd = open("log", O_CREAT | O_RDWR | O_APPEND, 0644);
  crashcut_barrier();
  pthread_t t[2];
  pthread_create(&t[0], NULL, put, "a");
  pthread_create(&t[1], NULL, put, "b");
  for (int i = 0; i < 2; ++i) pthread_join(t[i], NULL);
  return 0;
}
void crashcut_recover(void) {
  char b[2] = {0, 0};
  int f = open("log", O_RDONLY);
  long n = read(f, b, 2);
  assert(!crashcut_reached("a") || (n >= 1 && (b[0] == 'a' || b[1] == 'a')));
}
""")
        self.assertEqual(self.run_crashcut("two.html", "threads", "--jobs", "1", "--html", "two.html", "two.c"), 1)
        self.assert_says_what_is_possible()
        shown = self.browser.run("return document.querySelector('.states [aria-pressed=true]').innerText")
        self.assertIn("recovery: recovery aborted (SIGABRT)", shown)
        self.assertIn("the crash at hand", shown)
        self.assert_no_errors()

    def test_a_command_is_as_a_shell_takes_it(self):
        self.run_crashcut("words.html", "check", "--html", "words.html", "--no-durable", "--", "sh", "-c", "echo 'a b' > c")
        self.assertEqual(self.browser.run("return document.querySelector('.command').textContent"),
                         r"crashcut check -- sh -c 'echo '\''a b'\'' > c'")

    def test_a_verified_program(self):
        self.assertEqual(self.run_crashcut("safe.html", "run", "--html", "safe.html",
                                           f"{SOURCE}/workloads/examples/save_safe.c"), 0)
        self.assertIn("nothing failed", self.browser.run("return document.querySelector('h1').textContent"))
        before = self.browser.run("return document.querySelector('.panel p').textContent")
        self.browser.press(LINE, "\ue011")  # home
        self.assertNotEqual(self.browser.run("return document.querySelector('.panel p').textContent"), before)
        self.assert_no_errors()


if __name__ == "__main__":
    if missing := web.what_is_missing():
        print(f"skipped: {missing} is not installed (scripts/setup.sh chromium chromium-driver)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
