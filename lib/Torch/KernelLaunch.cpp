//===- KernelLaunch.cpp - what a call of a hand-written kernel does -----------------------------------------------===//

#include "tilewright/Torch/KernelLaunch.h"

#include "tilewright/Support/Switches.h"
#include "tilewright/Torch/CompiledGraph.h"
#include "tilewright/Torch/DTypes.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Frozen.h"
#include "tilewright/Torch/Memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

namespace nb = nanobind;

namespace tilewright::npu {
namespace {

constexpr size_t kParameters = 16; // inline capacity: most kernels have fewer
constexpr uint8_t kAbsent = 0;     // an output that the call allocates
constexpr const char *kLayouts[] = {"contiguous", "inner", "strided"};
constexpr uint8_t kLayoutCount = 3;

// A tensor's part of the key: dtype and layout, never absent's.
uint8_t codeOf(DType dtype, uint8_t layout) {
  return static_cast<uint8_t>(1 + static_cast<unsigned>(dtype) * kLayoutCount + layout);
}

constexpr size_t kScalarTypes = static_cast<size_t>(c10::ScalarType::NumOptions);

// DType by c10's number; kScalarTypes where graphs have none.
const std::array<uint8_t, kScalarTypes> &dtypeTable() {
  static const auto table = [] {
    std::array<uint8_t, kScalarTypes> result{};
    for (size_t i = 0; i < kScalarTypes; ++i) {
      std::optional<DType> dtype = toDType(static_cast<c10::ScalarType>(i));
      result[i] = dtype ? static_cast<uint8_t>(*dtype) : 0xff;
    }
    return result;
  }();
  return table;
}

uint8_t layoutOf(const at::Tensor &tensor) {
  if (tensor.is_contiguous())
    return 0;
  return tensor.size(-1) <= 1 || tensor.stride(-1) == 1 ? 1 : 2;
}

// Whether nothing stands between a call and the tensor's memory: no gradient, no transform, no mode, no lazy view.
bool isPlain(const at::Tensor &tensor) {
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  constexpr c10::DispatchKeySet passed = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                         c10::autocast_dispatch_keyset |
                                         c10::DispatchKeySet({c10::DispatchKey::BackendSelect});
  c10::DispatchKeySet keys = ((tensor.key_set() | local.included_) - local.excluded_) - passed;
  return keys.highestFunctionalityKey() == c10::DispatchKey::Dense &&
         !(tensor.requires_grad() && at::GradMode::is_enabled()) && !tensor._fw_grad(/*level=*/0).defined();
}

struct Range {
  uintptr_t begin, end;
  bool meets(const Range &other) const { return begin < other.end && other.begin < end; }
};

Range rangeOf(const Argument &argument) {
  uint64_t elements = 1;
  for (size_t d = 0; d < argument.sizes.size(); ++d) {
    if (argument.sizes[d] == 0)
      return {0, 0};
    elements += static_cast<uint64_t>(argument.sizes[d] - 1) * static_cast<uint64_t>(argument.strides[d]);
  }
  auto begin = reinterpret_cast<uintptr_t>(argument.data);
  return {begin, begin + elements * sizeOf(argument.dtype)};
}

// Whether each dimension, from the innermost, steps over all that lies inside of it. False means unknown.
bool isNested(const Argument &argument) {
  c10::SmallVector<std::pair<int64_t, int64_t>, 8> dims;
  for (size_t d = 0; d < argument.sizes.size(); ++d)
    if (argument.sizes[d] > 1)
      dims.emplace_back(argument.strides[d], argument.sizes[d]);
  std::sort(dims.begin(), dims.end());
  int64_t extent = 1;
  for (auto [stride, size] : dims) {
    if (stride < extent)
      return false;
    extent = stride * (size - 1) + extent;
  }
  return true;
}

nb::object describe(const at::Tensor &tensor) { return nb::steal(THPVariable_Wrap(tensor)); }

} // namespace

/// One call's state.
struct KernelLauncher::Frame {
  explicit Frame(size_t count) : arguments(count), tensors(count, nullptr), objects(count, nullptr) {
    key.resize(count + 1, kAbsent);
  }
  c10::SmallVector<uint8_t, kParameters + 1> key; // per parameter, then the device
  c10::SmallVector<Argument, kParameters> arguments;
  c10::SmallVector<const at::Tensor *, kParameters> tensors;
  c10::SmallVector<PyObject *, kParameters> objects; // constants
  c10::SmallVector<at::Tensor, 4> fresh;
  uint64_t floats = 0; // bit i: number i was given as a float

