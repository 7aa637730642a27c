#include "recovery/inprocess/recorded.h"

namespace crashcut::inprocess {

persist::ModelSpec WholeRecording::model() const {
  persist::ModelSpec spec = memory_.model();
  const persist::ModelSpec files = files_.model();
  spec.text += ", files on " + files.text;
  spec.settings.insert(spec.settings.end(), files.settings.begin(), files.settings.end());
  return spec;
}

const Recorded* make_recorded(fusefs::Recording& files, const pmem::Recording* memory,
                              const std::vector<NamedRegion>& regions, const PersistentHeap& heap,
                              const OpStacks& op_stacks, const Places& places) {
  auto* recorded = new Recorded{&files, memory, &files, &regions, &heap, &op_stacks, &places};
  if (memory != nullptr) recorded->whole = new WholeRecording(files, *memory);
  return recorded;
}

}  // namespace crashcut::inprocess
