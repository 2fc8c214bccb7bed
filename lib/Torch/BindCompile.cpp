//===- BindCompile.cpp - graphs for Python: compile, call, freeze -------------------------------------------------===//

#include "tilewright/Runtime/Errors.h"
#include "tilewright/Runtime/PackedWeights.h"
#include "tilewright/Runtime/ProgramCache.h"
#include "tilewright/Torch/Bind.h"
#include "tilewright/Torch/CompiledGraph.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/ExternalAten.h"
#include "tilewright/Torch/Frozen.h"

#include <c10/util/Exception.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <chrono>

namespace nb = nanobind;

namespace tilewright::npu {
namespace {

const at::Tensor &tensorOf(nb::handle object) {
  if (!THPVariable_Check(object.ptr()))
    throw nb::type_error("expected a torch.Tensor");
  return THPVariable_Unpack(object.ptr());
}

c10::DeviceType deviceType(const std::string &name) {
  if (name == "cpu")
    return c10::kCPU;
  TORCH_CHECK_VALUE(name == "npu", "device ", name, ": graphs run on cpu or npu");
  return c10::DeviceType::PrivateUse1;
}

/// Each an argument's position, or a tensor.
std::vector<CompiledGraph::Source> readSources(const nb::list &list) {
  std::vector<CompiledGraph::Source> sources;
  for (nb::handle item : list) {
    CompiledGraph::Source source;
    if (THPVariable_Check(item.ptr()))
      source.constant = THPVariable_Unpack(item.ptr());
    else
      source.argument = nb::cast<size_t>(item);
    sources.push_back(std::move(source));
  }
  return sources;
}

/// Each a pair: ("tensor", output), ("size", number or text), ("constant", object), ("none", None).
std::vector<CompiledGraph::Result> readResults(const nb::list &list) {
  std::vector<CompiledGraph::Result> results;
  for (nb::handle item : list) {
    nb::object kind = item[0], what = item[1];
    std::string name = nb::cast<std::string>(kind);
    CompiledGraph::Result result;
    if (name == "tensor") {
      result.output = nb::cast<uint32_t>(what);
    } else if (name == "size") {
      result.kind = CompiledGraph::Result::Size;
      result.size = nb::isinstance<nb::str>(what) ? SizeExpr::parse(nb::cast<std::string>(what))
                                                  : SizeExpr(nb::cast<int64_t>(what));
    } else {
      TORCH_CHECK_VALUE(name == "constant" || name == "none", "result of kind ", name);
      result.kind = CompiledGraph::Result::Constant;
      result.constant = what;
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<CompiledGraph> compileGraph(const std::string &graph, size_t arguments, const nb::list &sources,
                                            const nb::list &results, const std::vector<std::string> &outputDevices,
                                            const std::string &device) {
  std::vector<c10::DeviceType> devices;
  for (const std::string &name : outputDevices)
    devices.push_back(deviceType(name));
  CompiledGraph::Info info;
  std::shared_ptr<Executable> executable;
  {
    nb::gil_scoped_release nogil;
    auto start = std::chrono::steady_clock::now();
    CachedProgram found = ProgramCache::instance().get(graph, CompileOptions::current());
    info.cached = found.origin != CachedProgram::Compiled;
    info.seconds[info.cached ? "cache" : "compile"] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    info.report = *found.report;
    executable = std::move(found.executable);
  }
  return std::make_unique<CompiledGraph>(std::move(executable), arguments, readSources(sources), readResults(results),
                                         std::move(devices), deviceType(device), std::move(info));
}

/// PyTorch's exceptions to Python's, and ours that nanobind does not know.
void translate(const std::exception_ptr &error, void *) {
  try {
    std::rethrow_exception(error);
  } catch (const DataError &) {
    try {
      rethrowForTorch();
    } catch (const c10::Error &) {
      torch::translate_exception_to_python(std::current_exception());
    }
  } catch (python_error &raised) { // by an operator that is written in Python
    raised.restore();
  } catch (const c10::Error &) {
    torch::translate_exception_to_python(error);
  }
}

} // namespace

std::string asJson(const CompileError &error) {
  nlohmann::json text = {{"kind", error.kind},
                         {"op", error.op},
                         {"source", error.source},
                         {"message", error.message},
                         {"hint", error.hint}};
  return text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void bindCompile(nb::module_ &m) {
  registerExternalAten();
  bindKernelProfile(m);
  bindVerify(m);
  nb::register_exception_translator(&translate);
  nb::exception<CompileFailure>(m, "CompileFailure");

  nb::class_<CompiledGraph>(m, "CompiledGraph", nb::dynamic_attr(),
                            "A compiled graph: call it with the list of its arguments, which is consumed.")
      .def("__call__", &CompiledGraph::operator(), nb::arg("arguments"))
      .def_prop_ro("report", [](const CompiledGraph &graph) { return graph.info().report; })
      .def_prop_ro("seconds", [](const CompiledGraph &graph) { return graph.info().seconds; })
      .def_prop_ro("cached", [](const CompiledGraph &graph) { return graph.info().cached; })
      .def_prop_ro("name", [](const CompiledGraph &graph) { return graph.executable().program().name; })
      .def_prop_ro("first_setup_seconds", &CompiledGraph::firstSetupSeconds)
      .def_prop_ro("memory", &CompiledGraph::memory);

  m.def(
      "compile_graph",
      [](const std::string &graph, size_t arguments, const nb::list &sources, const nb::list &results,
         const std::vector<std::string> &outputDevices, const std::string &device) {
        try {
          return compileGraph(graph, arguments, sources, results, outputDevices, device).release(); // Python owns it
        } catch (const CompileError &error) {
          throw CompileFailure(asJson(error));
        }
      },
      nb::arg("graph"), nb::arg("arguments"), nb::arg("sources"), nb::arg("results"), nb::arg("output_devices"),
      nb::arg("device"), "Compiles a graph description (docs/graph-format.md). Raises CompileFailure.");

  m.def(
      "compile_report",
      [](const std::string &description, const std::string &dump) {
        CompileOptions options = CompileOptions::current();
        options.dump = dump;
        try {
          nb::gil_scoped_release nogil;
          return nativeCompiler().compile(description, options.json()).report;
        } catch (const CompileError &error) {
          throw CompileFailure(asJson(error));
        }
      },
      nb::arg("description"), nb::arg("dump"),
      "Compiles a graph or kernel program past the cache, writes what is made on the way to the folder `dump` "
      "(docs/switches.md, TILEWRIGHT_DUMP) and returns the report. Raises CompileFailure.");

  m.def("packed_weight_stats", [] {
    PackedWeightStats stats = packedWeightStats();
    return std::map<std::string, uint64_t>{
        {"count", stats.count}, {"bytes", stats.bytes}, {"hits", stats.hits}, {"packed", stats.packed}};
  });
  m.def("freeze_tensor", [](nb::handle tensor) { freezeStorage(tensorOf(tensor)); });
  m.def("thaw_tensor", [](nb::handle tensor) { return thawStorage(tensorOf(tensor)); });
  m.def("is_frozen", [](nb::handle tensor) { return isFrozen(tensorOf(tensor)); });
}

} // namespace tilewright::npu