  c10::DeviceType device() const { return key.back() == 2 ? kDeviceType : c10::kCPU; }
};

/// What was compiled for one key.
struct KernelLauncher::Specialisation {
  /// A name that the kernel captures: holder is a dict or a cell.
  struct Guard {
    nb::object holder, name, value;
    bool holds() const {
      PyObject *now = PyCell_Check(holder.ptr()) ? PyCell_GET(holder.ptr()) : PyDict_GetItem(holder.ptr(), name.ptr());
      return now == value.ptr();
    }
  };

  c10::SmallVector<uint8_t, kParameters + 1> key;
  std::vector<std::pair<size_t, nb::object>> constants; // by parameter
  std::vector<Guard> guards;
  nb::object check; // called where guards cannot say whether captures are as they were; or null
  nb::object graph; // the CompiledGraph
  std::shared_ptr<Executable> program;
  std::vector<size_t> inputs; // the program's, as parameters
  std::vector<size_t> fresh;  // its outputs, as parameters
  std::vector<size_t> written;
  std::vector<size_t> needEpoch; // parameters of which something derived is kept
  std::vector<size_t> integers;  // numbers that are integers here

  bool matches(const Frame &frame) const {
    if (std::memcmp(key.data(), frame.key.data(), key.size()) != 0)
      return false;
    for (const auto &[i, value] : constants)
      if (!same(value.ptr(), frame.objects[i]))
        return false;
    return true;
  }

  bool isCurrent() const {
    for (const Guard &guard : guards)
      if (!guard.holds())
        return false;
    return !check || nb::cast<bool>(check());
  }

private:
  // 1, 1.0 and True are equal and different constants.
  static bool same(PyObject *a, PyObject *b) {
    if (a == b)
      return true;
    if (Py_TYPE(a) != Py_TYPE(b))
      return false;
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0)
      throw nb::python_error();
    return equal != 0;
  }
};

struct KernelLauncher::Table {
  std::vector<std::shared_ptr<const Specialisation>> entries;
  bool needsPython = false; // to compare constants or captures
};

KernelLauncher::KernelLauncher(std::string name, std::vector<Parameter> parameters, const nb::object &kernel)
    : title(std::move(name)), params(std::move(parameters)), owner(nb::steal(PyWeakref_NewRef(kernel.ptr(), nullptr))) {
  if (!owner)
    throw nb::python_error();
  for (const Parameter &p : params)
    constants |= p.kind == Parameter::Constant;
  tables.push_back(std::make_unique<Table>());
  table.store(tables.back().get());
}

KernelLauncher::~KernelLauncher() = default;

size_t KernelLauncher::count() const { return table.load(std::memory_order_acquire)->entries.size(); }

void KernelLauncher::clear() {
  tables.push_back(std::make_unique<Table>());
  table.store(tables.back().get(), std::memory_order_release);
}

nb::object KernelLauncher::kernel() const {
  PyObject *found = PyWeakref_GetObject(owner.ptr());
  TORCH_CHECK(found && found != Py_None, "the kernel ", title, " is called after it was freed");
  return nb::borrow(found);
}

