#include "recovery/stacks/code_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace crashcut::stacks {
namespace {

constexpr std::uint64_t kPieceMost = std::uint64_t{64} << 20;  // of what is read at once
constexpr unsigned kPartsMost = 4096;                          // segments, and sections

template <class T>
std::optional<T> take(std::string_view bytes, std::uint64_t at = 0) {
  T value;
  if (at > bytes.size() || bytes.size() - at < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

int open_without_links(const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_NO_SYMLINKS;
  return static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
}

bool is_there(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

}  // namespace

bool is_system_file(std::string_view path) {
  return path.starts_with("/lib/") || path.starts_with("/lib64/") || path.starts_with("/usr/lib/");
}

std::unique_ptr<CodeFile> CodeFile::open(const std::string& path) {
  std::unique_ptr<CodeFile> file(new CodeFile);
  file->fd_ = sandbox::Fd(open_without_links(path));
  struct stat status {};
  if (!file->fd_ || fstat(file->fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  file->path_ = path;
  file->device_ = status.st_dev;
  file->inode_ = status.st_ino;
  file->bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (!file->read_headers()) return nullptr;
  file->id_ = !file->build_id_.empty()
                  ? file->build_id_
                  : fmt::format("{} bytes of {}.{:09}", file->bytes_, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  file->has_debug_information_ = file->finds_debug_information();
  return file;
}

std::string CodeFile::read(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset || bytes > kPieceMost) return "";
  std::string piece(bytes, '\0');
  const ssize_t got = pread(fd_.get(), piece.data(), piece.size(), static_cast<off_t>(offset));
  return got == static_cast<ssize_t>(piece.size()) ? piece : "";
}

bool CodeFile::read_headers() {
  const auto header = take<Elf64_Ehdr>(read(0, sizeof(Elf64_Ehdr)));
  const bool is_ours = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == EM_X86_64;
  if (!is_ours || header->e_phnum > kPartsMost) return false;
  const std::string table = read(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr));
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto part = take<Elf64_Phdr>(table, i * sizeof(Elf64_Phdr));
    if (!part) return false;
    if (part->p_type == PT_LOAD)
      segments_.push_back({part->p_offset, part->p_vaddr, part->p_filesz, (part->p_flags & PF_X) != 0});
  }
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto part = take<Elf64_Phdr>(table, i * sizeof(Elf64_Phdr));
    if (part->p_type == PT_NOTE) read_notes(part->p_offset, part->p_filesz, part->p_align);
  }
  if (mark_.bytes.empty() && !segments_.empty()) {
    // The beginning of the file: where its parts lie differs in most others.
    constexpr std::uint64_t kBeginning = 512;
    mark_ = {segments_[0].address, read(segments_[0].offset, std::min(segments_[0].bytes, kBeginning))};
  }
  read_sections(header->e_shoff, header->e_shnum, header->e_shstrndx);
  return true;
}

void CodeFile::read_notes(std::uint64_t offset, std::uint64_t bytes, std::uint64_t alignment) {
  constexpr std::uint64_t kNotesMost = 1 << 16, kIdMost = 64;
  const std::uint64_t unit = alignment == 8 ? 8 : 4;
  const std::string notes = bytes <= kNotesMost ? read(offset, bytes) : "";
  for (std::uint64_t at = 0; const auto note = take<Elf64_Nhdr>(notes, at);) {
    const std::uint64_t name = at + sizeof *note;
    const std::uint64_t content = (name + note->n_namesz + unit - 1) / unit * unit;
    if (content > notes.size() || notes.size() - content < note->n_descsz) break;
    const bool is_id = note->n_type == NT_GNU_BUILD_ID && note->n_descsz > 0 && note->n_descsz <= kIdMost &&
                       std::string_view(notes).substr(name, note->n_namesz) == std::string_view("GNU\0", 4);
    const std::uint64_t place = offset + content;
    for (const Segment& segment : segments_) {
      if (!is_id || !build_id_.empty() || place < segment.offset || place - segment.offset >= segment.bytes) continue;
      const std::string_view id = std::string_view(notes).substr(content, note->n_descsz);
      for (const char byte : id) build_id_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      mark_ = {place - segment.offset + segment.address, std::string(id)};
    }
    at = (content + note->n_descsz + unit - 1) / unit * unit;
  }
}

void CodeFile::read_sections(std::uint64_t offset, unsigned count, unsigned names) {
  if (count > kPartsMost) return;
  const std::string table = read(offset, count * sizeof(Elf64_Shdr));
  const auto of_names = take<Elf64_Shdr>(table, names * sizeof(Elf64_Shdr));
  if (!of_names) return;
  const std::string texts = read(of_names->sh_offset, of_names->sh_size);
  for (unsigned i = 0; i < count; ++i) {
    const auto section = take<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr));
    if (!section || section->sh_name >= texts.size() || section->sh_type == SHT_NOBITS) continue;
    sections_.push_back({texts.c_str() + section->sh_name, section->sh_addr, section->sh_offset, section->sh_size});
  }
}

