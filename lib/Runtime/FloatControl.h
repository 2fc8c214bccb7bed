//===- FloatControl.h - the caller's floating-point control state -*- C++ -*-===//
//
// Programs run under the rounding mode and denormal flushing of the thread that launched them, wherever they run.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <xmmintrin.h>

namespace tilewright {

/// The control bits of MXCSR (DAZ, exception masks, rounding, FTZ); the sticky exception flags stay with their thread.
inline uint32_t floatControl() { return _mm_getcsr() & ~0x3fu; }

/// Runs a scope under a control state and gives the thread its own back. ldmxcsr is only issued where they differ: it
/// costs tens of cycles on some machines, and they hardly ever do.
class FloatControlScope {
public:
  explicit FloatControlScope(uint32_t control) : own(_mm_getcsr()) {
    changed = (own & ~0x3fu) != control;
    if (changed)
      _mm_setcsr(control);
  }
  ~FloatControlScope() {
    // A task that changed the state itself must not leave it to the next one.
    if (changed || (_mm_getcsr() & ~0x3fu) != (own & ~0x3fu))
      _mm_setcsr(own);
  }
  FloatControlScope(const FloatControlScope &) = delete;
  FloatControlScope &operator=(const FloatControlScope &) = delete;

private:
  uint32_t own;
  bool changed;
};

} // namespace tilewright
