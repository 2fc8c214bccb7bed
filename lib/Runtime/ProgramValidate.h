//===- ProgramValidate.h - what must hold before a program is used -*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/Program.h"

namespace tilewright {

/// Throws std::runtime_error that names the place unless every index is in range, every list that belongs to another
/// has its length, every symbol is bound, and every temporary buffer is used within its lifetime only.
void validate(const Program &program);

} // namespace tilewright
