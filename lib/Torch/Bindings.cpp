//===- Bindings.cpp - the extension module tilewright._C ----------------------------------------------------------===//

#include "tilewright/Support/Switches.h"
#include "tilewright/Torch/AutogradExit.h"
#include "tilewright/Torch/Bind.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Fallback.h"
#include "tilewright/Torch/Generator.h"
#include "tilewright/Torch/Hooks.h"
#include "tilewright/Torch/KernelLaunch.h"
#include "tilewright/Torch/Memory.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/version.h>

namespace nb = nanobind;

namespace tilewright::npu {
namespace {

const at::Tensor &tensorOf(nb::handle object) {
  if (!THPVariable_Check(object.ptr()))
    throw nb::type_error("expected a torch.Tensor");
  return THPVariable_Unpack(object.ptr());
}

nb::dict properties() {
  const DeviceCapabilities &found = Device::instance().capabilities();
  nb::dict result;
  result["name"] = found.name;
  result["cpu_level"] = found.cpuLevel;
  result["vector_bits"] = found.vectorBits;
  result["multi_processor_count"] = found.threads;
  result["total_memory"] = found.totalMemory;
  result["l1_cache_size"] = found.l1Bytes;
  result["L2_cache_size"] = found.l2Bytes;
  result["l3_cache_size"] = found.l3Bytes;
  return result;
}

nb::dict bytesByPurpose() {
  MemoryStats stats = device().allocator().stats();
  nb::dict result;
  constexpr const char *names[] = {"tensor", "arena", "packed", "pinned"};
  for (size_t i = 0; i < std::size(names); ++i) {
    nb::dict stat;
    stat["current"] = stats.byPurpose[i].current;
    stat["peak"] = stats.byPurpose[i].peak;
    stat["allocated"] = stats.byPurpose[i].allocated;
    stat["freed"] = stats.byPurpose[i].freed;
    result[names[i]] = stat;
  }
  return result;
}

nb::list snapshot() {
  constexpr const char *states[] = {"active_allocated", "active_pending_free", "inactive"};
  nb::list result;
  for (const MemorySegment &segment : device().allocator().snapshot()) {
    nb::dict entry;
    entry["address"] = reinterpret_cast<uint64_t>(segment.data);
    entry["total_size"] = segment.bytes;
    entry["stream"] = segment.stream;
    entry["segment_type"] = segment.small ? "small" : "large";
    nb::list blocks;
    for (const MemorySegment::Piece &piece : segment.pieces) {
      nb::dict block;
      block["address"] = reinterpret_cast<uint64_t>(piece.data);
      block["size"] = piece.bytes;
      block["requested_size"] = piece.requested;
      block["state"] = states[static_cast<int>(piece.state)];
      blocks.append(block);
    }
    entry["blocks"] = blocks;
    result.append(entry);
  }
  return result;
}

// The callable is called and dropped with the GIL, on the stream's worker.
void launchHostFunction(int64_t stream, nb::object function) {
  auto drop = [](nb::object *held) {
    nb::gil_scoped_acquire gil;
    delete held;
  };
  std::shared_ptr<nb::object> held(new nb::object(std::move(function)), drop);
  Stream &target = toRuntime(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, 0), stream));
  target.enqueue([held] {
    nb::gil_scoped_acquire gil;
    try {
      (*held)();
    } catch (nb::python_error &error) {
      throw std::runtime_error(std::string("a host function on an npu stream raised: ") + error.what());
    }
  });
}

} // namespace
} // namespace tilewright::npu

NB_MODULE(_C, m) {
  using namespace tilewright;
  using namespace tilewright::npu;
  nb::set_leak_warnings(false); // the interpreter may end while streams still hold host functions
  m.attr("torch_version") = std::string(TORCH_VERSION).substr(0, std::string_view(TORCH_VERSION).find('+'));
  m.def(
      "set_switch",
      [](const std::string &name, std::optional<std::string> value) { setSwitch(name, std::move(value)); },
      nb::arg("name"), nb::arg("value").none());

  m.def("register_device", &registerWithTorch,
        "Gives PyTorch the allocator and hooks of the device. Once per process.");
  m.def("settle_autograd", &settleAutograd, nb::call_guard<nb::gil_scoped_release>());
  m.def("device_used", &deviceUsed);
  m.def("in_bad_fork", &inBadFork);
  m.def("device_properties", &properties);
  m.def("synchronize", &synchronizeDevice);
  m.def("launch_host_function", &launchHostFunction, nb::arg("stream_id"), nb::arg("function"));

  m.def("memory_limit", [] { return device().allocator().limit(); });
  m.def("set_memory_limit", [](size_t bytes) { device().setMemoryLimit(bytes); });
  m.def("memory_summary", [] { return device().allocator().summary(); });
  m.def("memory_by_purpose", &bytesByPurpose);
  m.def(
      "write_epoch", [](nb::handle tensor) { return writeEpoch(tensorOf(tensor)); },
      "A token that changes whenever the tensor's memory may have been written; 0 if that cannot be known.");
  m.def(
      "hand_out", [](uint64_t address, bool forGood) { handOut(reinterpret_cast<const void *>(address), forGood); },
      nb::arg("address"), nb::arg("for_good"));
  m.def("memory_snapshot", &snapshot);

  m.def("default_generator", [] { return nb::steal(THPGenerator_initDefaultGenerator(defaultGenerator())); });

  m.def("fallback_counts", &fallbackCounts);
  m.def("reset_fallback_counts", &resetFallbackCounts);

  bindCompile(m);
  bindKernels(m);
}
