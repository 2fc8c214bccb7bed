//===- Plan.h - a program before there is code for it --------------*- C++ -*-===//
#pragma once

#include "tilewright/Compiler/Pipeline.h"
#include "tilewright/Transforms/Fusion.h"
#include "tilewright/Transforms/Steps.h"

#include <functional>
#include <memory>

namespace tilewright::compiler {

/// Steps point into the module, the groups and the target, so that a plan stays where it is.
struct Plan {
  loop::Module module;
  loop::FusionResult fused;
  loop::TileTarget target;
  std::vector<loop::PlannedStep> steps;
  std::string structured; // of a kernel program: why it is not raised to loop nests
  bool isKernel = false;
};

/// Parses, imports, fuses and plans a graph description or kernel program; `mark` is told the end of each phase. Throws
/// as compileGraph does.
std::unique_ptr<Plan> makePlan(std::string_view text, const CompileOptions &options,
                               const std::function<void(const char *)> &mark);

} // namespace tilewright::compiler
