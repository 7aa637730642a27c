#include "cli/instrumentation.h"

#include <fmt/format.h>

#include <boost/filesystem.hpp>

#include "recovery/process_output.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;

// Told by the macros that the compiler defines: its name may be cc.
bool has_macro(const std::string& macros, const char* name) {
  return macros.find(fmt::format("#define {} ", name)) != std::string::npos;
}

std::string macros_of(const std::string& compiler) {
  return output_of({compiler, "-dM", "-E", "-x", "c", "/dev/null"});
}

}  // namespace

bool is_gcc(const std::string& compiler) {
  const std::string macros = macros_of(compiler);
  return has_macro(macros, "__GNUC__") && !has_macro(macros, "__clang__");
}

tl::expected<std::vector<std::string>, Failure> instrumentation_flags(const std::string& compiler) {
  const std::string directory = (fs::read_symlink("/proc/self/exe").parent_path() / "instrument").string();
  if (!fs::exists(directory + "/libtsan.so"))
    return tl::unexpected(
        Failure{result::Blame::kTool,
                fmt::format("The library for instrumented programs is missing: {}/libtsan.so.", directory)});
  const std::string macros = macros_of(compiler);
  std::vector<std::string> flags = {"-fsanitize=thread", "-g"};
  if (has_macro(macros, "__clang__")) {
    // A load that a store to the same place follows is an access too. Its own runtime is left out; ours is asked for.
    flags.insert(flags.end(), {"-fno-sanitize-link-runtime", "-mllvm", "-tsan-instrument-read-before-write=1",
                               "-Wno-unused-command-line-argument", "-L" + directory, "-ltsan"});
  } else if (has_macro(macros, "__GNUC__")) {
    // gcc looks here first for its runtime. It warns of fences, but our runtime handles them.
    flags.insert(flags.end(), {"-B" + directory, "-Wno-tsan"});
  } else {
    return tl::unexpected(
        Failure{result::Blame::kUser,
                fmt::format("Cannot tell what compiler {} is: it must be g++ (gcc) or clang.", compiler)});
  }
  // Calls of these are accesses too: they are made calls, and the linker gives them to us.
  for (const char* name : {"memcpy", "memmove", "memset"}) {
    flags.push_back(fmt::format("-fno-builtin-{}", name));
    flags.push_back(fmt::format("-Wl,--wrap={}", name));
  }
  flags.insert(flags.end(), {"-include", directory + "/atomic_wait.h", "-Wl,-rpath," + directory});
  return flags;
}

}  // namespace crashcut::cli
