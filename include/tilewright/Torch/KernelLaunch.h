//===- KernelLaunch.h - what a call of a hand-written kernel does ---*- C++ -*-===//
//
// A call reads dtypes and layouts of its arguments, finds the specialisation that was compiled for them and runs it: a
// microsecond or two. Everything else (compiling, arrays of NumPy, gradients, messages) is Python's, which is asked
// where a call is not plain: python/tilewright/language/launch.py.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/Executable.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>
#include <nanobind/nanobind.h>

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::npu {

class KernelLauncher {
public:
  struct Parameter {
    /// A Number's type is that of a tensor: an integer or a float from one specialisation to the next.
    enum Kind : uint8_t { In, Out, InOut, Int, Float, Bool, Number, Constant } kind;
    std::string name;
    size_t rank = 0; // of tensors
    bool keywordOnly = false;
    int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max(); // Int
    nanobind::object key;          // the name as Python's interned string
    nanobind::object defaultValue; // null: none
  };

  /// `owner` is the Python kernel, held weakly: it has the methods `_compile_for`, `_call_slowly`, `_explain`,
  /// `_refuse_overlap`, `_check_call` and `_constant_of` of launch.py.
  KernelLauncher(std::string name, std::vector<Parameter> parameters, const nanobind::object &owner);
  ~KernelLauncher();
  KernelLauncher(const KernelLauncher &) = delete;

  /// The call as Python writes it. Outputs that are left out (or None) are allocated and returned: one, or a tuple;
  /// None if there are none.
  nanobind::object call(nanobind::args args, nanobind::kwargs kwargs);
  /// The same with one object per parameter, None for outputs that are left out, all of them plain: tensors, numbers,
  /// constants. NotImplemented where something stands between a tensor and its memory (a transform, a mode).
  nanobind::object callBound(const nanobind::list &objects);
  /// From PyTorch's dispatcher, whose types have been checked: one value per parameter, none for outputs that are to be
  /// allocated. Returns these. The GIL may be held or not.
  std::vector<at::Tensor> callBoxed(c10::ArrayRef<c10::IValue> values);

  /// Compiles for a device and what `_compile_for` is told of a call, unless that has been done. Returns the graph.
  nanobind::object prepare(const std::string &device, const nanobind::list &described);

  const std::string &name() const { return title; }
  const std::vector<Parameter> &parameters() const { return params; }
  /// How many specialisations there are.
  size_t count() const;
  /// Forgets them.
  void clear();

private:
  struct Frame;
  struct Specialisation;
  struct Table;
  enum class Reading : uint8_t { Plain, Unusual };

  std::string title;
  std::vector<Parameter> params;
  nanobind::object owner; // a weak reference
  bool constants = false;
  std::atomic<const Table *> table;
  std::vector<std::unique_ptr<const Table>> tables; // all that ever were: readers have no lock

  nanobind::object kernel() const;
  nanobind::list objectsOf(c10::ArrayRef<c10::IValue> values) const;
  Reading readTensor(Frame &frame, size_t i, const at::Tensor &tensor, bool fromDispatcher) const;
  Reading read(Frame &frame, PyObject *const *objects) const;
  std::shared_ptr<const Specialisation> find(const Frame &frame) const;
  std::shared_ptr<const Specialisation> compile(const Frame &frame);
  void checkOverlap(const Frame &frame) const;
  void run(Frame &frame, const Specialisation &found) const;
  nanobind::object runFromPython(Frame &frame, PyObject *const *objects);
};

/// tilewright._C.KernelLauncher and the registration of kernels as operators.
void bindKernels(nanobind::module_ &m);
/// CPU, PrivateUse1 and Autograd of `tilewright_kernels::NAME` (overload "" or another), whose schema is registered.
/// Without a launcher only Autograd.
void registerKernelOperator(const std::string &name, const std::string &overload,
                            const std::shared_ptr<KernelLauncher> &launcher);

} // namespace tilewright::npu
