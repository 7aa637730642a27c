#include "recovery/inprocess/elf_check.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace crashcut::inprocess {
namespace {

tl::unexpected<std::string> no(std::string sentence) { return tl::unexpected<std::string>(std::move(sentence)); }

constexpr const char* kMountedFrontEnd = "such programs are for the mounted front end, crashcut check";

tl::expected<void, std::string> check_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return no(fmt::format("Cannot find {}: {}.", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) return no(fmt::format("{} is not a file.", path));
  if ((status.st_mode & (S_ISUID | S_ISGID)) != 0) {
    return no(fmt::format("{} is setuid or setgid, and the runtime cannot be loaded into it.", path));
  }
  if (access(path.c_str(), R_OK) != 0) return no(fmt::format("Cannot read {}: {}.", path, std::strerror(errno)));
  return {};
}

bool has_interpreter(std::ifstream& file, const Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + std::uint64_t{i} * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return false;
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

tl::expected<void, std::string> check_elf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const std::string_view begin(reinterpret_cast<const char*>(&header), static_cast<std::size_t>(file.gcount()));
  if (begin.starts_with("#!")) return no(fmt::format("{} is a script; {}.", path, kMountedFrontEnd));
  if (!begin.starts_with(ELFMAG)) {
    return no(fmt::format("{} is neither a program nor C or C++ source (.c, .cc, .cpp).", path));
  }
  if (begin.size() > EI_CLASS && header.e_ident[EI_CLASS] == ELFCLASS32) {
    return no(fmt::format("{} is a 32-bit program; crashcut runs 64-bit ones.", path));
  }
  if (begin.size() < sizeof header || header.e_machine != EM_X86_64) {
    return no(fmt::format("{} is not a program for this machine (x86-64).", path));
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) return no(fmt::format("{} is not a linked program.", path));
  if (!has_interpreter(file, header)) {
    return no(
        fmt::format("{} is statically linked (or a library), and the runtime cannot be loaded into it: link it "
                    "dynamically; {}.",
                    path, kMountedFrontEnd));
  }
  return {};
}

}  // namespace

tl::expected<void, std::string> check_executable(const std::string& path) {
  if (auto file = check_file(path); !file) return file;
  if (auto elf = check_elf(path); !elf) return elf;
  if (access(path.c_str(), X_OK) != 0) return no(fmt::format("{} is not executable: {}.", path, std::strerror(errno)));
  return {};
}

}  // namespace crashcut::inprocess
