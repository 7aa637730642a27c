// Waits that end without a signal, one a word. By abort() or assert() where an outcome is found that must be found.
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int flag, late;

static void with_thread(const std::function<void()>& other, const std::function<void()>& own) {
  std::thread thread(other);
  own();
  thread.join();
}

static timespec soon() {
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  ++until.tv_sec;
  return until;
}
static int timed_wait() {
  const timespec until = soon();
  return pthread_cond_timedwait(&c, &m, &until);
}
static void set_flag() {
  pthread_mutex_lock(&m);
  ++flag;
  pthread_cond_signal(&c);
  pthread_mutex_unlock(&m);
}

// Time runs out, then the flag is set and signalled, and then only does the thread get the mutex.
static void late_flag() {
  with_thread(set_flag, [] {
    pthread_mutex_lock(&m);
    if (flag == 0 && timed_wait() == ETIMEDOUT && flag != 0) abort();
    pthread_mutex_unlock(&m);
  });
}

// The same with libstdc++'s.
static void wait_for() {
  static std::mutex mutex;
  static std::condition_variable condition;
  static bool ready = false;
  with_thread(
      [] {
        const std::lock_guard lock(mutex);
        ready = true;
        condition.notify_one();
      },
      [] {
        std::unique_lock lock(mutex);
        if (!ready && condition.wait_for(lock, std::chrono::seconds(1)) == std::cv_status::timeout && ready) abort();
      });
}

// The same, and the signal wakes another waiter, which gets the mutex later.
static void other_waiter() {
  std::thread timed([] {
    pthread_mutex_lock(&m);
    if (flag == 0) {
      const int result = timed_wait();
      if (result == 0) pthread_cond_signal(&c);  // it was for the other
      if (result == ETIMEDOUT && flag != 0) late = 1;
    }
    pthread_mutex_unlock(&m);
  });
  std::thread plain([] {
    pthread_mutex_lock(&m);
    while (flag == 0) pthread_cond_wait(&c, &m);
    if (late != 0) abort();
    pthread_mutex_unlock(&m);
  });
  set_flag();
  timed.join();
  plain.join();
}

// One signal, and two threads that waited go on, with the flag set: one of them woke for nothing.
static void stirred_and_late() {
  const auto wait = [] {
    pthread_mutex_lock(&m);
    if (flag == 0) {
      pthread_cond_wait(&c, &m);
      late += flag;
    }
    pthread_mutex_unlock(&m);
  };
  std::thread one(wait), two(wait);
  set_flag();
  pthread_mutex_lock(&m);
  if (late == 2) abort();
  pthread_mutex_unlock(&m);
  pthread_cond_broadcast(&c);
  one.join();
  two.join();
}

static void if_for_while() {
  with_thread(set_flag, [] {
    pthread_mutex_lock(&m);
    if (flag == 0) pthread_cond_wait(&c, &m);
    assert(flag != 0);
    pthread_mutex_unlock(&m);
  });
}

// A signal that comes too early is lost: that a wake-up for nothing would mend it is no excuse.
static void lost_signal() {
  with_thread([] { pthread_cond_signal(&c); },
              [] {
                pthread_mutex_lock(&m);
                pthread_cond_wait(&c, &m);
                pthread_mutex_unlock(&m);
              });
}

// Never has to wait.
static void never_waits() {
  for (int i = 0; i < 4; ++i) {
    const timespec until = soon();
    if (pthread_mutex_timedlock(&m, &until) != 0) abort();
    pthread_mutex_unlock(&m);
    sem_post(&semaphore);
    if (sem_timedwait(&semaphore, &until) != 0) abort();
  }
}
// Another uses the semaphore, but there is always one left.
static void never_waits_for_units() {
  sem_post(&semaphore);
  sem_post(&semaphore);
  const auto use = [] {
    for (int i = 0; i < 2; ++i) {
      const timespec until = soon();
      if (sem_timedwait(&semaphore, &until) != 0) abort();
      sem_post(&semaphore);
    }
  };
  with_thread(use, use);
}

static void contended_lock() {
  with_thread([] { set_flag(); },
              [] {
                const timespec until = soon();
                if (pthread_mutex_timedlock(&m, &until) == 0) pthread_mutex_unlock(&m);
              });
}

// Each of these may run out.
static void three_waits() {
  const auto set_thrice = [] {
    for (int i = 0; i < 3; ++i) set_flag();
  };
  with_thread(set_thrice, [] {
    for (int i = 0; i < 3; ++i) {
      pthread_mutex_lock(&m);
      if (flag <= i) timed_wait();
      pthread_mutex_unlock(&m);
    }
  });
}

// Nobody else is there: time passes, and that is all that can happen.
static void alone() {
  pthread_mutex_lock(&m);
  for (int i = 0; i < 3; ++i) {
    if (timed_wait() != ETIMEDOUT) abort();
  }
  pthread_mutex_unlock(&m);
}

// What is not its own it cannot wait with.
static void not_owner() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&m, &attributes);
  if (pthread_cond_wait(&c, &m) != EPERM || timed_wait() != EPERM) abort();
}

// A second has no more nanoseconds. A mutex that is free is locked all the same.
static void bad_times() {
  const timespec bad{1, 1'000'000'000};
  if (pthread_mutex_timedlock(&m, &bad) != 0) abort();
  if (pthread_cond_timedwait(&c, &m, &bad) != EINVAL) abort();
  with_thread(
      [bad] {
        if (pthread_mutex_timedlock(&m, &bad) != EINVAL) abort();
      },
      [] {});
  pthread_mutex_unlock(&m);
  if (sem_timedwait(&semaphore, &bad) == 0 || errno != EINVAL) abort();
  static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
  if (pthread_rwlock_timedrdlock(&l, &bad) != EINVAL || pthread_rwlock_timedwrlock(&l, &bad) != EINVAL) abort();
}

int main(int, char** argv) {
  sem_init(&semaphore, 0, 0);
  static const std::map<std::string, void (*)()> words = {{"late-flag", late_flag},
                                                          {"wait_for", wait_for},
                                                          {"other-waiter", other_waiter},
                                                          {"stirred-and-late", stirred_and_late},
                                                          {"if", if_for_while},
                                                          {"lost-signal", lost_signal},
                                                          {"never-waits", never_waits},
                                                          {"never-waits-for-units", never_waits_for_units},
                                                          {"contended-lock", contended_lock},
                                                          {"three-waits", three_waits},
                                                          {"alone", alone},
                                                          {"not-owner", not_owner},
                                                          {"bad-times", bad_times}};
  words.at(argv[1])();
}
