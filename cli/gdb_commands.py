# What gdb learns from crashcut gdb: commands to go to a step of what was found. Every one runs the program anew up to there:
# crashcut holds it, and gdb attaches. begin() is called first.
import struct
import subprocess

import gdb

REGISTERS = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]  # as crashcut_switch leaves them on the stack


class Session:
    def __init__(self):
        self.helper = None
        self.step = 0

    def begin(self, crashcut, words):
        self.crashcut, self.words = crashcut, words
        ran = subprocess.run([crashcut, "gdb", "--steps", *words], capture_output=True, text=True)
        if ran.returncode != 0:
            print(ran.stderr.strip())
            gdb.execute("quit %d" % ran.returncode)
        # A line a step: where crashcut holds the program for it, and its text.
        self.places, self.lines = [], []
        for line in ran.stdout.splitlines():
            place, text = line.split("\t", 1)
            self.places.append(place)
            self.lines.append(text)
        # crashcut's own: system calls of the program come by it.
        gdb.execute("handle SIGSYS nostop noprint pass", to_string=True)
        for setting in ["pagination off", "confirm off", "auto-load libthread-db off", "debuginfod enabled off"]:
            try:
                gdb.execute("set " + setting, to_string=True)
            except gdb.error:
                pass
        self.go(len(self.lines))

    def end(self):
        if self.helper is None:
            return
        if gdb.selected_inferior().pid != 0:
            gdb.execute("detach", to_string=True)
        self.helper.stdin.close()
        self.helper.wait()
        self.helper = None

    def go(self, step):
        if step < 1 or step > len(self.lines):
            raise gdb.GdbError("There are steps 1 to %d." % len(self.lines))
        self.end()
        place = self.places[step - 1]
        self.helper = subprocess.Popen([self.crashcut, "gdb", "--hold", place, *self.words],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = self.helper.stdout.readline().rstrip("\n").split("\t")
        if words[0] != "held":
            self.helper = None
            raise gdb.GdbError("The program cannot be brought to step %d." % step)
        self.names = words[2:]
        gdb.execute("attach " + words[1], to_string=True)
        gdb.execute("set var *(unsigned long*)&crashcut_held = 0", to_string=True)
        self.step = step
        if ":" in place:
            self.names = []
        if place == "recovery:0":
            self.enter(words[2])
        print(self.lines[step - 1])
        self.show()

    # The recovery has not begun: it goes on to its function.
    def enter(self, function):
        gdb.execute("tbreak " + function, to_string=True)
        gdb.execute("continue", to_string=True)

    # A call of the system is modelled in a signal handler, which gdb does not look beyond. The program goes on to where the
    # call returns to: REG_RIP of the handler's ucontext_t, which lies behind its return address.
    def leave_system_call(self):
        frame = gdb.newest_frame()
        while frame is not None and "on_sigsys" not in (frame.name() or ""):
            frame = frame.older()
        if frame is None or frame.older() is None:
            return
        context = int(frame.older().read_register("rsp"))
        back = struct.unpack("Q", gdb.selected_inferior().read_memory(context + 168, 8).tobytes())[0]
        gdb.execute("tbreak *%d" % back, to_string=True)
        gdb.execute("continue", to_string=True)

    def show(self):
        if own_frame() is None:
            self.leave_system_call()
        if gdb.selected_inferior().pid == 0:
            print("The process has ended.")
            return
        frame = own_frame()
        if frame is None:
            print("It is in no code that has lines.")
        else:
            frame.select()
            gdb.execute("frame")

    def fibers(self):
        count = int(gdb.parse_and_eval("*(unsigned long*)&crashcut_held_count"))
        at = int(gdb.parse_and_eval("(unsigned long)&crashcut_held_fibers"))
        data = gdb.selected_inferior().read_memory(at, 16 * count).tobytes()
        fibers = [struct.unpack_from("QQ", data, 16 * i) for i in range(count)]
        return fibers or [(0, 0)]

    def name(self, actor):
        if not self.names:
            return "main"
        return self.names[actor] if actor < len(self.names) else "actor %d" % actor

    # Calls action() with the registers as the fiber left them, and puts them back.
    def within(self, stack_pointer, action):
        if stack_pointer == 0:
            return action()
        gdb.newest_frame().select()
        saved = {r: int(gdb.parse_and_eval("(unsigned long)$" + r)) for r in REGISTERS + ["rsp"]}
        values = struct.unpack("8Q", gdb.selected_inferior().read_memory(stack_pointer, 64).tobytes())
        wanted = dict(zip(REGISTERS, values[1:]), rsp=stack_pointer + 64)
        try:
            self.set(wanted)
            return action()
        finally:
            gdb.newest_frame().select()
            self.set(saved)

    def set(self, registers):
        for name, value in registers.items():
            gdb.execute("set var $%s = %d" % (name, value), to_string=True)


# The innermost frame that is the program's own.
def own_frame():
    frame = gdb.newest_frame()
    while frame is not None:
        library = gdb.solib_name(frame.pc()) or ""
        if "libcrashcut_" not in library and frame.find_sal().symtab is not None:
            return frame
        frame = frame.older()
    return None


def place():
    frame = own_frame()
    if frame is None:
        return "not in code that has lines"
    line = frame.find_sal()
    return "%s at %s:%d" % (frame.name(), line.symtab.filename.split("/")[-1], line.line)


session = Session()
gdb.events.gdb_exiting.connect(lambda event: session.end()) if hasattr(gdb.events, "gdb_exiting") else None


class Crashcut(gdb.Command):
    """Steps of what crashcut found."""

    def __init__(self):
        super().__init__("crashcut", gdb.COMMAND_RUNNING, prefix=True)


class Goto(gdb.Command):
    """crashcut goto N: run the program up to and with step N."""

    def __init__(self):
        super().__init__("crashcut goto", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        if not argument.strip().isdigit():
            raise gdb.GdbError("crashcut goto N")
        session.go(int(argument))


class Forward(gdb.Command):
    """crashcut forward: one step on."""

    def __init__(self):
        super().__init__("crashcut forward", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        session.go(session.step + 1)


class Back(gdb.Command):
    """crashcut back: one step back, by running the program again."""

    def __init__(self):
        super().__init__("crashcut back", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        session.go(session.step - 1)


class Schedule(gdb.Command):
    """crashcut schedule: the steps, and which was taken last."""

    def __init__(self):
        super().__init__("crashcut schedule", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        for i, line in enumerate(session.lines):
            print(("=> " if i + 1 == session.step else "   ") + line)


class Threads(gdb.Command):
    """crashcut threads: the program's threads and where each stands."""

    def __init__(self):
        super().__init__("crashcut threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for actor, stack_pointer in session.fibers():
            mark = "=> " if stack_pointer == 0 else "   "
            print("%s%d  %-12s %s" % (mark, actor, session.name(actor), session.within(stack_pointer, place)))


class Backtrace(gdb.Command):
    """crashcut backtrace N: the calls of the thread that crashcut threads numbers N."""

    def __init__(self):
        super().__init__("crashcut backtrace", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for actor, stack_pointer in session.fibers():
            if str(actor) == argument.strip():
                return session.within(stack_pointer, lambda: gdb.execute("backtrace"))
        raise gdb.GdbError("crashcut backtrace N, where N is one of crashcut threads")


for command in [Crashcut, Goto, Forward, Back, Schedule, Threads, Backtrace]:
    command()
