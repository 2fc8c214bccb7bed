//===- Signature.cpp - what of a call decides its code --------------------===//
#include "Signature.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tilewright::ops {

namespace {

template <class T> void append(std::string &key, const T &value) {
  key.append(reinterpret_cast<const char *>(&value), sizeof(T));
}
void appendText(std::string &key, std::string_view text) {
  append(key, static_cast<uint32_t>(text.size()));
  key += text;
}

/// Memory that is kept between calls: a signature is made for each eager call. One signature per thread at a time.
template <class T, int which = 0> T &reused() {
  static thread_local T storage;
  storage.clear();
  return storage;
}

/// Numbers that often have code of their own (x*x for pow(x, 2), a plain sum for alpha 1), and are few.
bool isSpecial(const Number &n) {
  if (const auto *f = std::get_if<double>(&n.value))
    return *f == 0 ? !std::signbit(*f) : *f == 1 || *f == -1 || *f == 2 || *f == 0.5;
  if (const auto *i = std::get_if<int64_t>(&n.value))
    return *i >= -1 && *i <= 2;
  return true;
}

constexpr uint8_t kMaxSymbols = 250;

} // namespace

Signature::Signature(const OpCall &call, bool inlineNumbers)
    : call(call), inlineNumbers(inlineNumbers), text(reused<std::string>()), list(reused<std::vector<InputClass>>()),
      written(reused<std::vector<uint32_t>, 0>()), refs(reused<std::vector<uint32_t>, 1>()),
      known(reused<std::vector<Known>>()) {
  walk();
}

static bool isSame(const TensorArgument &a, const TensorArgument &b) {
  return a.data == b.data && a.dtype == b.dtype && std::ranges::equal(a.sizes, b.sizes) &&
         std::ranges::equal(a.strides, b.strides);
}

void Signature::walk() {
  appendText(text, call.op);
  text += call.device == "npu" ? 'n' : 'c';
  text += static_cast<char>(call.results);
  for (const OpArgument &a : call.args)
    argument(a);
  text += '|';
  for (const NamedArgument &a : call.kwargs) {
    appendText(text, a.name);
    argument(a.value);
  }
  text += '|';
  for (const Mutation &m : call.mutations) {
    tensor(m.destination);
    written.push_back(refs.back());
    append(text, m.result);
    if (m.result >= call.results)
      refusal = "a mutation refers to a result that the operator does not have";
  }
  if (!refusal && !written.empty() && overlaps())
    refusal = "a tensor that is written overlaps another one";
}

static std::pair<uintptr_t, uintptr_t> extentOf(const TensorArgument &t) {
  auto begin = reinterpret_cast<uintptr_t>(t.data);
  uint64_t last = 0;
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    if (t.sizes[d] == 0)
      return {begin, begin};
    last += static_cast<uint64_t>(t.sizes[d] - 1) * static_cast<uint64_t>(t.strides[d]);
  }
  return {begin, begin + (last + 1) * sizeOf(t.dtype)};
}

/// Results are written where they are computed, so a written tensor must share no memory with another input, but
/// for being the same input; and no two of its elements may be one.
bool Signature::overlaps() const {
  for (uint32_t w : written) {
    const TensorClass &target = list[w].tensor;
    for (unsigned d = 0; d < target.rank; ++d)
      if (target.tensor->strides[d] == 0 && target.tensor->sizes[d] > 1)
        return true;
    auto [begin, end] = extentOf(*target.tensor);
    for (uint32_t i = 0; i < list.size(); ++i) {
      if (i == w || list[i].kind != InputClass::Tensor)
        continue;
      auto [otherBegin, otherEnd] = extentOf(*list[i].tensor.tensor);
      if (begin < otherEnd && otherBegin < end)
        return true;
    }
  }
  return false;
}

uint8_t Signature::newSymbol() {
  if (symbolCount >= kMaxSymbols) {
    refusal = "it has more than 250 different sizes";
    return 0;
  }
  return static_cast<uint8_t>(symbolCount++);
}

InputClass &Signature::addInput() {
  refs.push_back(static_cast<uint32_t>(list.size()));
  return list.emplace_back();
}

std::optional<uint32_t> Signature::findSame(const TensorArgument &t) const {
  for (uint32_t i = 0; i < list.size(); ++i)
    if (list[i].kind == InputClass::Tensor && isSame(*list[i].tensor.tensor, t))
      return i;
  return std::nullopt;
}

void Signature::tensor(const TensorArgument &t) {
  // Where something is written, the same memory with the same layout is the same input: x.add_(y) writes what it reads.
  if (!call.mutations.empty())
    if (std::optional<uint32_t> same = findSame(t)) {
      text += 'R';
      append(text, *same);
      refs.push_back(*same);
      return;
    }
  TensorClass &c = addInput().tensor;
  c.tensor = &t;
  if (t.sizes.size() > kMaxRank)
    refusal = "a tensor has more than 16 dimensions";
  else if (t.strides.size() != t.sizes.size())
    refusal = "a tensor lacks strides";
  else
    classify(t, c);
}

