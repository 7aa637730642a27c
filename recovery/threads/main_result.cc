#include "recovery/threads/main_result.h"

#include "recovery/process_output.h"
#include "recovery/threads/code.h"

namespace crashcut::recovery {

bool has_no_result(const std::string& executable, std::uint64_t main, const std::function<bool()>& is_late) {
  const std::string type = output_of({"gdb", "-nx", "-batch", "-ex", "whatis main", executable}, is_late);
  const bool is_known = type.starts_with("type = ") && !type.starts_with("type = <");
  return is_known ? type.starts_with("type = void (") : leaves_no_result(executable, main);
}

}  // namespace crashcut::recovery
