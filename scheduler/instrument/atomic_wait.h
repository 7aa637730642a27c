/* Included before everything in an instrumented build. libstdc++ looks sixteen times at what an atomic wait, a latch or
   a barrier waits for before it sleeps. That is for speed alone; here each look would be an operation, and every order
   of them with the others' would be tried. This overload looks once. */
#if defined(__cplusplus) && __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<bits/atomic_wait.h>)
#include <bits/atomic_wait.h>
#if defined(__cpp_lib_atomic_wait)
namespace std::__detail {
template <typename Predicate>
bool __atomic_spin(Predicate& predicate, __default_spin_policy) noexcept {
  return predicate();
}
}  // namespace std::__detail
#endif
#endif
#endif