KernelLauncher::Reading KernelLauncher::readTensor(Frame &frame, size_t i, const at::Tensor &tensor,
                                                   bool fromDispatcher) const {
  const Parameter &p = params[i];
  c10::DeviceType type = tensor.device().type();
  uint8_t where = type == c10::kCPU ? 1 : type == kDeviceType ? 2 : 0;
  uint8_t &device = frame.key.back();
  uint8_t dtype = dtypeTable()[static_cast<size_t>(tensor.scalar_type())];
  if (where == 0 || (device != 0 && device != where) || dtype == 0xff || static_cast<size_t>(tensor.dim()) != p.rank ||
      (!fromDispatcher && !isPlain(tensor)))
    return Reading::Unusual;
  device = where;
  uint8_t layout = layoutOf(tensor);
  frame.key[i] = codeOf(static_cast<DType>(dtype), layout);
  Argument &argument = frame.arguments[i];
  argument.dtype = static_cast<DType>(dtype);
  argument.sizes = {tensor.sizes().data(), tensor.sizes().size()};
  argument.strides = {tensor.strides().data(), tensor.strides().size()};
  argument.data = p.kind == Parameter::In ? const_cast<void *>(tensor.const_data_ptr()) : tensor.mutable_data_ptr();
  frame.tensors[i] = &tensor;
  return Reading::Plain;
}

KernelLauncher::Reading KernelLauncher::read(Frame &frame, PyObject *const *objects) const {
  for (size_t i = 0; i < params.size(); ++i) {
    PyObject *object = objects[i];
    switch (params[i].kind) {
    case Parameter::In:
    case Parameter::InOut:
    case Parameter::Out:
      if (object && THPVariable_Check(object)) {
        if (readTensor(frame, i, THPVariable_Unpack(object), false) == Reading::Unusual)
          return Reading::Unusual;
      } else if (params[i].kind != Parameter::Out || (object && object != Py_None)) {
        return Reading::Unusual;
      }
      break;
    case Parameter::Bool:
      if (!object || !PyBool_Check(object))
        return Reading::Unusual;
      frame.arguments[i].scalarInt = object == Py_True;
      break;
    case Parameter::Float:
    case Parameter::Number:
      if (object && PyFloat_CheckExact(object)) {
        frame.arguments[i].scalarFloat = PyFloat_AS_DOUBLE(object);
        frame.floats |= uint64_t(1) << i % 64;
        break;
      }
      [[fallthrough]];
    case Parameter::Int: {
      if (!object || !PyLong_CheckExact(object))
        return Reading::Unusual;
      int overflow = 0;
      frame.arguments[i].scalarInt = PyLong_AsLongLongAndOverflow(object, &overflow);
      int64_t value = frame.arguments[i].scalarInt;
      if (overflow || value < params[i].low || value > params[i].high)
        return Reading::Unusual;
      if (params[i].kind != Parameter::Int)
        frame.arguments[i].scalarFloat = static_cast<double>(frame.arguments[i].scalarInt);
      break;
    }
    case Parameter::Constant:
      if (!object)
        return Reading::Unusual;
      frame.objects[i] = object;
      break;
    }
  }
  return frame.key.back() == 0 ? Reading::Unusual : Reading::Plain; // no tensor says where to run
}

std::shared_ptr<const KernelLauncher::Specialisation> KernelLauncher::find(const Frame &frame) const {
  for (const auto &entry : table.load(std::memory_order_acquire)->entries)
    if (entry->matches(frame))
      return entry->isCurrent() ? entry : nullptr;
  return nullptr;
}

