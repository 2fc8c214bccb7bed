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
    if (step.role == KernelStep::Plain)
      return false;
    Packing state = packed[step.attachedBuffer];
    return step.role == KernelStep::Packs    ? state != InThisCall
           : step.role == KernelStep::Packed ? state == Spared
                                             : state != Spared;
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
  struct PackedHere {
    PackedKey key;
    std::shared_ptr<PackedBuffer> buffer;
  };
  enum Packing : uint8_t { InThisCall, Kept, Spared };
  std::vector<void *> pointers; // per buffer
  std::vector<Scalar> scalars;  // per input, if there are scalars
  std::vector<Packing> packed;  // per buffer: what is with an Attached one; empty if there is none
  std::vector<std::pair<const void *, uint64_t>> attachedInputs; // per Attached buffer: address and epoch of its weight
  std::vector<std::shared_ptr<PackedBuffer>> inUse;              // kept copies
  std::vector<PackedHere> packing;                               // copies that this call makes
};

} // namespace tilewright
