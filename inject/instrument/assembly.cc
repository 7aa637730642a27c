// Inline assembly.
#include <llvm/IR/InlineAsm.h>

#include "inject/instrument/replace.h"

namespace crashcut::instrument {

using namespace llvm;

void replace_assembly(Replacing& in, CallBase& call) {
  const std::string& text = cast<InlineAsm>(call.getCalledOperand())->getAsmString();
  if (StringRef(text).trim().empty()) return;
  for (const std::string& allowed : in.options.allowed_assembly) {
    if (text.find(allowed) != std::string::npos) return;
  }
  report_error(call,
               "crashcut does not know the assembly \"" + text + "\"; --allow-asm=TEXT leaves it as it is, unseen");
}

void check_module_assembly(Module&, const Options&) {}

}  // namespace crashcut::instrument
