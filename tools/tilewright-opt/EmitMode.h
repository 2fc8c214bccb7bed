//===- EmitMode.h - compile a kernel to the end -------------------*- C++ -*-===//
#pragma once

namespace tilewright {

/// `--emit=asm|object|time FILE --level=LEVEL -o FILE`: the exit status.
int emitMain(int argc, char **argv);

} // namespace tilewright
