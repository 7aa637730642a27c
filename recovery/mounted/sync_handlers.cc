#include "recovery/mounted/sync_handlers.h"

namespace crashcut::mounted {

using sandbox::Answer;
using sandbox::Caller;

sandbox::SyscallHandlers sync_handlers(const std::unique_ptr<fusefs::Mount>& mount, fusefs::CallerStack* stacks) {
  const auto is_on_disk = [&mount](const Caller& caller, int fd) {
    const auto found = caller.stat_fd(fd);
    return found && found->device == mount->device();
  };
  sandbox::SyscallHandlers handlers;
  handlers.on_sync = [&mount, stacks, is_on_disk](const Caller& caller, std::optional<int> fd) {
    if (!fd || is_on_disk(caller, *fd)) {
      mount->fetch_mapped_stores();
      fusefs::CodeStack stack = stacks != nullptr ? stacks->of(caller.thread()) : fusefs::CodeStack{};
      mount->while_quiet([&](fusefs::Volume& volume) {
        volume.changes.set_process(0, "");
        volume.changes.set_stack(std::move(stack));
        volume.changes.sync();
      });
    }
    return Answer::go_on();
  };
  handlers.on_shared_mapping = [&mount, is_on_disk](const Caller& caller, const sandbox::SharedMapping& mapping) {
    if (is_on_disk(caller, mapping.fd)) mount->note_shared_mapping();
    return Answer::go_on();
  };
  return handlers;
}

}  // namespace crashcut::mounted
