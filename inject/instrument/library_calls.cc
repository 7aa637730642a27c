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
    "__memcpy_chk",
    "__memmove_chk",
    "__memset_chk",
    "__mempcpy_chk",
    "__explicit_bzero_chk",
    "__strcpy_chk",
    "__strncpy_chk",
    "__stpcpy_chk",
    "__stpncpy_chk",
    "__strcat_chk",
    "__strncat_chk",
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
    "clock_gettime",
    "gettimeofday",
    "_ZNSt18condition_variableC1Ev",
    "_ZNSt18condition_variableC2Ev",
};
// Other names of the same functions.
constexpr const char* kAliases[][2] = {
    {"__rawmemchr", "rawmemchr"}, {"__strdup", "strdup"},     {"__strndup", "strndup"}, {"__stpcpy", "stpcpy"},
    {"__mempcpy", "mempcpy"},     {"__strtok_r", "strtok_r"}, {"index", "strchr"},      {"rindex", "strrchr"},
};

// heap.inc, strings.inc. The function itself becomes the last argument.
constexpr const char* kWithOriginal[] = {
    "_ZSt11_Hash_bytesPKvmm",
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "malloc_usable_size",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
};

// Functions of libstdc++ that are not instrumented touch what std::thread allocates: that is ordinary memory.
bool is_for_threads(const CallBase& call) { return call.getFunction()->getName().contains("St6thread"); }

void replace_with_original(CallBase& call, FunctionCallee ours, Function* original) {
  std::vector<Value*> arguments(call.arg_begin(), call.arg_end());
  arguments.push_back(original);
  CallBase* made;
  if (auto* invoke = dyn_cast<InvokeInst>(&call)) {
    made = InvokeInst::Create(ours, invoke->getNormalDest(), invoke->getUnwindDest(), arguments, "", &call);
  } else {
    made = CallInst::Create(ours, arguments, "", &call);
    cast<CallInst>(made)->setTailCallKind(CallInst::TCK_NoTail);
  }
  made->addFnAttr(Attribute::NoMerge);
  made->setDebugLoc(call.getDebugLoc());
  call.replaceAllUsesWith(made);
  call.eraseFromParent();
}

// A pointer to the function stays what it is: memory that it gives is ordinary.
void replace_function_with_original(Module& module, const char* name) {
  Function* function = module.getFunction(name);
  if (function == nullptr || !function->isDeclaration()) return;
  FunctionType* type = function->getFunctionType();
  std::vector<Type*> parameters(type->param_begin(), type->param_end());
  parameters.push_back(function->getType());
  FunctionCallee ours = module.getOrInsertFunction(std::string("__crashcut_") + name,
                                                   FunctionType::get(type->getReturnType(), parameters, false));
  const std::vector<User*> users(function->user_begin(), function->user_end());
  for (User* user : users) {
    auto* call = dyn_cast<CallBase>(user);
    const bool is_call = call != nullptr && (isa<CallInst>(call) || isa<InvokeInst>(call)) && !call->isMustTailCall();
    if (is_call && call->getCalledOperand() == function && call->getFunctionType() == type && !is_for_threads(*call))
      replace_with_original(*call, ours, function);
  }
}

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

// The value that is given as argument `first`: 16 bytes are two arguments.
Value* value_argument(Emitter& emit, CallInst& call, unsigned first, Type* type) {
  if (emit.bytes_of(type) < 16 || call.getArgOperand(first)->getType()->isIntegerTy(128))
    return emit.convert(&call, call.getArgOperand(first), type);
  IRBuilder<> build(&call);
  Value* high = build.CreateShl(build.CreateZExt(call.getArgOperand(first + 1), type), 64);
  return build.CreateOr(build.CreateZExt(call.getArgOperand(first), type), high);
}

// As the call returns it: 16 bytes as a pair.
Value* as_result(Emitter& emit, CallInst& call, Value* value) {
  Type* type = call.getType();
  if (type->isVoidTy() || !type->isStructTy()) return type->isVoidTy() ? nullptr : emit.convert(&call, value, type);
  IRBuilder<> build(&call);
  Value* pair = UndefValue::get(type);
  pair = build.CreateInsertValue(pair, build.CreateTrunc(value, build.getInt64Ty()), 0);
  return build.CreateInsertValue(pair, build.CreateTrunc(build.CreateLShr(value, 64), build.getInt64Ty()), 1);
}

// `expected` may be in memory that counts: it is read and written as such.
Value* replace_compare_exchange(Emitter& emit, CallInst& call, Type* type) {
  Value* expected = call.getArgOperand(1);
  const bool is_on_stack = Locals::is_on_stack(expected);
  IRBuilder<> build(&call);
  Value* typed = build.CreatePointerCast(expected, type->getPointerTo());
  Value* given = is_on_stack ? build.CreateAlignedLoad(type, typed, Align(1)) : emit.load(&call, typed, type);
  const unsigned count = call.arg_size();
  const auto [old, is_done] = emit.cmpxchg(&call, call.getArgOperand(0), given, value_argument(emit, call, 2, type),
                                           call.getArgOperand(count - 2), call.getArgOperand(count - 1));
  if (is_on_stack) {
    IRBuilder<>(&call).CreateAlignedStore(old, typed, Align(1));
  } else {
    emit.store(&call, typed, old);
  }
  return is_done;
}

// __atomic_load_8(at, order) and the like: libatomic's functions for one size.
void replace_sized(Emitter& emit, const std::string& name, unsigned bytes) {
  Function* function = emit.module().getFunction("__atomic_" + name + "_" + std::to_string(bytes));
  if (function == nullptr || !function->isDeclaration()) return;
  Type* type = IntegerType::get(emit.context(), bytes * 8);
  const unsigned fewest = name == "load" ? 2 : name == "compare_exchange" ? 5 : 3;
  for (User* user : make_early_inc_range(function->users())) {
    auto* call = dyn_cast<CallInst>(user);
    if (call == nullptr || call->getCalledOperand() != function || call->arg_size() < fewest) continue;
    Value* at = call->getArgOperand(0);
    Value* order = call->getArgOperand(call->arg_size() - 1);
    Value* result = nullptr;
    if (name == "load") {
      result = emit.atomic_load(call, at, type, order);
    } else if (name == "store") {
      emit.atomic_store(call, at, value_argument(emit, *call, 1, type), order);
    } else if (name == "compare_exchange") {
      result = replace_compare_exchange(emit, *call, type);
    } else {
      result = emit.rmw(call, operation_named(name), at, value_argument(emit, *call, 1, type), order);
    }
    replace_by(*call, result == nullptr ? nullptr : as_result(emit, *call, result));
  }
}

}  // namespace

void replace_library_calls(Emitter& emit) {
  for (const char* name : kRenamed) rename_function(emit.module(), name, std::string("__crashcut_") + name);
  for (const char* name : kWithOriginal) replace_function_with_original(emit.module(), name);
  for (const auto& [alias, name] : kAliases) rename_function(emit.module(), alias, std::string("__crashcut_") + name);
  for (const unsigned bytes : {1u, 2u, 4u, 8u, 16u}) {
    for (const char* name : {"load", "store", "exchange", "compare_exchange", "fetch_add", "fetch_sub", "fetch_and",
                             "fetch_or", "fetch_xor", "fetch_nand"})
      replace_sized(emit, name, bytes);
  }
}

}  // namespace crashcut::instrument
