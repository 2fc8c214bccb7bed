//===- Activations.h - formulas that several families share ------*- C++ -*-===//
#pragma once

#include "Ex.h"

namespace tilewright::importer {

Ex sigmoid(Ex x);
Ex logSigmoid(Ex x);
Ex softplus(Ex x, Ex beta, Ex threshold);

} // namespace tilewright::importer
