// The table of models (inject/model.h). Threads come first: a call waits for its turn before a model does it.
#include "recovery/inprocess/models.h"

#include <iterator>

#include "scheduler/runtime/models.h"

namespace crashcut::inject {

const Model* const kModels[] = {
    &scheduler::runtime::kThreadModel,  &inprocess::kMemoryModel, &inprocess::kProcessModel, &inprocess::kFileModel,
    &scheduler::runtime::kMachineModel,
};
const std::size_t kModelCount = std::size(kModels);

}  // namespace crashcut::inject
