//===- Compare.cpp ---------------------------------------------------------===//

#include "tilewright/Interpret/Compare.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tilewright::interpret {

namespace {

uint64_t bitsAt(const std::vector<uint8_t> &bytes, size_t element, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + element * size, size);
  return bits;
}

double floatOf(DType type, uint64_t bits) {
  switch (type) {
  case DType::F64:
    return llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)).convertToDouble();
  case DType::F32:
    return llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits)).convertToFloat();
  default:
    return llvm::APFloat(type == DType::BF16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                         llvm::APInt(16, bits))
        .convertToFloat();
  }
}

int64_t integerOf(DType type, uint64_t bits) {
  unsigned unused = 64 - 8 * static_cast<unsigned>(sizeOf(type));
  return isUnsigned(type) ? static_cast<int64_t>(bits) : static_cast<int64_t>(bits << unused) >> unused;
}

/// What is allowed in any case where floats are free: a few units in the last place, one of the short types.
double lastPlaces(DType type, double magnitude) {
  switch (type) {
  case DType::F64:
    return 4 * std::max(std::ldexp(magnitude, -52), 0x1p-1074);
  case DType::F32:
    return 4 * std::max(std::ldexp(magnitude, -23), 0x1p-149);
  case DType::BF16:
    return std::max(std::ldexp(magnitude, -7), 0x1p-133);
  default:
    return std::max(std::ldexp(magnitude, -10), 0x1p-24);
  }
}

bool same(DType type, uint64_t x, uint64_t y) {
  return x == y || (isFloat(type) && std::isnan(floatOf(type, x)) && std::isnan(floatOf(type, y)));
}

/// One element whose bits differ.
struct Suspect {
  size_t buffer, element;
  DType type;
  uint64_t before, after, plain;
  double spread = 0;                          // floats: how far samples were from the plain run
  int64_t low = 0, high = 0;                  // others: between which values samples and the plain run were
  bool seenBefore = false, seenAfter = false; // among samples and the plain run

  void look(uint64_t bits) {
    seenBefore |= same(type, bits, before);
    seenAfter |= same(type, bits, after);
    if (!isFloat(type)) {
      low = std::min(low, integerOf(type, bits));
      high = std::max(high, integerOf(type, bits));
      return;
    }
    double value = floatOf(type, bits), center = floatOf(type, plain);
    if (std::isfinite(value) && std::isfinite(center))
      spread = std::max(spread, std::fabs(value - center));
  }

  double allowed() const {
    double magnitude = std::max(std::fabs(floatOf(type, before)), std::fabs(floatOf(type, after)));
    return 8 * spread + (std::isfinite(magnitude) ? lastPlaces(type, magnitude) : 0);
  }

  bool isRight() const {
    auto between = [&](uint64_t bits) { return low <= integerOf(type, bits) && integerOf(type, bits) <= high; };
    if (!isFloat(type))
      return between(before) && between(after);
    double x = floatOf(type, before), y = floatOf(type, after);
    if (!std::isfinite(x) || !std::isfinite(y))
      return seenBefore && seenAfter;
    return std::fabs(x - y) <= allowed();
  }

  std::string text(uint64_t bits) const {
    if (!isFloat(type))
      return std::to_string(integerOf(type, bits));
    char number[40];
    std::snprintf(number, sizeof number, type == DType::F64 ? "%.17g" : "%.9g", floatOf(type, bits));
    return number;
  }
};

} // namespace

Comparison compare(const Contents &before, const Contents &after, const std::map<size_t, DType> &types,
                   const Samples &samples) {
  std::vector<Suspect> suspects;
  for (auto [buffer, type] : types) {
    const size_t size = sizeOf(type), count = before[buffer].size() / size;
    if (before[buffer] == after[buffer])
      continue;
    for (size_t i = 0; i < count; ++i) {
      uint64_t x = bitsAt(before[buffer], i, size), y = bitsAt(after[buffer], i, size);
      if (same(type, x, y))
        continue;
      uint64_t plain = samples.other ? bitsAt((*samples.plain)[buffer], i, size) : x;
      Suspect suspect{buffer, i, type, x, y, plain};
      if (!isFloat(type))
        suspect.low = suspect.high = integerOf(type, plain);
      suspect.look(plain);
      suspects.push_back(suspect);
    }
  }
  Comparison result;
  result.sameBits = suspects.empty();
  uint64_t seed = 0;
  for (unsigned count : {2, 4, 18}) {
    if (suspects.empty() || !samples.other)
      break;
    for (unsigned i = 0; i < count; ++i)
      if (std::optional<Contents> other = samples.other(++seed))
        for (Suspect &suspect : suspects)
          suspect.look(bitsAt((*other)[suspect.buffer], suspect.element, sizeOf(suspect.type)));
    std::erase_if(suspects, [](const Suspect &suspect) { return suspect.isRight(); });
  }
  if (!suspects.empty()) {
    const Suspect &first = suspects.front();
    result.difference = Difference{first.buffer,
                                   first.element,
                                   suspects.size(),
                                   first.text(first.before),
                                   first.text(first.after),
                                   samples.other && isFloat(first.type) ? first.allowed() : 0};
  }
  return result;
}

} // namespace tilewright::interpret
