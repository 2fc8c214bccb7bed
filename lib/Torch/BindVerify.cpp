//===- BindVerify.cpp - running kernel programs after every pass, for Python ------------------------------------===//

#include "tilewright/Runtime/CompilerLoader.h"
#include "tilewright/Runtime/Cpu.h"
#include "tilewright/Torch/Bind.h"

#include <c10/util/Exception.h>
#include <nanobind/stl/string.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/python_variable.h>

namespace nb = nanobind;

namespace tilewright::npu {
namespace {

std::vector<const void *> pointersOf(const nb::list &tensors) {
  std::vector<const void *> pointers;
  for (nb::handle item : tensors) {
    if (item.is_none()) {
      pointers.push_back(nullptr);
      continue;
    }
    if (!THPVariable_Check(item.ptr()) || !THPVariable_Unpack(item.ptr()).is_cpu())
      throw nb::type_error("expected a torch.Tensor on cpu, or None");
    pointers.push_back(THPVariable_Unpack(item.ptr()).const_data_ptr());
  }
  return pointers;
}

std::string verify(const std::string &program, const std::string &more, const nb::list &arguments,
                   const nb::list &expected) {
  nlohmann::json options = nlohmann::json::parse(CompileOptions::current().json());
  options.update(nlohmann::json::parse(more));
  std::string name = options["cpu"];
  std::optional<CpuLevel> level = cpuLevelFromName(name);
  TORCH_CHECK_VALUE(level, "no CPU level '", name, "': x86-64, avx2, avx512 or avx512bf16");
  options["machine"] = *level <= levelOf(CpuidRegisters::read());
  std::vector<const void *> pointers = pointersOf(arguments), right = pointersOf(expected);
  size_t count = options.at("arguments").size();
  TORCH_CHECK_VALUE(pointers.size() == count && right.size() == count, count, " arguments are described, ",
                    pointers.size(), " and ", right.size(), " given");
  try {
    nb::gil_scoped_release nogil;
    return verifyKernel(program, options.dump(), pointers, right);
  } catch (const CompileError &error) {
    throw CompileFailure(asJson(error));
  }
}

} // namespace

void bindVerify(nb::module_ &m) {
  m.def("verify_kernel", &verify, nb::arg("program"), nb::arg("options"), nb::arg("arguments"), nb::arg("expected"),
        "Runs a kernel program after every pass of the compiler (Compiler/CompilerApi.h, tw_compiler_verify) on copies "
        "of CPU tensors; the report as JSON. `options` adds to this process's own: arguments' sizes, a CPU level. "
        "Raises CompileFailure.");
}

} // namespace tilewright::npu
