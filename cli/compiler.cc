#include "cli/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cstdlib>

#include "cli/instrumentation.h"
#include "cli/program.h"
#include "recovery/process_output.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;

constexpr int kClangVersion = 14;  // of the plugin

std::string instrument_directory() {
  return (fs::read_symlink("/proc/self/exe").parent_path() / "instrument").string();
}

// "Debian clang version 14.0.6" -> 14; 0 for another compiler.
int clang_version(const std::string& compiler) {
  const std::string text = output_of({compiler, "--version"});
  constexpr std::string_view kWords = "clang version ";
  const std::size_t at = text.find(kWords);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + kWords.size());
}

tl::expected<void, Failure> check_version(const std::string& compiler) {
  const int version = clang_version(compiler);
  if (version == kClangVersion) return {};
  if (version != 0)
    return result::wrong_use(fmt::format(
        "{} is clang {}, but crashcut's plugin is for clang {}. Install clang-{}, or name one by CRASHCUT_CLANG.",
        compiler, version, kClangVersion, kClangVersion));
  return result::wrong_use(
      fmt::format("{} is not clang, but crashcut's plugin is for clang {}. Programs by g++ are taken with the flags of "
                  "crashcut flags --pmem g++: its callbacks tell of no flush and no fence, so these are trapped.",
                  compiler, kClangVersion));
}

tl::expected<std::string, Failure> find_clang() {
  if (const char* named = std::getenv("CRASHCUT_CLANG"); named != nullptr && *named != '\0') {
    const std::string path = std::string_view(named).find('/') == std::string_view::npos ? find_in_path(named) : named;
    if (path.empty() || !fs::exists(path))
      return result::wrong_use(fmt::format("CRASHCUT_CLANG names {}, which does not exist.", named));
    if (const auto ok = check_version(path); !ok) return tl::unexpected(ok.error());
    return path;
  }
  for (const std::string& name : {fmt::format("clang-{}", kClangVersion), std::string("clang")}) {
    const std::string path = find_in_path(name);
    if (path.empty()) continue;
    if (const auto ok = check_version(path); !ok) return tl::unexpected(ok.error());
    return path;
  }
  return result::wrong_use(
      fmt::format("There is no clang. Install clang-{}, or name one by CRASHCUT_CLANG.", kClangVersion));
}

// Unused where clang only links, or only answers a question.
tl::expected<std::vector<std::string>, Failure> compile_flags(const Instrumentation& instrumentation) {
  const std::string plugin = instrument_directory() + "/libcrashcut_pmem_plugin.so";
  if (!fs::exists(plugin))
    return result::tool_failed(
        fmt::format("The plugin for clang is missing: {}. crashcut builds it where llvm-{}-dev is installed.", plugin,
                    kClangVersion));
  const auto header = find_header_directory();
  if (!header) return tl::unexpected(header.error());
  std::vector<std::string> flags = {"--start-no-unused-arguments", "-gline-tables-only", "-idirafter", *header,
                                    // What g++ takes with a warning, or without one: old libraries have it.
                                    "-Wno-error=register", "-fheinous-gnu-extensions",
                                    // -load makes the plugin's options known, which are read before passes are loaded.
                                    "-Xclang", "-load", "-Xclang", plugin, "-fpass-plugin=" + plugin};
  if (instrumentation.is_late) flags.insert(flags.end(), {"-mllvm", "-crashcut-late"});
  for (const std::string& text : instrumentation.allowed_assembly)
    flags.insert(flags.end(), {"-mllvm", "-crashcut-allow-asm=" + text});
  flags.push_back("--end-no-unused-arguments");
  return flags;
}

std::vector<std::string> link_flags() {
  const std::string directory = instrument_directory();
  return {"--start-no-unused-arguments", "-L" + directory, "-lcrashcut_pmem", "-Wl,-rpath," + directory,
          "--end-no-unused-arguments"};
}

// g++ has no plugin of ours: its own callbacks tell atomic accesses and copies, and the rest is trapped.
tl::expected<std::vector<std::string>, Failure> callback_flags(const std::string& compiler,
                                                               const Instrumentation& instrumentation) {
  if (instrumentation.is_late || !instrumentation.allowed_assembly.empty())
    return result::wrong_use(fmt::format("--late and --allow-asm are for clang's plugin: {} is gcc.", compiler));
  auto flags = instrumentation_flags(compiler);
  if (!flags) return flags;
  const auto header = find_header_directory();
  if (!header) return tl::unexpected(header.error());
  flags->insert(flags->end(), {"-idirafter", *header});
  return flags;
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* known) { return word == known; });
}

// Whether clang will link: nothing says otherwise, and there is something to link. (-l and -Wl count as inputs: given
// to a clang that only answers a question they would make it link.)
bool will_link(const std::vector<std::string>& words) {
  bool has_input = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (is_one_of(word,
                  {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-r", "--precompile", "-emit-ast", "--analyze"}))
      return false;
    if (is_one_of(
            word,
            {"-o",         "-x",      "-I",  "-D",  "-U",  "-L",      "-include",  "-imacros",    "-isystem",
             "-idirafter", "-iquote", "-MF", "-MT", "-MQ", "-Xclang", "-Xlinker",  "-Xassembler", "-Xpreprocessor",
             "-mllvm",     "-target", "-T",  "-u",  "-z",  "-arch",   "--sysroot", "-isysroot",   "--param"})) {
      ++i;
    } else if (word == "-" || word[0] != '-') {  // @FILE too
      has_input = true;
    }
  }
  return has_input;
}

}  // namespace

tl::expected<std::vector<std::string>, Failure> pmem_compiler(bool is_cxx, const Instrumentation& instrumentation,
                                                              const std::vector<std::string>& words) {
  const auto clang = find_clang();
  if (!clang) return tl::unexpected(clang.error());
  const auto flags = compile_flags(instrumentation);
  if (!flags) return tl::unexpected(flags.error());
  std::vector<std::string> command = {*clang};
  if (is_cxx) command.push_back("--driver-mode=g++");
  command.insert(command.end(), flags->begin(), flags->end());
  command.insert(command.end(), words.begin(), words.end());
  if (will_link(words)) {
    const auto more = link_flags();
    command.insert(command.end(), more.begin(), more.end());
  }
  return command;
}

tl::expected<std::vector<std::string>, Failure> pmem_flags(const std::string& compiler,
                                                           const Instrumentation& instrumentation) {
  if (is_gcc(compiler)) return callback_flags(compiler, instrumentation);
  if (const auto ok = check_version(compiler); !ok) return tl::unexpected(ok.error());
  auto flags = compile_flags(instrumentation);
  if (!flags) return flags;
  const auto more = link_flags();
  flags->insert(flags->end(), more.begin(), more.end());
  return flags;
}

}  // namespace crashcut::cli
