// Results that no program gave: large ones, and ones whose every text is hostile to a page.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "recovery/result/result.h"

namespace crashcut::tests {

// Texts that must show as they are, and do nothing.
inline const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> texts = {
      "</script><script>window.wasHit = 1</script>",
      "<img src=x onerror=\"window.wasHit = 2\">",
      "<!--<script>",
      "]]>&lt;b&gt;&#60;",
      "line\xe2\x80\xa8"
      "separator\xe2\x80\xa9"
      "end",
      "invalid \xff\xfe\xc3( UTF-8 \xed\xa0\x80",
      "right \xe2\x80\xae"
      "to left\xe2\x81\xa6 and \xe2\x80\x8f"
      "mark",
      std::string("NUL \0 and \x1b[31m and \r", 21),
      "@DATA@ @SCRIPT@ @STYLE@",
      "${window.wasHit = 3} `\\",
      "javascript:window.wasHit=4",
      "__proto__",
      "constructor",
      std::string(10'000, 'n'),
  };
  return texts;
}

inline result::Operation made_up_operation(std::string text, bool persisted, std::uint32_t event) {
  result::Operation operation;
  operation.events.push_back({event, "data", text, false, false, persisted});
  operation.text = std::move(text);
  return operation;
}

// `operations` operations, and a state for the crash after each of the first `states` ones.
inline result::Result made_up_result(std::size_t operations, std::size_t states) {
  result::Result result;
  result.head.command = "check";
  result.head.program = {"program"};
  result.head.model.text = "a made-up model";
  result.verdict = result::Verdict::kViolation;
  result.subjects = {"notes.txt"};
  result.outcomes = {{"new", 1, 0}, {"old", 1, 0}, {"torn", 1, 1}};
  result.findings = {{"lost", "notes.txt", "notes.txt is torn"}};
  result::Counterexample example;
  example.finding = result.findings.front();
  example.sentence = "a crash can tear notes.txt";
  result::Crash crash;
  crash.operations.push_back({"the starting state", {}});
  for (std::size_t i = 1; i < operations; ++i) {
    crash.operations.push_back(made_up_operation("write(notes.txt, 4096 bytes at " + std::to_string(4096 * i) + ")",
                                                 i % 2 == 0 && i <= states / 2, static_cast<std::uint32_t>(i)));
  }
  const auto earliest = [=](std::size_t state) { return state * operations / states; };
  const auto latest = [=](std::size_t state) { return std::min(earliest(state) + operations / 3, operations - 1); };
  crash.earliest = earliest(states / 2);
  crash.latest = latest(states / 2);
  crash.calls = {{"read(3 notes.txt) = 4096", {{"block 1 of notes.txt", {"new", "old"}, 1}}}};
  example.story.crashes.push_back(std::move(crash));
  result.counterexample = std::move(example);
  result.states.emplace();
  for (int i = 0; i < 50; ++i) {
    result.states->locations.push_back({"block " + std::to_string(i) + " of notes.txt", {"its data", "NULs"}});
  }
  for (std::size_t i = 0; i < states; ++i) {
    result::State state;
    state.earliest = earliest(i);
    state.latest = latest(i);
    state.is_violation = i % 3 == 2;
    state.outcome = result.outcomes[i % 3].output;
    state.is_example = i == states / 2;
    for (std::uint32_t l = 0; l < 50; ++l) state.held.emplace_back(l, (l + i) % 2);
    for (std::size_t k = 1; k < 100; ++k) state.kept += (k % 2 == 0 ? "y" : "n") + std::to_string(operations / 100);
    result.states->list.push_back(std::move(state));
  }
  return result;
}

// Two machines that take turns for `steps` steps. In each of `runs` executions the first fails earlier than in the one
// before, and the second goes on. Facts as recovery/threads/machine_runs.h has them.
inline result::Result made_up_machines(std::size_t steps, std::size_t runs) {
  result::Result result = made_up_result(2, 1);
  result.head.command = "cxl";
  result.states.reset();
  result::Story& story = result.counterexample->story;
  story.crashes.clear();
  story.machines = 2;
  result::Setting::Rows told, executions;
  const auto tell = [&](const std::string& thread, const std::string& text, std::uint64_t machine, std::uint64_t line) {
    told.push_back({{"thread", thread},
                    {"text", text},
                    {"machine", machine},
                    {"function", std::string("insert")},
                    {"file", std::string("list.c")},
                    {"line", line}});
  };
  for (std::size_t i = 0; i < steps; ++i)
    tell("machine " + std::to_string(i % 2), "store to pool+" + std::to_string(8 * i), i % 2, i + 1);
  tell("failure", "machine 0 fails", 0, steps);
  std::vector<std::string> stores;
  for (std::size_t i = 0; i < 20; ++i) stores.push_back("8 bytes at pool+" + std::to_string(8 * i));
  for (std::size_t k = 0; k < runs; ++k) {
    const std::size_t at = steps - 1 - k * (steps - 1) / runs;
    std::string own, fates;
    for (std::size_t i = 0; k == 0 && i < at; ++i) {
      own += std::to_string(i) + " ";
      story.schedule.push_back({"machine " + std::to_string(i % 2), "store", {}, static_cast<std::uint32_t>(i % 2)});
    }
    own += std::to_string(steps);
    for (std::size_t i = at | 1; i < std::min(steps, at + 100); i += 2) own += " " + std::to_string(i);
    for (std::size_t i = 0; i < stores.size(); ++i)
      fates += (i == 0 ? "" : " ") + std::to_string(i) + ":" + std::to_string((i + k) % 3);
    executions.push_back({{"failures", "0:" + std::to_string(at)},
                          {"same", k == 0 ? std::uint64_t{0} : std::uint64_t{at}},
                          {"steps", own},
                          {"stores", fates},
                          {"violation", k % 3 == 0},
                          {"text", std::string(k % 3 == 0 ? "machine 1 failed" : "")},
                          {"example", k == 0}});
  }
  story.schedule.push_back({"failure", "machine 0 fails", {}, 0, true});
  result.facts = {{"machine_steps", std::move(told)},
                  {"machine_stores", std::move(stores)},
                  {"machine_runs", std::move(executions)},
                  {"machine_runs_left_out", std::uint64_t{3}}};
  return result;
}

// Every text that a program under test can choose is `text`.
inline result::Result hostile_result(const std::string& text) {
  result::Result result = made_up_result(12, 8);
  result.head.program = {text, text};
  result.head.settings = {{"files", std::vector<std::string>{text}}};
  result.subjects = {text, "other"};
  for (result::Outcome& outcome : result.outcomes) outcome.output += text;
  for (result::State& state : result.states->list) state.outcome += text;
  result.states->list.front().text = text;
  result.states->locations.front() = {text, {text, text + text}};
  result.findings.front() = {text, text, text, text};
  result.not_covered = result.notes = {text};
  result.memory_notes = {{"overwrite", text, 1, text}};
  result.facts = {{"rows", result::Setting::Rows{{{text, text}}}}};
  result.token = "cc2AAAA";
  result::Counterexample& example = *result.counterexample;
  example.sentence = text;
  example.mends = {{"flush", text, text, 1, 1, 0, true, text}};
  example.no_mend = text;
  result::Story& story = example.story;
  story.names = {text, text, text};
  story.schedule = {{text, text}, {"main", text}};
  story.waiting = {{text, {text}, text}};
  story.schedule.front().stack = story.waiting.front().stack = {{text, text, 2}, {"main", "main.c", 1}};
  story.race = result::Race{text, {{text, text, true, false, false, 1, {{text, text, 1}}}, {"main", text}}};
  story.output = story.errors = text;
  for (result::Operation& operation : story.crashes.front().operations) operation.text = text;
  story.crashes.front().operations[3].text = "sh: " + text;
  story.crashes.front().operations[4].text = "cat: " + text;
  story.crashes.front().calls = {{text, {{text, {text, text + "2"}, 0}}}};
  const auto run = [&](std::uint64_t same, const std::string& steps) {
    return std::vector<result::Setting>{{"failures", std::string("0:1")},
                                        {"same", same},
                                        {"steps", steps},
                                        {"stores", std::string("0:2")},
                                        {"violation", true},
                                        {"text", text},
                                        {"example", false}};
  };
  const auto step = [&](const std::string& thread) {
    return std::vector<result::Setting>{{"thread", thread}, {"text", text}, {"machine", std::uint64_t{0}},
                                        {"function", text}, {"file", text}, {"line", std::uint64_t{2}}};
  };
  result.facts.push_back({"machine_steps", result::Setting::Rows{step(text), step("failure")}});
  result.facts.push_back({"machine_stores", std::vector<std::string>{text}});
  result.facts.push_back({"machine_runs", result::Setting::Rows{run(0, "0 1 0"), run(1, "1")}});
  result.facts.push_back({"machine_runs_left_out", std::uint64_t{0}});
  story.files = {{text, {"file", text.size(), text}, {"file", 3, "new"}, {"file", text.size(), text}},
                 {text + "2", {"file", 3, std::string("a\0b", 3)}, {"file", 3, "new"}, {"missing"}}};
  return result;
}

}  // namespace crashcut::tests
