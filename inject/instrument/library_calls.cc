// Functions of libraries that touch the memory that they are given: each becomes __crashcut_NAME.
#include <llvm/ADT/StringSwitch.h>

#include "inject/instrument/abi.h"
#include "inject/instrument/replace.h"

namespace crashcut::instrument {

using namespace llvm;

namespace {

// Same arguments, same result (strings.inc, libraries.inc, abi.h).
constexpr const char* kRenamed[] = {
    "memcpy",
    "memmove",
    "memset",
    "mempcpy",
    "memccpy",
    "memcmp",
    "memchr",
    "memrchr",
    "rawmemchr",
    "memmem",
    "bcmp",
    "bcopy",
    "bzero",
    "explicit_bzero",
    "strlen",
    "strnlen",
    "strcpy",
    "strncpy",
    "stpcpy",
    "stpncpy",
    "strcat",
    "strncat",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "strchr",
    "strchrnul",
    "strrchr",
    "strstr",
    "strspn",
    "strcspn",
    "strpbrk",
    "strtok_r",
    "strdup",
    "strndup",
    "pmem_persist",
    "pmem_flush",
    "pmem_drain",
    "pmem_deep_persist",
    "pmem_deep_flush",
    "pmem_deep_drain",
    "pmem_msync",
    "pmem_has_hw_drain",
    "pmem_has_auto_flush",
    "pmem_is_pmem",
    "pmem_map_file",
    "pmem_unmap",
    "pmem_memcpy",
    "pmem_memmove",
    "pmem_memset",
    "pmem_memcpy_persist",
    "pmem_memmove_persist",
    "pmem_memset_persist",
    "pmem_memcpy_nodrain",
    "pmem_memmove_nodrain",
    "pmem_memset_nodrain",
    "__atomic_load",
    "__atomic_store",
    "__atomic_exchange",
    "__atomic_compare_exchange",
};
// Other names of the same functions.
constexpr const char* kAliases[][2] = {
    {"__rawmemchr", "rawmemchr"}, {"__strdup", "strdup"},     {"__strndup", "strndup"}, {"__stpcpy", "stpcpy"},
    {"__mempcpy", "mempcpy"},     {"__strtok_r", "strtok_r"}, {"index", "strchr"},      {"rindex", "strrchr"},
};

void rename_function(Module& module, const char* name, const std::string& renamed) {
  Function* function = module.getFunction(name);
  if (function == nullptr || !function->isDeclaration() || function->use_empty()) return;
  FunctionCallee ours = module.getOrInsertFunction(renamed, function->getFunctionType());
  for (User* user : function->users()) {
    auto* call = dyn_cast<CallInst>(user);
    if (call == nullptr || call->getCalledOperand() != function || call->isMustTailCall()) continue;
    call->setTailCallKind(CallInst::TCK_NoTail);
    call->addFnAttr(Attribute::NoMerge);
  }
  function->replaceAllUsesWith(ConstantExpr::getBitCast(cast<Constant>(ours.getCallee()), function->getType()));
}

int operation_named(StringRef name) {
  return StringSwitch<int>(name)
      .Case("exchange", __CRASHCUT_XCHG)
      .Case("fetch_add", __CRASHCUT_ADD)
      .Case("fetch_sub", __CRASHCUT_SUB)
      .Case("fetch_and", __CRASHCUT_AND)
      .Case("fetch_or", __CRASHCUT_OR)
      .Case("fetch_xor", __CRASHCUT_XOR)
      .Default(__CRASHCUT_NAND);
}

// `expected` may be in memory that counts: it is read and written as such.
Value* replace_compare_exchange(Emitter& emit, CallInst& call, Type* type) {
  Value* expected = call.getArgOperand(1);
  const bool is_on_stack = Locals::is_on_stack(expected);
  IRBuilder<> build(&call);
  Value* typed = build.CreatePointerCast(expected, type->getPointerTo());
  Value* given = is_on_stack ? build.CreateAlignedLoad(type, typed, Align(1)) : emit.load(&call, typed, type);
  const auto [old, is_done] =
      emit.cmpxchg(&call, call.getArgOperand(0), given, emit.convert(&call, call.getArgOperand(2), type),
                   call.getArgOperand(3), call.getArgOperand(4));
  if (is_on_stack) {
    IRBuilder<>(&call).CreateAlignedStore(old, typed, Align(1));
  } else {
    emit.store(&call, typed, old);
  }
  return IRBuilder<>(&call).CreateZExtOrTrunc(is_done, call.getType());
}

// __atomic_load_8(at, order) and the like: libatomic's functions for one size.
void replace_sized(Emitter& emit, const std::string& name, unsigned bytes) {
  Function* function = emit.module().getFunction("__atomic_" + name + "_" + std::to_string(bytes));
  if (function == nullptr || !function->isDeclaration()) return;
  Type* type = IntegerType::get(emit.context(), bytes * 8);
  for (User* user : make_early_inc_range(function->users())) {
    auto* call = dyn_cast<CallInst>(user);
    const unsigned arguments = name == "load" ? 2 : name == "compare_exchange" ? 5 : 3;
    if (call == nullptr || call->getCalledOperand() != function || call->arg_size() != arguments) continue;
    Value* at = call->getArgOperand(0);
    Value* order = call->getArgOperand(arguments - 1);
    Value* result = nullptr;
    if (name == "load") {
      result = emit.atomic_load(call, at, type, order);
    } else if (name == "store") {
      emit.atomic_store(call, at, emit.convert(call, call->getArgOperand(1), type), order);
    } else if (name == "compare_exchange") {
      result = replace_compare_exchange(emit, *call, type);
    } else {
      result = emit.rmw(call, operation_named(name), at, emit.convert(call, call->getArgOperand(1), type), order);
    }
    if (result != nullptr && !call->getType()->isVoidTy()) result = emit.convert(call, result, call->getType());
    replace_by(*call, result);
  }
}

}  // namespace

void replace_library_calls(Emitter& emit) {
  for (const char* name : kRenamed) rename_function(emit.module(), name, std::string("__crashcut_") + name);
  for (const auto& [alias, name] : kAliases) rename_function(emit.module(), alias, std::string("__crashcut_") + name);
  for (const unsigned bytes : {1u, 2u, 4u, 8u, 16u}) {
    for (const char* name : {"load", "store", "exchange", "compare_exchange", "fetch_add", "fetch_sub", "fetch_and",
                             "fetch_or", "fetch_xor", "fetch_nand"})
      replace_sized(emit, name, bytes);
  }
}

}  // namespace crashcut::instrument