// With the GIL, which is also what orders changes of the table.
std::shared_ptr<const KernelLauncher::Specialisation> KernelLauncher::compile(const Frame &frame) {
  nb::list described;
  for (size_t i = 0; i < params.size(); ++i) {
    switch (params[i].kind) {
    case Parameter::In:
    case Parameter::InOut:
    case Parameter::Out:
      if (frame.key[i] == kAbsent) {
        described.append(nb::none());
      } else {
        auto code = static_cast<uint8_t>(frame.key[i] - 1);
        std::string_view dtype = nameOf(static_cast<DType>(code / kLayoutCount));
        described.append(nb::make_tuple(nb::str(dtype.data(), dtype.size()), nb::str(kLayouts[code % kLayoutCount])));
      }
      break;
    case Parameter::Constant:
      described.append(nb::borrow(frame.objects[i]));
      break;
    default:
      described.append(nb::none());
    }
  }
  const char *device = frame.device() == c10::kCPU ? "cpu" : "npu";
  // The graph; captured values as (holder, name, value); a function that says whether other captures are unchanged.
  nb::tuple answer = nb::cast<nb::tuple>(kernel().attr("_compile_for")(device, described));
  auto made = std::make_shared<Specialisation>();
  made->key.assign(frame.key.begin(), frame.key.end());
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].kind == Parameter::Constant)
      made->constants.emplace_back(i, nb::borrow(frame.objects[i]));
  made->graph = answer[0];
  for (nb::handle guard : nb::cast<nb::list>(answer[1]))
    made->guards.push_back({guard[0], guard[1], guard[2]});
  if (nb::object check = answer[2]; !check.is_none())
    made->check = check;
  made->program = nb::cast<const CompiledGraph &>(made->graph).shared();
  const Program &p = made->program->program();
  std::vector<bool> epoch(p.inputs.size());
  for (const BufferSpec &buffer : p.buffers)
    if (buffer.kind == BufferSpec::Attached)
      epoch[buffer.attachedTo] = true;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].kind == Parameter::Constant)
      continue;
    if (params[i].kind == Parameter::Out && frame.key[i] == kAbsent) {
      made->fresh.push_back(i);
      continue;
    }
    size_t input = made->inputs.size();
    TORCH_CHECK(input < p.inputs.size(), "internal error: the program of ", title, " takes ", p.inputs.size(),
                " arguments");
    if (params[i].kind == Parameter::Number && p.inputs[input].kind == InputSpec::ScalarInt)
      made->integers.push_back(i);
    if (epoch[input])
      made->needEpoch.push_back(i);
    if (params[i].kind == Parameter::Out || params[i].kind == Parameter::InOut)
      made->written.push_back(i);
    made->inputs.push_back(i);
  }
  TORCH_CHECK(made->inputs.size() == p.inputs.size() && made->fresh.size() == p.outputs.size(),
              "internal error: the program of ", title, " takes ", p.inputs.size(), " arguments and returns ",
              p.outputs.size());
  auto next = std::make_unique<Table>(*table.load());
  std::erase_if(next->entries, [&](const auto &entry) { return entry->matches(frame); }); // its captures have changed
  next->needsPython |= constants || !made->guards.empty() || made->check;
  next->entries.push_back(made);
  tables.push_back(std::move(next));
  table.store(tables.back().get(), std::memory_order_release);
  return made;
}

/// No output shares memory with itself or with another argument: grid points run in any order.
void KernelLauncher::checkOverlap(const Frame &frame) const {
  for (size_t i = 0; i < params.size(); ++i) {
    if (!frame.tensors[i] || params[i].kind == Parameter::In)
      continue;
    Range range = rangeOf(frame.arguments[i]);
    if (range.begin == range.end)
      continue;
    bool doubtful = !frame.tensors[i]->is_contiguous() && !isNested(frame.arguments[i]);
    for (size_t j = 0; j < params.size() && !doubtful; ++j)
      doubtful = j != i && frame.tensors[j] && (params[j].kind == Parameter::In || j > i) &&
                 range.meets(rangeOf(frame.arguments[j]));
    if (!doubtful)
      continue;
    nb::gil_scoped_acquire gil; // strided views of one memory may or may not meet: Python finds out, and says which
    nb::list tensors;
    for (size_t j = 0; j < params.size(); ++j)
      tensors.append(frame.tensors[j] ? describe(*frame.tensors[j]) : nb::none());
    kernel().attr("_refuse_overlap")(tensors);
    return;
  }
}

