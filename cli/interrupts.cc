#include "cli/interrupts.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

namespace crashcut::cli {
namespace {

constexpr std::size_t kPathMost = 4096;
constexpr int kBoundHit = 3;

// What the handler reads. One thread writes it, with signals blocked where that takes more than one step.
std::atomic<bool> g_interrupted{false};
std::atomic<inprocess::Session*> g_session{nullptr};
std::atomic<std::atomic<bool>*> g_stop{nullptr};
std::atomic<pid_t> g_compiler{0};
char g_directory[kPathMost];
char g_file[kPathMost];

void end_at_once(bool is_heard) {
  if (g_file[0] != '\0') unlink(g_file);
  if (g_directory[0] != '\0') rmdir(g_directory);
  constexpr char kSentence[] = "bounded: interrupted before there was a result\n";
  [[maybe_unused]] const auto written = is_heard ? write(STDERR_FILENO, kSentence, sizeof kSentence - 1) : 0;
  _exit(kBoundHit);
}

void on_signal(int signal) {
  const bool is_first = !g_interrupted.exchange(true);
  if (const pid_t compiler = g_compiler.load(); compiler > 0) {
    kill(-compiler, SIGKILL);
  } else if (inprocess::Session* session = g_session.load(); session != nullptr && is_first && signal != SIGPIPE) {
    session->stop();
  } else if (std::atomic<bool>* stop = g_stop.load(); stop != nullptr && is_first && signal != SIGPIPE) {
    stop->store(true);
  } else {
    end_at_once(signal != SIGPIPE);
  }
}

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void install_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_mask = our_signals();
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    // nohup and the like: what our caller ignores stays ignored.
    struct sigaction current {};
    sigaction(signal, nullptr, &current);
    if (current.sa_handler != SIG_IGN || signal == SIGPIPE) sigaction(signal, &action, nullptr);
  }
}

bool is_interrupted() { return g_interrupted.load(); }

void watch_session(inprocess::Session* session) {
  g_session.store(session);
  // A signal that came while it started ended us; one between then and now is caught up here.
  if (session != nullptr && is_interrupted()) session->stop();
}

void watch_stop(std::atomic<bool>* stop) {
  g_stop.store(stop);
  if (stop != nullptr && is_interrupted()) stop->store(true);
}

void watch_compiler(pid_t group) { g_compiler.store(group); }

void watch_temporary(const std::string& directory, const std::string& file) {
  sigset_t ours = our_signals(), before;
  sigprocmask(SIG_BLOCK, &ours, &before);
  std::strncpy(g_directory, directory.c_str(), kPathMost - 1);
  std::strncpy(g_file, file.c_str(), kPathMost - 1);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace crashcut::cli
