// Inline assembly: which statements stay, which are replaced, which are refused.
//
// Stays: what touches no memory but the function's own stack (rdtsc, pause, cpuid, arithmetic of registers) and hints
//   (prefetch). Replaced: flushes, fences, locked instructions, and whatever touches other memory. Refused: what is not
//   known and may touch memory.
#include "inject/instrument/assembly.h"

#include <llvm/ADT/StringSwitch.h>

namespace crashcut::instrument {

using namespace llvm;

namespace {

enum class Kind { kStays, kReplaced, kUnknown };

// No effect on memory or on registers that matters: they can be left out.
bool is_hint(const AsmStatement& statement) {
  return StringSwitch<bool>(statement.mnemonic)
             .Cases("nop", "nopw", "nopl", "pause", "lfence", "cld", "endbr64", "serialize", "cldemote", true)
             .Default(false) ||
         StringRef(statement.mnemonic).startswith("prefetch");
}

bool is_known_directive(StringRef name) {
  return name == ".p2align" || name == ".align" || name == ".balign" || name == ".intel_syntax" ||
         name == ".att_syntax" || name == ".loc" || name.startswith(".cfi_");
}

// Touches memory that no operand names, or leaves for code that is not seen.
bool has_hidden_memory(StringRef mnemonic) {
  return StringSwitch<bool>(mnemonic)
      .Cases("call", "callq", "ret", "retq", "syscall", "sysenter", "int", "enter", "leave", true)
      .Cases("xlat", "xlatb", "maskmovdqu", "maskmovq", "vmaskmovdqu", "xbegin", "xend", "xabort", true)
      .Cases("lodsb", "lodsw", "lodsl", "lodsd", "lodsq", true)
      .Cases("scasb", "scasw", "scasl", "scasd", "scasq", true)
      .Cases("cmpsb", "cmpsw", "cmpsl", "cmpsq", true)
      .Cases("insb", "insw", "insl", "outsb", "outsw", "outsl", true)
      .Cases("std", "?", "clzero", "enqcmd", "enqcmds", "umonitor", "monitor", true)
      .Default(false);
}

bool is_fence_or_flush(StringRef mnemonic) {
  return StringSwitch<bool>(mnemonic)
      .Cases("mfence", "sfence", "clflush", "clflushopt", "clwb", "xsaveopt", true)
      .Default(false);
}

bool is_string_instruction(const AsmStatement& statement) {
  return statement.operands.empty() && StringSwitch<bool>(statement.mnemonic)
                                           .Cases("movsb", "movsw", "movsl", "movsd", "movsq", true)
                                           .Cases("stosb", "stosw", "stosl", "stosd", "stosq", true)
                                           .Default(false);
}

bool is_jump(StringRef mnemonic) { return mnemonic.startswith("j") || mnemonic.startswith("loop"); }

Kind kind_of(const AsmStatement& statement, const AsmEvaluator& evaluator) {
  const StringRef mnemonic = statement.mnemonic;
  if (statement.is_label() || is_hint(statement)) return Kind::kStays;
  if (statement.is_directive()) return is_known_directive(mnemonic) ? Kind::kStays : Kind::kUnknown;
  if (is_jump(mnemonic)) return StringRef(statement.text).contains('*') ? Kind::kUnknown : Kind::kStays;
  if (has_hidden_memory(mnemonic)) return Kind::kUnknown;
  const bool is_direct = mnemonic.startswith("movnt") || mnemonic.startswith("vmovnt") || mnemonic.startswith("movdir");
  if (is_fence_or_flush(mnemonic) || is_string_instruction(statement) || is_direct || statement.has_prefix("lock"))
    return Kind::kReplaced;
  bool touches_memory = false;
  for (const AsmOperand& operand : statement.operands) {
    const auto touches = evaluator.touches_memory(operand);
    if (!touches) return Kind::kUnknown;
    touches_memory |= *touches;
    // Locked by itself, on the stack too.
    if (mnemonic.startswith("xchg") && operand.kind != AsmOperand::Kind::kRegister) return Kind::kReplaced;
  }
  return touches_memory ? Kind::kReplaced : Kind::kStays;
}

bool is_allowed(const std::string& text, const Options& options) {
  for (const std::string& allowed : options.allowed_assembly) {
    if (text.find(allowed) != std::string::npos) return true;
  }
  return false;
}

// How to allow a statement: its text up to the first operand.
std::string refusal(const AsmStatement& statement, const std::string& text) {
  const std::string culprit = as_in_source(statement.text);
  const std::string whole = culprit == text ? "" : " in \"" + text + "\"";
  std::string allowing = statement.mnemonic;
  if (allowing == "?" || text.find(allowing) == std::string::npos) allowing = text;
  return "crashcut does not know the assembly \"" + culprit + "\"" + whole +
         ", which may touch memory; \"--allow-asm=" + allowing + "\" leaves it as it is, unseen";
}

// The same call with the statements that stay.
Value* keep(CallBase& call, const InlineAsm& assembly, const std::string& text) {
  InlineAsm* kept =
      InlineAsm::get(assembly.getFunctionType(), text, assembly.getConstraintString(), assembly.hasSideEffects(),
                     assembly.isAlignStack(), assembly.getDialect(), assembly.canThrow());
  auto* copy = cast<CallBase>(call.clone());
  copy->setCalledOperand(kept);
  copy->insertBefore(&call);
  return copy;
}

// Null: all of it stays. Else the statement that is not known.
const AsmStatement* replace(Replacing& in, CallBase& call, const std::vector<AsmStatement>& statements) {
  const auto& assembly = *cast<InlineAsm>(call.getCalledOperand());
  AsmEvaluator evaluator(in, call);
  bool replaces = false;
  for (const AsmStatement& statement : statements) {
    const Kind kind = kind_of(statement, evaluator);
    if (kind == Kind::kUnknown) return &statement;
    replaces |= kind == Kind::kReplaced;
  }
  if (!replaces) return nullptr;
  if (!isa<CallInst>(call)) return &statements[0];  // asm goto
  std::string kept;
  std::vector<const AsmStatement*> staying;
  for (const AsmStatement& statement : statements) {
    const bool is_replaced = kind_of(statement, evaluator) == Kind::kReplaced;
    if (is_hint(statement)) continue;
    if (statement.is_directive()) {
      kept += statement.text + "\n\t";
    } else if (!evaluator.evaluate(statement)) {
      // Control flow cannot be cut in pieces.
      if (is_replaced || statement.is_label() || is_jump(statement.mnemonic)) return &statement;
      kept += statement.text + "\n\t";
      staying.push_back(&statement);
    }
  }
  for (const AsmStatement* statement : staying) {
    if (evaluator.wrote_registers() || !evaluator.is_apart(*statement)) return statement;
  }
  Value* result = nullptr;
  if (!staying.empty()) {
    result = keep(call, assembly, kept);
  } else if (!call.getType()->isVoidTy() && (result = evaluator.result()) == nullptr) {
    return &statements.back();
  }
  replace_by(call, result);
  return nullptr;
}

}  // namespace

void replace_assembly(Replacing& in, CallBase& call) {
  const auto& assembly = *cast<InlineAsm>(call.getCalledOperand());
  const std::string text = as_in_source(assembly.getAsmString());
  if (is_allowed(text, in.options)) return;
  const auto statements = parse_assembly(assembly.getAsmString(), assembly.getDialect() == InlineAsm::AD_Intel);
  if (const AsmStatement* unknown = replace(in, call, statements)) report_error(call, refusal(*unknown, text));
}

void check_module_assembly(Module& module, const Options& options) {
  for (const AsmStatement& statement : parse_assembly(module.getModuleInlineAsm(), false)) {
    if (statement.is_directive() || statement.is_label() || is_allowed(statement.text, options)) continue;
    module.getContext().emitError(module.getSourceFileName() +
                                  ": assembly outside of functions is not instrumented: \"" + statement.text +
                                  "\"; \"--allow-asm=" + statement.text + "\" leaves it as it is, unseen");
  }
}

}  // namespace crashcut::instrument
