//===- CompilerApi.h - the compiler's door: a C ABI ---------------*- C++ -*-===//
//
// The only symbols that libtilewright_compiler.so exports.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_COMPILER_ABI 1

typedef struct {
  uint8_t *data;
  size_t size;
} tw_buffer;

/// Compiles a graph description (docs/graph-format.md). `options`: JSON object: {"cpu": level, "threads": n, "debug":
/// 0..4, "dump": directory or "", "fallback": "error"|"warn"|"silent"}. Returns 0 and fills `program`
/// (Program::serialize) and `report` (JSON: phases with seconds, groups, islands with reasons, kernels built and
/// reused); or returns non-zero and fills `error` (JSON: {"kind": "unsupported"|"invalid"|"internal", "op", "source",
/// "message", "hint"}). Thread-safe. Never throws, never exits.
int tw_compiler_compile(const char *graph, size_t graph_size, const char *options, size_t options_size,
                        tw_buffer *program, tw_buffer *report, tw_buffer *error);
void tw_compiler_free(tw_buffer *buffer);
uint32_t tw_compiler_abi(void);
/// A version string that takes part in cache keys: changes whenever generated code may.
const char *tw_compiler_version(void);

#ifdef __cplusplus
}
#endif