void Signature::classify(const TensorArgument &t, TensorClass &c) {
  c.rank = static_cast<uint8_t>(t.sizes.size());
  text += 'T';
  text += static_cast<char>(t.dtype);
  text += static_cast<char>(c.rank | (t.parameter ? 0x80 : 0));

  for (unsigned d = 0; d < c.rank; ++d) {
    int64_t n = t.sizes[d];
    if (n < 2) {
      c.sizes[d] = {Extent::Constant, static_cast<uint8_t>(n)};
    } else {
      unsigned fromLast = c.rank - d;
      auto it = std::find_if(known.begin(), known.end(),
                             [&](const Known &k) { return k.fromLast == fromLast && k.value == n; });
      if (it == known.end()) {
        known.push_back({fromLast, n, newSymbol()});
        it = known.end() - 1;
      }
      c.sizes[d] = {Extent::Symbol, it->symbol};
    }
    append(text, c.sizes[d]);
  }

  // Strides from the inside out. Dimensions of size 1 are never stepped over: they get what a dense tensor would have.
  uint8_t order[kMaxRank];
  unsigned count = 0;
  for (unsigned d = c.rank; d-- > 0;) {
    if (t.sizes[d] == 1)
      continue;
    unsigned at = count++;
    while (at > 0 && t.strides[order[at - 1]] > t.strides[d]) {
      order[at] = order[at - 1];
      --at;
    }
    order[at] = static_cast<uint8_t>(d);
  }
  int inner = -1; // the next inner dimension that is stepped over
  for (unsigned k = 0; k < count; ++k) {
    unsigned d = order[k];
    int64_t stride = t.strides[d];
    if (stride == 0)
      c.strides[d] = {Extent::Constant, 0};
    else if (inner >= 0 && stride == t.strides[inner] * t.sizes[inner])
      c.strides[d] = {Extent::Dense, static_cast<uint8_t>(inner)};
    else if (stride == 1)
      c.strides[d] = {Extent::Constant, 1};
    else
      c.strides[d] = {Extent::Symbol, newSymbol()};
    if (stride != 0)
      inner = static_cast<int>(d);
    // The order itself: which layout results get depends on it.
    text += static_cast<char>(d);
    append(text, c.strides[d]);
  }
  for (unsigned d = c.rank; d-- > 0;)
    if (t.sizes[d] == 1)
      c.strides[d] = d + 1 < c.rank ? Extent{Extent::Dense, static_cast<uint8_t>(d + 1)} : Extent{Extent::Constant, 1};
}

bool Signature::isRunTime(const Number &n) const { return !inlineNumbers && !isSpecial(n); }

void Signature::number(const Number &n) {
  const auto *f = std::get_if<double>(&n.value);
  const auto *i = std::get_if<int64_t>(&n.value);
  if (const auto *b = std::get_if<bool>(&n.value)) {
    text += 'b';
    append(text, *b);
    return;
  }
  hasNumbers |= !isSpecial(n);
  if (!isRunTime(n)) {
    text += f ? 'f' : 'i';
    f ? append(text, *f) : append(text, *i);
    return;
  }
  text += f ? 'F' : 'I';
  InputClass &input = addInput();
  input.kind = f ? InputClass::Float : InputClass::Int;
  if (f)
    input.scalarFloat = *f;
  else
    input.scalarInt = *i;
}

void Signature::size(int64_t value) {
  if (value < 2) { // 0, 1, and -1 for "the rest"
    text += 'i';
    append(text, value);
    return;
  }
  text += 'S';
  InputClass &input = addInput();
  input.kind = InputClass::SymbolInt;
  input.scalarInt = value;
  input.symbol = newSymbol();
}

void Signature::argument(const OpArgument &a) {
  auto items = [&](const auto &values, char tag) {
    text += tag;
    append(text, static_cast<uint32_t>(values.size()));
    for (const auto &v : values)
      append(text, v);
  };
  switch (a.value.index()) {
  case 0:
    text += '-';
    break;
  case 1:
    tensor(std::get<TensorArgument>(a.value));
    break;
  case 2:
    number(std::get<Number>(a.value));
    break;
  case 3:
    size(std::get<Size>(a.value).value);
    break;
  case 4:
    text += 'b';
    append(text, std::get<bool>(a.value));
    break;
  case 5:
    text += 'i';
    append(text, std::get<int64_t>(a.value));
    break;
  case 6:
    text += 'f';
    append(text, std::get<double>(a.value));
    break;
  case 7:
    text += 's';
    appendText(text, std::get<std::string_view>(a.value));
    break;
  case 8:
    text += 'd';
    append(text, std::get<DType>(a.value));
    break;
  case 9:
    text += 'o';
    appendText(text, std::get<Opaque>(a.value).kind);
    appendText(text, std::get<Opaque>(a.value).text);
    break;
  case 10: {
    auto tensors = std::get<TensorList>(a.value);
    text += 'L';
    append(text, static_cast<uint32_t>(tensors.size()));
    for (const TensorArgument *t : tensors)
      if (t)
        tensor(*t);
      else
        text += '-';
    break;
  }
  case 11:
    items(std::get<IntList>(a.value), 'l');
    break;
  case 12: {
    auto values = std::get<SizeList>(a.value).values;
    text += 'Z';
    append(text, static_cast<uint32_t>(values.size()));
    for (int64_t v : values)
      size(v);
    break;
  }
  case 13:
    items(std::get<FloatList>(a.value), 'm');
    break;
  case 14:
    items(std::get<BoolList>(a.value), 'n');
    break;
  }
}

} // namespace tilewright::ops
