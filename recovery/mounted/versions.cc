#include "recovery/mounted/versions.h"

#include <algorithm>
#include <cerrno>

namespace crashcut::mounted {
namespace {

using fusefs::Filesystem;
using fusefs::Ino;

std::string read_whole(Filesystem& filesystem, Ino ino, std::uint64_t size) {
  std::string content(static_cast<std::size_t>(size), '\0');
  filesystem.read(ino, 0, std::as_writable_bytes(std::span(content)));
  return content;
}

void add_directory(Filesystem& filesystem, Ino dir, const std::string& prefix, const Reads& reads,
                   std::map<std::string, FileVersion>& files) {
  std::vector<fusefs::DirEntry> entries;
  filesystem.readdir(dir, 0, ~std::size_t{0}, entries);
  for (const fusefs::DirEntry& entry : entries) {
    if (entry.name == "." || entry.name == "..") continue;
    FileVersion version{.type = entry.type, .size = 0, .content = {}};
    if (S_ISREG(entry.type) && reads(prefix + entry.name)) {
      version.size = static_cast<std::uint64_t>(filesystem.seek(entry.ino, 0, SEEK_END));
      if (version.size <= kComparedBytesMost) version.content = read_whole(filesystem, entry.ino, version.size);
    }
    if (S_ISLNK(entry.type)) filesystem.readlink(entry.ino, version.content);
    files.emplace(prefix + entry.name, std::move(version));
    if (S_ISDIR(entry.type)) add_directory(filesystem, entry.ino, prefix + entry.name + "/", reads, files);
  }
}

}  // namespace

std::map<std::string, FileVersion> files_of(Filesystem& filesystem, const Reads& reads, Ino directory) {
  std::map<std::string, FileVersion> files;
  add_directory(filesystem, directory, "", reads, files);
  return files;
}

bool is_promise(std::string_view mark) {
  if (!mark.starts_with(kLinePrefix)) return true;
  const std::size_t digits = mark.find_first_not_of("0123456789", kLinePrefix.size());
  return digits == kLinePrefix.size() || digits == std::string_view::npos || !mark.substr(digits).starts_with(": ");
}

fusefs::Errno find_path(Filesystem& filesystem, std::string_view path, Ino& out) {
  out = fusefs::kRootIno;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty() || name == ".") continue;
    if (filesystem.type(out) != S_IFDIR) return -ENOTDIR;
    if (const fusefs::Errno error = filesystem.lookup(out, name, out)) return error;
  }
  return 0;
}

}  // namespace crashcut::mounted