const CodeFile::Section* CodeFile::section(std::string_view name) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(), [&](const auto& s) { return s.name == name; });
  return found == sections_.end() || found->bytes == 0 ? nullptr : &*found;
}

std::string CodeFile::linked_debug_file() const {
  constexpr std::uint64_t kNameMost = 4096;
  const Section* link = section(".gnu_debuglink");
  if (link == nullptr || link->bytes > kNameMost) return "";
  const std::string content = read(link->offset, link->bytes);
  return content.c_str();
}

bool CodeFile::finds_debug_information() const {
  if (section(".debug_line") != nullptr || section(".zdebug_line") != nullptr) return true;
  const std::string root = "/usr/lib/debug", folder = path_.substr(0, path_.rfind('/') + 1);
  if (build_id_.size() > 2 &&
      is_there(fmt::format("{}/.build-id/{}/{}.debug", root, build_id_.substr(0, 2), build_id_.substr(2))))
    return true;
  const std::string name = linked_debug_file();
  if (name.empty() || name.find('/') != name.npos) return false;
  return is_there(folder + ".debug/" + name) || is_there(root + folder + name) ||
         (folder + name != path_ && is_there(folder + name));
}

std::optional<std::uint64_t> CodeFile::address_of(std::uint64_t offset) const {
  for (const Segment& segment : segments_) {
    if (segment.is_code && offset >= segment.offset && offset - segment.offset < segment.bytes)
      return offset - segment.offset + segment.address;
  }
  return std::nullopt;
}

const UnwindRow* CodeFile::row_at(std::uint64_t address) {
  if (!std::exchange(has_rules_, true)) {
    const Section* frames = section(".eh_frame");
    if (frames != nullptr) rules_.emplace(read(frames->offset, frames->bytes), frames->address);
  }
  if (!rules_) return nullptr;
  const auto [row, is_new] = rows_.try_emplace(address);
  if (is_new) row->second = rules_->row_at(address);
  return row->second ? &*row->second : nullptr;
}

std::optional<std::int64_t> CodeFile::depth_at(std::uint64_t address) {
  constexpr std::uint64_t kFunctionMost = 1 << 20, kPrologueMost = 4096;
  const auto function = rules_ ? rules_->function_at(address) : std::nullopt;
  if (!function || function->end - function->begin > kFunctionMost) return std::nullopt;
  const auto [known, is_new] = depths_.try_emplace(function->begin);
  if (!is_new) return known->second.at(address);
  // Where the frame pointer is set.
  std::optional<UnwindRow> before;
  for (std::uint64_t at = function->begin; at < std::min(function->end, function->begin + kPrologueMost); ++at) {
    std::optional<UnwindRow> row = rules_->row_at(at);
    if (!row || !row->frame_program.empty()) break;
    if (row->frame_register == kFramePointer) {
      if (!before) break;
      for (const Segment& segment : segments_) {
        if (function->begin < segment.address || function->end - segment.address > segment.bytes) continue;
        const std::string code =
            read(function->begin - segment.address + segment.offset, function->end - function->begin);
        known->second = StackDepth(code, function->begin, {at, before->frame_offset, row->frame_offset});
      }
      break;
    }
    before = row->frame_register == kStackPointer ? row : std::nullopt;
  }
  return known->second.at(address);
}

}  // namespace crashcut::stacks
