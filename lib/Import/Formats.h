//===- Formats.h - PyTorch's memory formats ----------------------*- C++ -*-===//
#pragma once

#include "Builder.h"

namespace tilewright::importer {

/// Strides of a tensor like `like` in a memory format as PyTorch prints it; empty means preserve. nullopt: contiguous.
std::optional<Sizes> formatStrides(Builder &b, const Tensor &like, const std::string &format);

/// channels_last strides for `sizes` where `self` has them; else nothing.
std::optional<Sizes> channelsLast(Builder &b, const Tensor &self, const Sizes &sizes);

} // namespace tilewright::importer
