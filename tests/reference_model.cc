#include "tests/reference_model.h"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "tests/reference_disk.h"

namespace crashcut::reference {
namespace {

// All sets of events that are closed downwards, each once. Events come in an order that agrees with persists-before,
// so an event may be in when all that it persists after is in, whatever comes later.
class CutEnumerator {
 public:
  CutEnumerator(const Model& model, std::uint64_t most_cuts, Outcome& outcome)
      : model_(model),
        order_(model.order()),
        values_(model.initial_values()),
        most_cuts_(most_cuts),
        outcome_(outcome) {
    in_.assign(order_.count(), false);
    decide(0);
  }

 private:
  void decide(EventNumber e) {
    if (!outcome_.complete) return;
    if (e == order_.count()) return look();
    bool may_be_in = std::all_of(order_.after(e).begin(), order_.after(e).end(), [&](EventNumber b) { return in_[b]; });
    if (e >= order_.durable()) decide(e + 1);
    if (!may_be_in && e >= order_.durable()) return;
    std::vector<int> old;
    for (const Write& w : order_.writes(e)) {
      old.push_back(values_[w.location]);
      values_[w.location] = w.only_grows ? std::max(w.value, values_[w.location]) : w.value;
    }
    in_[e] = true;
    decide(e + 1);
    in_[e] = false;
    for (std::size_t i = old.size(); i-- > 0;) values_[order_.writes(e)[i].location] = old[i];
  }
  void look() {
    if (++outcome_.cuts > most_cuts_) {
      outcome_.complete = false;
      return;
    }
    std::string key(reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(int));
    if (model_.reuses()) key.append(in_.begin(), in_.end());  // what has persisted under others shows too
    if (seen_.insert(std::move(key)).second) model_.look(values_, in_, outcome_.states);
  }

  const Model& model_;
  const Order& order_;
  std::vector<int> values_;
  std::vector<char> in_;
  std::uint64_t most_cuts_;
  Outcome& outcome_;
  std::unordered_set<std::string> seen_;
};

std::string quote(const std::string& bytes) {
  std::string text = "\"";
  for (char c : bytes) {
    if (c == '\0') {
      text += "\\0";
    } else {
      text += c;
    }
  }
  return text + "\"";
}

}  // namespace

Outcome run(const Options& options, const Program& program, std::uint64_t most_cuts) {
  const std::unique_ptr<Model> model =
      options.profile == Profile::kPaper ? make_paper_model(options) : make_ext4_model(options);
  for (const Op& op : program) model->run(op);
  model->finish();
  Outcome outcome;
  outcome.running = model->running();
  for (EventNumber e = 0; e < model->order().count(); ++e) outcome.events.push_back(model->order().describe(e));
  CutEnumerator(*model, most_cuts, outcome);
  return outcome;
}

std::string to_text(const Options& o) {
  std::string text = o.profile == Profile::kPaper ? "paper" : "ext4";
  text += o.data == Data::kOrdered ? " ordered" : o.data == Data::kJournal ? " journal" : " writeback";
  if (!o.delalloc) text += " nodelalloc";
  if (!o.auto_da_alloc) text += " noauto_da_alloc";
  if (!o.dioread_nolock) text += " dioread_lock";
  if (!o.barrier) text += " barrier=0";
  return text + " sector=" + std::to_string(o.sector) + " block=" + std::to_string(o.block);
}

std::string to_text(const Op& op) {
  std::string number = std::to_string(op.number);
  switch (op.call) {
    case Call::kOpen:
      return "open(" + op.path + ", CREAT)";
    case Call::kOpenTrunc:
      return "open(" + op.path + ", CREAT|TRUNC)";
    case Call::kWrite:
      return "pwrite(" + op.path + ", " + quote(op.bytes) + ", " + number + ")";
    case Call::kWriteSync:
      return "pwrite(" + op.path + ", " + quote(op.bytes) + ", " + number + ", SYNC)";
    case Call::kWriteDsync:
      return "pwrite(" + op.path + ", " + quote(op.bytes) + ", " + number + ", DSYNC)";
    case Call::kAppend:
      return "append(" + op.path + ", " + quote(op.bytes) + ")";
    case Call::kTruncate:
      return "truncate(" + op.path + ", " + number + ")";
    case Call::kFallocate:
    case Call::kFallocateKeep:
    case Call::kPunchHole:
    case Call::kZeroRange: {
      static const std::map<Call, std::string> kNames = {{Call::kFallocate, "fallocate("},
                                                         {Call::kFallocateKeep, "fallocate_keep_size("},
                                                         {Call::kPunchHole, "punch_hole("},
                                                         {Call::kZeroRange, "zero_range("}};
      return kNames.at(op.call) + op.path + ", " + number + ", " + std::to_string(op.length) + ")";
    }
    case Call::kRename:
      return "rename(" + op.path + ", " + op.other + ")";
    case Call::kLink:
      return "link(" + op.path + ", " + op.other + ")";
    case Call::kUnlink:
      return "unlink(" + op.path + ")";
    case Call::kMkdir:
      return "mkdir(" + op.path + ")";
    case Call::kRmdir:
      return "rmdir(" + op.path + ")";
    case Call::kFsync:
      return "fsync(" + (op.path.empty() ? "." : op.path) + ")";
    case Call::kFdatasync:
      return "fdatasync(" + (op.path.empty() ? "." : op.path) + ")";
    case Call::kSync:
      return "sync()";
    case Call::kSyncFileRange:
      return "sync_file_range(" + op.path + ")";
    case Call::kClose:
      return "close(" + op.path + ")";
    case Call::kBarrier:
      return "barrier()";
    case Call::kMark:
      return "mark(" + op.path + ")";
  }
  return {};
}

std::string to_text(const Program& program) {
  std::string text;
  for (const Op& op : program) text += "  " + to_text(op) + "\n";
  return text;
}

std::string to_text(const State& state) {
  std::string text = "{";
  for (const auto& [path, bytes] : state) {
    if (text.size() > 1) text += ", ";
    bool has_bytes = path.back() != '/' && path[0] != '!';
    text += path + (has_bytes ? "=" + quote(bytes) : "");
  }
  return text + "}";
}

}  // namespace crashcut::reference
