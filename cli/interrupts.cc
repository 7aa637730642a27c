#include "cli/interrupts.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <string_view>

#include "cli/bounds.h"

namespace crashcut::cli {
namespace {

constexpr int kBoundHit = 3;
constexpr int kToolFailed = 4;

// A mapped file, a trace, has become shorter: the page that is read is missing.
void on_missing_page(int) {
  constexpr std::string_view kSentence =
      "crashcut: the trace became shorter, or could not be read, while crashcut read it.\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
  _exit(kToolFailed);
}

// What the handler reads.
std::atomic<bool> g_interrupted{false};
std::atomic<Guard*> g_guard{nullptr};
std::atomic<bool> g_searching{false};
std::atomic<bool> g_memory_told{false};
std::atomic<std::atomic<bool>*> g_stop{nullptr};

void end_at_once(bool is_heard, std::string_view sentence) {
  if (Guard* guard = g_guard.load(); guard != nullptr) guard->finish();
  [[maybe_unused]] const auto written = is_heard ? write(STDERR_FILENO, sentence.data(), sentence.size()) : 0;
  _exit(kBoundHit);
}

void on_signal(int signal) {
  // The first signal about memory changes nothing while a recording runs: the recorder polls the limit itself.
  if (signal == SIGUSR1 && is_memory_polled() && !g_memory_told.exchange(true)) return;
  const bool is_first = !g_interrupted.exchange(true);
  if (g_searching.load() && is_first && signal != SIGPIPE) {
    // is_interrupted() is all it needs.
  } else if (std::atomic<bool>* stop = g_stop.load(); stop != nullptr && is_first && signal != SIGPIPE) {
    stop->store(true);
  } else {
    end_at_once(signal != SIGPIPE, is_memory_hit() ? "bounded: --memory-limit was reached before there was a result\n"
                                                   : "bounded: interrupted before there was a result\n");
  }
}

void on_end_of_time(int) { end_at_once(true, "bounded: --time was reached before there was a result\n"); }

void set_timer(std::chrono::microseconds left) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  itimerval timer{};
  timer.it_value = {.tv_sec = seconds.count(), .tv_usec = (left - seconds).count()};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGALRM}) sigaddset(&set, signal);
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
  sigaction(SIGUSR1, &action, nullptr);  // from our watch of the memory
  action.sa_handler = on_end_of_time;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_handler = on_missing_page;
  sigaction(SIGBUS, &action, nullptr);
}

bool is_interrupted() { return g_interrupted.load(); }

SearchSignals::SearchSignals() { g_searching.store(true); }
SearchSignals::~SearchSignals() { g_searching.store(false); }

void watch_stop(std::atomic<bool>* stop) {
  g_stop.store(stop);
  if (stop != nullptr && is_interrupted()) stop->store(true);
}

EndsInTime::EndsInTime(std::optional<std::chrono::steady_clock::time_point> end) {
  using std::chrono::microseconds;
  if (!end) return;
  const auto left = *end + std::chrono::seconds(1) - std::chrono::steady_clock::now();
  set_timer(std::max(std::chrono::duration_cast<microseconds>(left), microseconds(1)));
}
EndsInTime::~EndsInTime() { set_timer({}); }

void watch_guard(Guard* guard) { g_guard.store(guard); }

}  // namespace crashcut::cli
