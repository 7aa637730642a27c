// The clang plugin: replaces every access to memory of a module by a call (abi.h).
//
// When: "early" is the start of the pipeline, before any optimisation: what the source says, without what the front end
//   of clang merges. "late" (-mllvm -crashcut-late) is the end of the optimiser: dead stores are gone, stores are
//   merged into vectors. Code generation merges further, which neither sees.
// Does not see: code in other languages' object files and libraries; 32-bit code.
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <set>

#include "inject/instrument/abi.h"
#include "inject/instrument/replace.h"

namespace crashcut::instrument {

using namespace llvm;

namespace {

cl::opt<bool> g_is_late("crashcut-late", cl::desc("instrument after optimisation"));
cl::list<std::string> g_allowed("crashcut-allow-asm", cl::desc("leave assembly that contains this text as it is"));

constexpr const char* kFlag = "crashcut-instrumented";

// They were true of the function as it was written. Ours do what they forbid, in memory of their own.
void forget_promises(Function& function) {
  for (const auto promise : {Attribute::ReadNone, Attribute::ReadOnly, Attribute::WriteOnly, Attribute::ArgMemOnly,
                             Attribute::InaccessibleMemOnly, Attribute::InaccessibleMemOrArgMemOnly, Attribute::NoSync,
                             Attribute::Speculatable})
    function.removeFnAttr(promise);
  for (Argument& argument : function.args()) {
    for (const auto promise : {Attribute::ReadNone, Attribute::ReadOnly, Attribute::WriteOnly})
      argument.removeAttr(promise);
  }
}

void add_constructor(Module& module, Emitter& emit, bool is_late) {
  LLVMContext& context = module.getContext();
  Function* constructor = Function::Create(FunctionType::get(Type::getVoidTy(context), false),
                                           GlobalValue::InternalLinkage, "crashcut.module", module);
  Instruction* end = ReturnInst::Create(context, BasicBlock::Create(context, "", constructor));
  IRBuilder<> build(end);
  emit.call(end, "__crashcut_module", build.getVoidTy(),
            {build.getInt32(CRASHCUT_INSTRUMENT_ABI), build.CreateGlobalStringPtr(is_late ? "late" : "early")});
  appendToGlobalCtors(module, constructor, 0);
}

class InstrumentPass : public PassInfoMixin<InstrumentPass> {
 public:
  static bool isRequired() { return true; }  // without optimisation too

  PreservedAnalyses run(Module& module, ModuleAnalysisManager&) {
    if (module.getModuleFlag(kFlag) != nullptr) return PreservedAnalyses::all();  // link-time optimisation
    if (!StringRef(module.getTargetTriple()).startswith("x86_64")) {
      module.getContext().emitError("crashcut instruments code for x86-64 only, not for " + module.getTargetTriple());
      return PreservedAnalyses::all();
    }
    module.addModuleFlag(Module::Warning, kFlag, 1);
    const Options options{g_is_late, {g_allowed.begin(), g_allowed.end()}};
    Emitter emit(module);
    check_module_assembly(module, options);
    std::set<const Function*> resolvers;  // run before libraries can be called
    for (const GlobalIFunc& chosen : module.ifuncs()) resolvers.insert(chosen.getResolverFunction());
    std::vector<Function*> defined;
    for (Function& function : module) {
      if (!function.isDeclaration() && resolvers.count(&function) == 0) defined.push_back(&function);
    }
    for (Function* function : defined) {
      const Locals locals(*function);
      Replacing in{emit, locals, options};
      replace_accesses(in, *function);
      forget_promises(*function);
    }
    replace_library_calls(emit);
    if (!defined.empty()) add_constructor(module, emit, options.is_late);
    return PreservedAnalyses::none();
  }
};

void register_passes(PassBuilder& builder) {
  builder.registerPipelineStartEPCallback([](ModulePassManager& passes, OptimizationLevel) {
    if (!g_is_late) passes.addPass(InstrumentPass());
  });
  builder.registerOptimizerLastEPCallback([](ModulePassManager& passes, OptimizationLevel) {
    if (g_is_late) passes.addPass(InstrumentPass());
  });
}

}  // namespace

}  // namespace crashcut::instrument

extern "C" __attribute__((visibility("default"))) llvm::PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "crashcut-pmem", "1", crashcut::instrument::register_passes};
}
