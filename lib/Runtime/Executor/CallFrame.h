//===- CallFrame.h - one call of a program -----------------------*- C++ -*-===//
#pragma once

#include "Bound.h"
#include "PackedCache.h"
#include "TemporaryMemory.h"

#include <atomic>
#include <memory>
#include <vector>

namespace tilewright {

/// Pointers and scalars of a call. It lives until the last step has run.
class CallFrame {
public:
  CallFrame(std::shared_ptr<const Bound> bound, std::span<const Argument> arguments,
            std::span<const OutputMemory> outputs);

  /// Allocates temporaries and finds or allocates packed weights, whose prologue steps are then skipped or not.
  void allocate(TemporaryBlocks &blocks, Stream *stream, const std::weak_ptr<const void> &user);
  /// Publishes what this call packs (see PackedCache.h).
  void publish(Stream *stream, const std::weak_ptr<const void> &user);
  /// What this call packs is not valid.
  void abandon();

  void *pointer(uint32_t buffer) const { return pointers[buffer]; }
  bool isSkipped(const KernelStep &step) const {
    return step.attachedBuffer >= 0 && valid[static_cast<size_t>(step.attachedBuffer)];
  }

  const std::shared_ptr<const Bound> bound;
  std::shared_ptr<const void> executable; // keeps code and constants, where the frame outlives the call
  std::atomic<bool> failed{false};        // an earlier task of the call ended with an error: the rest is skipped

private:
  void setPointers(std::span<const Argument> arguments, std::span<const OutputMemory> outputs);

  union Scalar {
    double f;
    int64_t i;
  };
  struct Packing {
    PackedKey key;
    std::shared_ptr<PackedBuffer> buffer;
  };
  std::vector<void *> pointers; // per buffer
  std::vector<Scalar> scalars;  // per input, if there are scalars
  std::vector<bool> valid;      // per buffer: Attached and filled; empty if there is none
  std::vector<std::pair<const void *, uint64_t>> attachedInputs; // per Attached buffer: address and epoch of its weight
  std::vector<std::shared_ptr<PackedBuffer>> inUse;              // kept copies
  std::vector<Packing> packing;                                  // copies that this call makes
};

} // namespace tilewright
