#include "cli/interrupts.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace crashcut::cli {
namespace {

constexpr int kBoundHit = 3;

// What the handler reads.
std::atomic<bool> g_interrupted{false};
std::atomic<Guard*> g_guard{nullptr};
std::atomic<bool> g_searching{false};
std::atomic<std::atomic<bool>*> g_stop{nullptr};

void end_at_once(bool is_heard) {
  if (Guard* guard = g_guard.load(); guard != nullptr) guard->finish();
  constexpr char kSentence[] = "bounded: interrupted before there was a result\n";
  [[maybe_unused]] const auto written = is_heard ? write(STDERR_FILENO, kSentence, sizeof kSentence - 1) : 0;
  _exit(kBoundHit);
}

void on_signal(int signal) {
  const bool is_first = !g_interrupted.exchange(true);
  if (g_searching.load() && is_first && signal != SIGPIPE) {
    // is_interrupted() is all it needs.
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

SearchSignals::SearchSignals() { g_searching.store(true); }
SearchSignals::~SearchSignals() { g_searching.store(false); }

void watch_stop(std::atomic<bool>* stop) {
  g_stop.store(stop);
  if (stop != nullptr && is_interrupted()) stop->store(true);
}

void watch_guard(Guard* guard) { g_guard.store(guard); }

}  // namespace crashcut::cli
