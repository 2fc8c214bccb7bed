//===- Hash.h - content hashes for checksums and cache keys ------*- C++ -*-===//
//
// Not cryptographic: it finds damage and tells contents apart; whoever must be sure compares the contents too.
// The functions are part of file formats: a change of theirs needs a new format version.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tilewright {

/// The finaliser of splitmix64: each input bit changes each output bit with probability of about one half.
constexpr uint64_t mixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// 64 bits of content hash; 8 bytes a step, so that checksums of megabytes cost less than reading them.
inline uint64_t hash64(const void *data, size_t size, uint64_t seed = 0) {
  const auto *bytes = static_cast<const unsigned char *>(data);
  uint64_t h = mixBits(seed + 0x9e3779b97f4a7c15u) ^ size;
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    h = std::rotl(h ^ (word * 0x9fb21c651e98df25u), 29) * 0xd6e8feb86659fd93u;
  }
  uint64_t tail = 0;
  if (i < size)
    std::memcpy(&tail, bytes + i, size - i);
  return mixBits(std::rotl(h ^ (tail * 0x9fb21c651e98df25u), 29) * 0xd6e8feb86659fd93u);
}
inline uint64_t hash64(std::span<const uint8_t> bytes, uint64_t seed = 0) {
  return hash64(bytes.data(), bytes.size(), seed);
}
inline uint64_t hash64(std::string_view text, uint64_t seed = 0) { return hash64(text.data(), text.size(), seed); }

/// Two hashes of different seeds, for names of files and keys of tables.
struct Digest {
  uint64_t high = 0, low = 0;
  bool operator==(const Digest &) const = default;
};
inline Digest digestOf(const void *data, size_t size) { return {hash64(data, size, 1), hash64(data, size, 2)}; }

struct DigestHash {
  size_t operator()(const Digest &d) const { return d.low; }
};

} // namespace tilewright
