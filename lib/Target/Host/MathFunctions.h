//===- MathFunctions.h - elementary functions as formulas ----------*- C++ -*-===//
#pragma once

#include "MathEmitter.h"

namespace tilewright::host {

} // namespace tilewright::host
