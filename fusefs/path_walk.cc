#include "fusefs/path_walk.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include "fusefs/process.h"

namespace crashcut::fusefs {
namespace {

constexpr int kMostLinks = 40;

// Removes the first component of `rest` and the slashes before it; empty where there is none.
std::string_view take_component(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  std::string_view component = rest.substr(0, rest.find('/'));
  rest.remove_prefix(component.size());
  return component;
}

std::string_view take_component_past_dots(std::string_view& rest) {
  std::string_view component = take_component(rest);
  while (component == ".") component = take_component(rest);
  return component;
}

LastComponent classify(std::string_view component) {
  if (component == ".") return LastComponent::kDot;
  if (component == "..") return LastComponent::kDotDot;
  return LastComponent::kName;
}

// Moves the first component of `rest` to `place`, and says in place.slash whether slashes follow it.
void take_next(std::string& rest, Place& place) {
  std::string_view left = rest;
  place.name = take_component(left);
  place.last = classify(place.name);
  place.slash = !left.empty();
  left.remove_prefix(std::min(left.find_first_not_of('/'), left.size()));
  rest.erase(0, rest.size() - left.size());
}

bool is_only_slashes(std::string_view text) { return text.find_first_not_of('/') == text.npos; }

}  // namespace

PathWalk::PathWalk(Filesystem& filesystem, const Access& access, std::string_view root)
    : filesystem_(filesystem), access_(access) {
  for (auto part = take_component_past_dots(root); !part.empty(); part = take_component_past_dots(root))
    root_.emplace_back(part);
}

Errno PathWalk::begin(Ino start, std::string_view path, Step& step) {
  if (path.empty()) return -ENOENT;
  if (path.size() >= PATH_MAX) return -ENAMETOOLONG;
  if (path.front() == '/') return enter(std::string(path), step);
  if (start == kNoIno) {
    outside_ = path;
    return kOutside;
  }
  if (!S_ISDIR(filesystem_.type(start))) return -ENOTDIR;
  step.place.dir = start;
  step.rest = path;
  return 0;
}

// Goes on with an absolute path of the real system.
Errno PathWalk::enter(std::string path, Step& step) {
  // ".." on the way to the root is taken by the letter: real directories are not looked at.
  std::string_view rest = path;
  std::vector<std::string_view> at;
  while (!std::ranges::equal(at, root_)) {
    const std::string_view component = take_component_past_dots(rest);
    if (component.empty()) {
      outside_ = std::move(path);
      return kOutside;
    }
    if (component != "..") {
      at.push_back(component);
    } else if (!at.empty()) {
      at.pop_back();
    }
  }
  step.place.dir = kRootIno;
  step.rest = rest;
  return 0;
}

Errno PathWalk::walk_to_last(Step& step) {
  for (;;) {
    if (is_only_slashes(step.rest)) {
      step.place.last = LastComponent::kRoot;
      return 0;
    }
    if (Errno error = access_.check(step.place.dir, X_OK)) return error;
    take_next(step.rest, step.place);
    if (step.rest.empty()) return 0;
    if (Errno error = pass(step)) return error;
  }
}

// Goes through a component that is not the last.
Errno PathWalk::pass(Step& step) {
  if (step.place.last == LastComponent::kDot) return 0;
  if (step.place.last == LastComponent::kDotDot) return climb(step);
  Ino next = kNoIno;
  if (Errno error = filesystem_.lookup(step.place.dir, step.place.name, next)) return error;
  mode_t type = filesystem_.type(next);
  if (S_ISLNK(type)) return follow(next, step);
  if (!S_ISDIR(type)) return -ENOTDIR;
  note(step.place, next);
  step.place.dir = next;
  return 0;
}

Errno PathWalk::climb(Step& step) {
  if (step.place.dir != kRootIno) return filesystem_.lookup(step.place.dir, "..", step.place.dir);
  if (root_.empty()) return 0;
  std::string above;
  for (std::size_t i = 0; i + 1 < root_.size(); ++i) above += "/" + root_[i];
  if (above.empty() || !step.rest.empty()) above += "/";
  return enter(above + step.rest, step);
}

Errno PathWalk::follow(Ino link, Step& step) {
  if (step.links++ >= kMostLinks) return -ELOOP;
  std::string target;
  if (Errno error = filesystem_.readlink(link, target)) return error;
  if (target.empty()) return -ENOENT;
  if (step.place.slash) target += '/';
  target += step.rest;
  if (target.front() == '/') return enter(std::move(target), step);
  step.rest = std::move(target);
  return 0;
}

Errno PathWalk::find_parent(Ino start, std::string_view path, Place& out) {
  Step step;
  if (Errno error = begin(start, path, step)) return error;
  if (Errno error = walk_to_last(step)) return error;
  out = std::move(step.place);
  return 0;
}

Errno PathWalk::resolve(Ino start, std::string_view path, Mode mode, Place& out) {
  Step step;
  if (Errno error = begin(start, path, step)) return error;
  for (bool ended = false; !ended;) {
    if (Errno error = walk_to_last(step)) return error;
    if (Errno error = look_up_last(mode, step, ended)) return error;
  }
  out = std::move(step.place);
  return 0;
}

// Not `ended` where the last component was a symlink and the walk goes on along its target.
Errno PathWalk::look_up_last(Mode mode, Step& step, bool& ended) {
  Place& place = step.place;
  ended = true;
  if (place.last == LastComponent::kDotDot)
    if (Errno error = climb(step)) return error;
  place.ino = place.dir;
  if (place.last != LastComponent::kName) return 0;
  if (mode.create && place.slash) return -EISDIR;
  Errno error = filesystem_.lookup(place.dir, place.name, place.ino);
  if (error) place.ino = kNoIno;
  if (error) return error == -ENOENT ? 0 : error;
  mode_t type = filesystem_.type(place.ino);
  ended = !S_ISLNK(type) || !(mode.follow || place.slash);
  if (!ended) {
    // The number of links comes first.
    const Errno refused = step.links < kMostLinks ? access_.may_follow(place.dir, place.ino) : 0;
    return refused ? refused : follow(place.ino, step);
  }
  note(place, place.ino);
  return place.slash && !S_ISDIR(type) ? -ENOTDIR : 0;
}

Errno PathWalk::find(Ino start, std::string_view path, bool follow, Ino& out) {
  Place place;
  if (Errno error = resolve(start, path, {.follow = follow}, place)) return error;
  out = place.ino;
  return out == kNoIno ? -ENOENT : 0;
}

void PathWalk::note(const Place& place, Ino ino) {
  if (S_ISDIR(filesystem_.type(ino))) names_[ino] = {place.dir, place.name};
}

std::string PathWalk::path_of(Ino dir) {
  std::string below;
  while (dir != kRootIno) {
    Ino parent = kNoIno;
    std::string name;
    if (filesystem_.lookup(dir, "..", parent) || !find_name(parent, dir, name)) return "";
    below = "/" + name + below;
    dir = parent;
  }
  std::string path;
  for (const std::string& component : root_) path += "/" + component;
  path += below;
  return path.empty() ? "/" : path;
}

bool PathWalk::find_name(Ino parent, Ino dir, std::string& out) {
  auto hint = names_.find(dir);
  Ino found = kNoIno;
  if (hint != names_.end() && hint->second.parent == parent) out = hint->second.name;
  if (!out.empty() && filesystem_.lookup(parent, out, found) == 0 && found == dir) return true;
  std::vector<DirEntry> entries;
  if (filesystem_.readdir(parent, 0, SIZE_MAX, entries)) return false;
  for (const DirEntry& entry : entries) {
    if (entry.ino != dir || entry.name == "." || entry.name == "..") continue;
    out = entry.name;
    return true;
  }
  return false;
}

}  // namespace crashcut::fusefs
