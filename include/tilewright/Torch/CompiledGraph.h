//===- CompiledGraph.h - what a compiled graph's call does ---------*- C++ -*-===//
//
// The callable that AOTAutograd gets: takes its arguments as one list, binds the sizes, allocates the results, runs.
// All of it in C++, since it happens at every call: a few microseconds for a small graph.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/Executable.h"

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::npu {

class CompiledGraph {
public:
  /// What fills an input of the program: an argument of the call, or a tensor that belongs to the graph.
  struct Source {
    size_t argument = 0;
    std::optional<at::Tensor> constant;
  };

  /// One of the call's results.
  struct Result {
    enum Kind : uint8_t { Tensor, Size, Constant } kind = Tensor;
    uint32_t output = 0;       // Tensor: index into Program::outputs
    SizeExpr size;             // Size: of the program's symbols
    nanobind::object constant; // Constant: a Python object
  };

  /// What the compiler said.
  struct Info {
    std::string report; // JSON
    std::map<std::string, double> seconds;
    bool cached = false;
  };

  /// `outputDevices`: per output of the program, cpu or npu. Throws c10::ValueError where the parts do not fit the
  /// program.
  CompiledGraph(std::shared_ptr<Executable> executable, size_t arguments, std::vector<Source> sources,
                std::vector<Result> results, std::vector<c10::DeviceType> outputDevices, c10::DeviceType device,
                Info info);
  CompiledGraph(const CompiledGraph &) = delete;

  /// Consumes the list: it is empty afterwards, so that arguments that nobody else holds are freed early. On cpu the
  /// results are complete on return; on npu the work is queued on the current stream. Throws (as Python's exceptions)
  /// TypeError and ValueError for arguments that do not fit, IndexError for data errors on cpu.
  nanobind::list operator()(nanobind::list arguments);

  const Info &info() const { return about; }
  const Executable &executable() const { return *program; }
  const std::shared_ptr<Executable> &shared() const { return program; }
  /// Seconds from the first call's start to its launch: binding, allocation of results. Nothing before it.
  std::optional<double> firstSetupSeconds() const { return firstSetup; }
  /// Bytes of temporary memory and of packed weights at the last call's sizes.
  std::map<std::string, size_t> memory() const;

private:
  struct Call;

  std::shared_ptr<Executable> program;
  size_t argumentCount;
  std::vector<Source> sources;
  std::vector<Result> results;
  std::vector<c10::DeviceType> outputDevices;
  std::vector<bool> needsEpoch; // per input: something is kept that is derived from it
  c10::DeviceType device;
  bool cpuOutputs = false; // of a program on npu: such calls wait
  bool sizeResults = false;
  Info about;
  std::optional<double> firstSetup;
  std::shared_ptr<const BoundSizes> lastSizes;

  void readArguments(Call &call, nanobind::handle list);
  void readTensor(Call &call, size_t input, const at::Tensor &given);
  void allocate(Call &call);
  std::vector<int64_t> symbolValues(const Call &call) const;
  nanobind::list collect(Call &call);
};

} // namespace tilewright::npu
