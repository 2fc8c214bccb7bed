//===- ProgramCache.h - compiled programs, in memory and on disk -*- C++ -*-===//
//
// Key: the text of the graph, what decides the code (CPU level, threads, fallback), the version of the compiler and of
// Program's format. An entry holds its whole key, so a collision of hashes is a miss, never a wrong program.
//
// On disk: one file per program in DIRECTORY/programs (mode 0700, ours, not writable by others; else it is not used),
// checksummed, written beside and renamed. So readers see whole files, whatever writes at the same time or dies doing
// so. A damaged entry is removed and made again. Where nothing can be written (full disk, read-only home) there is no
// cache, and one warning. Beyond the limit the entries that were not used for longest go.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/CompilerLoader.h"
#include "tilewright/Runtime/Executable.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

struct CachedProgram {
  enum Origin : uint8_t { Memory, Disk, Compiled } origin;
  std::shared_ptr<Executable> executable;
  std::shared_ptr<const std::string> report; // of its compilation; JSON
};

struct ProgramCacheStats {
  uint64_t memoryHits = 0, diskHits = 0, compiled = 0;
  uint64_t written = 0, evicted = 0, damaged = 0;
};

class ProgramCache {
public:
  struct Settings {
    std::optional<std::string> directory;    // nothing: in memory only
    uint64_t limitBytes = uint64_t(2) << 30; // on disk
    size_t limitPrograms = 1024;             // in memory
    std::string version = std::string(compilerVersion());
    std::function<void(const std::string &)> warn; // default: one line to stderr
  };
  /// Touches no file before the first program is asked for.
  explicit ProgramCache(Settings settings);
  ~ProgramCache();
  ProgramCache(const ProgramCache &) = delete;
  ProgramCache &operator=(const ProgramCache &) = delete;

  /// The process's cache: TILEWRIGHT_CACHE.
  static ProgramCache &instance();

  /// Finds the program or compiles it. Thread-safe; threads that ask for the same program at once get one compilation.
  /// With options.debug >= 2 or a dump directory it is always compiled, since that is what one wants to see. Throws
  /// what `compiler` and Executable::load throw; nothing that failed is kept.
  CachedProgram get(std::string_view graph, const CompileOptions &options, Compiler &compiler = nativeCompiler());

  ProgramCacheStats stats() const;
  /// Forgets the programs in memory (those in use live on). The disk stays.
  void clearMemory();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tilewright
