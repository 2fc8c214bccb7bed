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

#define TW_COMPILER_ABI 2

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
/// Compiles a kernel program (docs/kernel-programs.md) and runs it after every pass, and as machine code, on copies of
/// its arguments. `options` is as above, with "arguments": one object per parameter, {"sizes", "strides"} of a tensor,
/// {"int"} or {"float"} of a scalar; "machine": false leaves the machine code out; and, for tests, "fault": {"after":
/// pass, "number": n}. `arguments` has the tensors' first elements, `expected` memory of the same layout after a right
/// run; both have one pointer per parameter, null where there is nothing. `report`: JSON, see docs/kernel-programs.md.
int tw_compiler_verify(const char *program, size_t program_size, const char *options, size_t options_size,
                       const void *const *arguments, const void *const *expected, tw_buffer *report, tw_buffer *error);
void tw_compiler_free(tw_buffer *buffer);
uint32_t tw_compiler_abi(void);
/// A version string that takes part in cache keys: changes whenever generated code may.
const char *tw_compiler_version(void);

#ifdef __cplusplus
}
#endif
