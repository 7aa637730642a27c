/* Included before everything in an instrumented build. libstdc++ looks sixteen times at what an atomic wait, a latch, a
   barrier or a semaphore waits for before it sleeps. Here each look would be an operation, and every order of them with
   the others' would be tried. This overload looks once: a second look in the same state would see the same, and one in
   another state is the first look of another schedule. But for a semaphore's, which may fail since somebody else took
   one of several: there the next look can succeed where nothing has changed, so it is made. */
#if defined(__cplusplus) && __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<bits/atomic_wait.h>)
#include <bits/atomic_wait.h>
#if defined(__cpp_lib_atomic_wait)
/* Whether a compare-exchange of this thread failed since it was asked last. Without crashcut: always, as far as known.
 */
extern "C" int crashcut_exchange_failed(void);
namespace std::__detail {
template <typename Predicate>
bool __atomic_spin(Predicate& predicate, __default_spin_policy) noexcept {
  crashcut_exchange_failed();
  for (int looks = 0; looks < __atomic_spin_count; ++looks) {
    if (predicate()) return true;
    if (!crashcut_exchange_failed()) return false;
  }
  return false;
}
}  // namespace std::__detail
#endif
#endif
#endif