void KernelLauncher::run(Frame &frame, const Specialisation &found) const {
  const Program &p = found.program->program();
  bool onDevice = frame.device() != c10::kCPU;
  checkOverlap(frame);
  for (size_t i : found.integers)
    TORCH_CHECK_TYPE(!(frame.floats >> i % 64 & 1), title, ": ", params[i].name,
                     " is an integer for tensors of these dtypes, a float was given");
  for (size_t i : found.needEpoch)
    frame.arguments[i].epoch = onDevice ? writeEpoch(*frame.tensors[i]) : frozenEpoch(*frame.tensors[i]);
  c10::SmallVector<Argument, kParameters> inputs;
  for (size_t i : found.inputs)
    inputs.push_back(frame.arguments[i]);
  std::span<const Argument> arguments(inputs.data(), inputs.size());
  std::shared_ptr<const BoundSizes> sizes = found.program->bind(arguments);
  c10::SmallVector<OutputMemory, 4> memory;
  for (size_t k = 0; k < p.outputs.size(); ++k) {
    auto array = [](const std::vector<int64_t> &v) { return at::IntArrayRef(v.data(), v.size()); };
    c10::ScalarType dtype = toScalarType(p.outputs[k].dtype);
    at::IntArrayRef shape = array(sizes->outputSizes[k]), strides = array(sizes->outputStrides[k]);
    frame.fresh.push_back(
        onDevice ? at::Tensor(at::detail::empty_strided_generic(
                       shape, strides, &deviceAllocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype))
                 : at::Tensor(at::detail::empty_strided_cpu(shape, strides, dtype)));
    memory.push_back({frame.fresh.back().mutable_data_ptr()});
  }
  for (size_t i : found.written) {
    const at::Tensor &tensor = *frame.tensors[i];
    if (onDevice)
      touch(tensor);
    if (!tensor.is_inference())
      tensor.unsafeGetTensorImpl()->bump_version();
  }
  found.program->run(sizes, arguments, {memory.data(), memory.size()}, onDevice ? &currentStream() : nullptr);
}

nb::object KernelLauncher::prepare(const std::string &device, const nb::list &described) {
  Frame frame(params.size());
  frame.key.back() = device == "cpu" ? 1 : 2;
  for (size_t i = 0; i < params.size(); ++i) {
    nb::object item = described[i];
    if (params[i].kind == Parameter::Constant) {
      frame.objects[i] = item.ptr();
    } else if (params[i].kind <= Parameter::InOut && !item.is_none()) {
      std::optional<DType> dtype = dtypeFromName(nb::cast<std::string>(item[0]));
      auto layout = nb::cast<std::string>(item[1]);
      const auto *found = std::find(std::begin(kLayouts), std::end(kLayouts), layout);
      TORCH_CHECK_VALUE(dtype && found != std::end(kLayouts), "a dtype and a layout");
      frame.key[i] = codeOf(*dtype, static_cast<uint8_t>(found - kLayouts));
    }
  }
  std::shared_ptr<const Specialisation> found = find(frame);
  return (found ? found : compile(frame))->graph;
}

nb::object KernelLauncher::runFromPython(Frame &frame, PyObject *const *objects) {
  std::shared_ptr<const Specialisation> found = find(frame);
  if (!found)
    found = compile(frame);
  try {
    RECORD_FUNCTION(title, c10::ArrayRef<const c10::IValue>{});
    nb::gil_scoped_release nogil;
    translated([&] { run(frame, *found); });
  } catch (const c10::ValueError &error) { // sizes that do not go together: Python points to the parameter
    nb::list described;
    for (size_t i = 0; i < params.size(); ++i)
      described.append(objects[i] ? nb::borrow(objects[i]) : nb::none());
    return kernel().attr("_explain")(described, error.what_without_backtrace());
  }
  if (frame.fresh.empty())
    return nb::none();
  if (frame.fresh.size() == 1)
    return nb::steal(THPVariable_Wrap(std::move(frame.fresh[0])));
  nb::object results = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(frame.fresh.size())));
  for (size_t k = 0; k < frame.fresh.size(); ++k)
    PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(k), THPVariable_Wrap(std::move(frame.fresh[k])));
  return results;
}

nb::object KernelLauncher::call(nb::args args, nb::kwargs kwargs) {
  size_t count = params.size(), given = PyTuple_GET_SIZE(args.ptr());
  c10::SmallVector<PyObject *, kParameters> objects(count, nullptr);
  bool plain = given <= count && !switches::check();
  auto named = static_cast<size_t>(PyDict_GET_SIZE(kwargs.ptr()));
  for (size_t i = 0; i < count && plain; ++i) {
    const Parameter &p = params[i];
    if (i < given) {
      objects[i] = PyTuple_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i));
      plain = !p.keywordOnly;
    } else if (PyObject *value = named ? PyDict_GetItem(kwargs.ptr(), p.key.ptr()) : nullptr) {
      objects[i] = value;
      --named;
    } else {
      objects[i] = p.defaultValue.ptr();
    }
  }
  Frame frame(count);
  if (!plain || named || read(frame, objects.data()) == Reading::Unusual)
    return kernel().attr("_call_slowly")(args, kwargs);
  return runFromPython(frame, objects.data());
}

