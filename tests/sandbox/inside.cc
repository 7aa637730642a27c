#include "tests/sandbox/inside.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace crashcut::sandbox {

std::string name_of(Who who) {
  switch (who) {
    case Who::kRoot:
      return "Root";
    case Who::kNobody:
      return "Nobody";
    case Who::kWithoutNamespaces:
      return "WithoutNamespaces";
  }
  return "";
}

void become(Who who) {
  if (who != Who::kNobody || geteuid() != 0) return;
  constexpr unsigned kNobodyId = 65534;
  if (setgroups(0, nullptr) != 0 || setgid(kNobodyId) != 0 || setuid(kNobodyId) != 0) _exit(99);
}

Options options_for(Who who) {
  Options options;
  options.mode = who == Who::kRoot ? Mode::kNamespaces : who == Who::kNobody ? Mode::kUserNamespaces : Mode::kSubreaper;
  return options;
}

std::string why_impossible(Who who) {
  if (who == Who::kRoot && geteuid() != 0) return "not root";
  // The programs that these tests run lie beside this one.
  char own[4096] = "";
  if (readlink("/proc/self/exe", own, sizeof own - 1) <= 0) return "no /proc";
  const std::string answer = tell_from_inside(who, [&](const Inside&) {
    return access(own, X_OK) == 0 ? std::string("ok") : "the tests were built where that user may not go";
  });
  return answer == "ok" ? "" : answer;
}

std::string tell_from_inside(Who who, const std::function<std::string(const Inside&)>& function, Options options) {
  options.mode = options_for(who).mode;
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    become(who);
    close(ends[0]);
    const auto sandbox = Sandbox::start(
        [&](const Inside& inside) {
          const std::string text = function(inside);
          return send(inside.socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()) ? 0
                                                                                                                  : 1;
        },
        options);
    std::string text = sandbox ? std::string(100000, '\0') : sandbox.error();
    if (sandbox)
      text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, recv(sandbox->socket(), text.data(), text.size(), 0))));
    const bool is_written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(is_written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(size));
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  return text;
}

Command program(std::vector<std::string> argv) {
  Command command;
  command.argv = std::move(argv);
  command.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};
  command.limit = std::chrono::seconds(60);
  return command;
}

Command shell(const std::string& script) { return program({"sh", "-c", script}); }

std::string to_text(const Outcome& outcome) {
  using End = Outcome::End;
  std::string text = outcome.end == End::kExited      ? fmt::format("exit {}", outcome.code)
                     : outcome.end == End::kSignalled ? fmt::format("signal {}", outcome.signal)
                     : outcome.end == End::kTimedOut  ? "time"
                                                      : outcome.why;
  if (!outcome.out.empty()) text += fmt::format(" out={}", outcome.out);
  if (!outcome.err.empty()) text += fmt::format(" err={}", outcome.err);
  if (outcome.left_running > 0) text += fmt::format(" left={}", outcome.left_running);
  if (outcome.is_stuck) text += " stuck";
  return text;
}

}  // namespace crashcut::sandbox
