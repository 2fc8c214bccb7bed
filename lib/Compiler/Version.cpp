//===- Version.cpp - the version that takes part in cache keys -------------===//

#include "tilewright/Compiler/CompilerApi.h"
#include "tilewright/Compiler/CompilerVersion.h" // made by the build: lib/Runtime/CompilerVersion.cmake

const char *tw_compiler_version(void) { return TILEWRIGHT_COMPILER_VERSION; }
