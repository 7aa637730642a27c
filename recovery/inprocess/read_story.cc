#include "recovery/inprocess/read_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace crashcut::inprocess {
namespace {

using Json = nlohmann::json;
using result::Call;
using result::Crash;
using result::Event;
using result::Observation;
using result::Operation;

constexpr std::size_t kCrashesMost = 1000;

// A story while its lines come in.
struct Draft {
  struct Place {
    std::size_t operation;
    std::size_t index;
  };

  std::vector<Crash> crashes{1};
  std::vector<std::unordered_map<std::uint32_t, Place>> places{1};  // of each crash, by event
  std::vector<Observation> observations;                            // of the call whose line is still to come
  std::string wait;
};

// "access("a") = -2" as people know it: "access("a") = -1 ENOENT".
std::string name_error(std::string call) {
  const auto at = call.rfind(" = -");
  if (at == std::string::npos) return call;
  int number = 0;
  const char* end = call.data() + call.size();
  const auto parsed = std::from_chars(call.data() + at + 4, end, number);
  const char* name = parsed.ec == std::errc{} && parsed.ptr == end ? strerrorname_np(number) : nullptr;
  return name == nullptr ? call : call.substr(0, at) + " = -1 " + name;
}

Observation read_observation(const Json& line) {
  const Json& candidates = line.at("candidates");
  Observation observation{line.at("location"), {}, 0, line.value("layer", 1u)};
  const std::uint32_t taken = line.at("taken");
  for (const std::uint32_t shown : result::shown_candidates(candidates.size(), taken)) {
    if (shown == taken) observation.taken = static_cast<std::uint32_t>(observation.candidates.size());
    observation.candidates.push_back(candidates.at(shown));
  }
  observation.candidates_left_out = candidates.size() - observation.candidates.size();
  return observation;
}

Operation& operation_at(Crash& crash, std::size_t op) {
  if (op >= crash.operations.size()) crash.operations.resize(op + 1);
  return crash.operations[op];
}

void read_event(const Json& line, std::size_t layer, Draft& draft) {
  const std::size_t op = line.at("op");
  const std::uint32_t id = line.at("event");
  auto& events = operation_at(draft.crashes[layer], op).events;
  draft.places[layer][id] = {op, events.size()};
  events.push_back(Event{id, line.value("kind", ""), line.value("text", ""), line.value("sync", false),
                         line.value("durable", false), false});
}

void read_persisted(const Json& line, std::size_t layer, Draft& draft) {
  Crash& crash = draft.crashes[layer];
  crash.persisted = line.at("in").get<std::vector<std::uint32_t>>();
  crash.earliest = line.at("earliest");
  crash.latest = line.at("latest");
  for (const std::uint32_t id : crash.persisted) {
    const auto place = draft.places[layer].find(id);
    if (place == draft.places[layer].end()) continue;
    crash.operations[place->second.operation].events[place->second.index].persisted = true;
  }
}

void read_line(const Json& line, Draft& draft) {
  const std::size_t layer = line.value("layer", 1) - 1;
  if (layer >= kCrashesMost) throw std::runtime_error("a crash without a number");
  if (draft.crashes.size() <= layer) {
    draft.crashes.resize(layer + 1);
    draft.places.resize(layer + 1);
  }
  if (line.contains("call")) {
    draft.crashes[layer].calls.push_back(
        Call{name_error(line.at("call")), std::exchange(draft.observations, {}), {}, line.value("code", "")});
  } else if (line.contains("choice")) {
    draft.observations.push_back(read_observation(line));
  } else if (line.contains("event")) {
    read_event(line, layer, draft);
  } else if (line.contains("op")) {
    Operation& operation = operation_at(draft.crashes[layer], line.at("op"));
    operation.text = line.at("text");
    operation.code = line.value("code", "");
  } else if (line.contains("wait")) {
    draft.wait = line.at("wait");
  } else if (line.contains("in")) {
    read_persisted(line, layer, draft);
  }
}

void read_lines(std::string_view text, Draft& draft) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) read_line(Json::parse(text.substr(0, end)), draft);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

tl::expected<result::Story, std::string> read_story(std::string_view description, std::string_view trace) try {
  Draft draft;
  read_lines(description, draft);
  read_lines(trace, draft);
  // A recovery can die in the middle of a call, whose line then never comes.
  if (!draft.observations.empty()) {
    draft.crashes.back().calls.push_back(Call{"(its last call)", std::move(draft.observations)});
  }
  result::Story story;
  story.crashes = std::move(draft.crashes);
  story.wait = std::move(draft.wait);
  return story;
} catch (const std::exception& error) {
  return tl::unexpected(fmt::format("The runtime's account of a recovery cannot be read: {}.", error.what()));
}

}  // namespace crashcut::inprocess