nb::object KernelLauncher::callBound(const nb::list &given) {
  size_t count = params.size();
  if (given.size() != count)
    throw nb::type_error("one object per parameter");
  c10::SmallVector<PyObject *, kParameters> objects;
  for (nb::handle object : given)
    objects.push_back(object.ptr());
  Frame frame(count);
  if (read(frame, objects.data()) == Reading::Unusual)
    return nb::borrow(Py_NotImplemented);
  return runFromPython(frame, objects.data());
}

nb::list KernelLauncher::objectsOf(c10::ArrayRef<c10::IValue> values) const {
  nb::list objects;
  for (size_t i = 0; i < values.size(); ++i) {
    const c10::IValue &value = values[i];
    nb::object object = nb::none();
    if (value.isTensor())
      object = describe(value.toTensor());
    else if (value.isBool())
      object = nb::bool_(value.toBool());
    else if (value.isInt())
      object = nb::int_(value.toInt());
    else if (value.isDouble())
      object = nb::float_(value.toDouble());
    else if (value.isString())
      object = nb::str(value.toStringRef().c_str());
    objects.append(params[i].kind == Parameter::Constant ? kernel().attr("_constant_of")(i, object) : object);
  }
  return objects;
}

std::vector<at::Tensor> KernelLauncher::callBoxed(c10::ArrayRef<c10::IValue> values) {
  size_t count = params.size();
  Frame frame(count);
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue &value = values[i];
    Argument &argument = frame.arguments[i];
    switch (params[i].kind) {
    case Parameter::In:
    case Parameter::InOut:
    case Parameter::Out:
      if (value.isNone())
        break;
      if (readTensor(frame, i, value.toTensor(), true) == Reading::Unusual) {
        nb::gil_scoped_acquire gil;
        kernel().attr("_explain")(objectsOf(values), "");
      }
      break;
    case Parameter::Int:
      argument.scalarInt = value.isBool() ? value.toBool() : value.toInt();
      TORCH_CHECK_VALUE(argument.scalarInt >= params[i].low && argument.scalarInt <= params[i].high, title, ": ",
                        params[i].name, " is ", argument.scalarInt, ", which its dtype does not hold");
      break;
    case Parameter::Bool:
      argument.scalarInt = value.toBool();
      break;
    case Parameter::Float:
    case Parameter::Number:
      if (value.isDouble()) {
        argument.scalarFloat = value.toDouble();
        frame.floats |= uint64_t(1) << i % 64;
      } else {
        argument.scalarInt = value.isBool() ? value.toBool() : value.toInt();
        argument.scalarFloat = static_cast<double>(argument.scalarInt);
      }
      break;
    case Parameter::Constant:
      break;
    }
  }
  if (switches::check()) {
    nb::gil_scoped_acquire gil;
    kernel().attr("_check_call")(objectsOf(values));
  }
  std::shared_ptr<const Specialisation> found;
  if (table.load(std::memory_order_acquire)->needsPython || constants) {
    nb::gil_scoped_acquire gil;
    nb::list objects = constants ? objectsOf(values) : nb::list();
    for (size_t i = 0; i < count; ++i)
      if (params[i].kind == Parameter::Constant)
        frame.objects[i] = PyList_GET_ITEM(objects.ptr(), static_cast<Py_ssize_t>(i));
    found = find(frame);
    if (!found)
      found = compile(frame);
  } else if (found = find(frame); !found) {
    nb::gil_scoped_acquire gil;
    found = compile(frame);
  }
  translated([&] { run(frame, *found); });
  return {frame.fresh.begin(), frame.fresh.end()};
}

} // namespace tilewright::npu
