//===- ProgramCache.cpp - compiled programs, in memory and on disk --------===//
#include "tilewright/Runtime/ProgramCache.h"

#include "DiskCache.h"
#include "Fork.h"
#include "tilewright/Support/Switches.h"

#include <condition_variable>
#include <cstdio>
#include <list>
#include <new>
#include <unordered_map>
#include <utility>

namespace tilewright {

struct ProgramCache::Impl {
  explicit Impl(Settings given) : settings(std::move(given)) {
    if (!settings.warn)
      settings.warn = [](const std::string &text) { std::fprintf(stderr, "tilewright: warning: %s\n", text.c_str()); };
    if (settings.directory)
      disk.emplace(*settings.directory, settings.limitBytes, settings.warn);
  }

  struct Slot {
    std::string key;
    CachedProgram program;
  };
  using Slots = std::list<Slot>;

  /// A compilation that other threads wait for.
  struct Flight {
    bool done = false;
    std::optional<CachedProgram> program;
    std::exception_ptr error;
  };

  std::optional<CachedProgram> findInMemory(const std::string &key) {
    auto it = byKey.find(key);
    if (it == byKey.end())
      return std::nullopt;
    slots.splice(slots.begin(), slots, it->second);
    CachedProgram program = it->second->program;
    program.origin = CachedProgram::Memory;
    return program;
  }

  /// Returns what is beyond the limit, to be destroyed without the lock: an Executable gives memory back.
  Slots keepInMemory(const std::string &key, const CachedProgram &program) {
    Slots surplus;
    if (auto it = byKey.find(key); it != byKey.end()) {
      surplus.push_front({key, std::exchange(it->second->program, program)});
      return surplus;
    }
    slots.push_front({key, program});
    byKey.emplace(slots.front().key, slots.begin());
    while (slots.size() > settings.limitPrograms) {
      byKey.erase(slots.back().key);
      surplus.splice(surplus.begin(), slots, std::prev(slots.end()));
    }
    return surplus;
  }

  CachedProgram make(const std::string &key, std::string_view graph, const CompileOptions &options, bool look,
                     Compiler &compiler);
  CachedProgram obtain(const std::string &key, std::string_view graph, const CompileOptions &options, bool look,
                       Compiler &compiler);

  Settings settings;
  std::optional<DiskCache> disk;
  mutable std::mutex mutex;
  std::condition_variable landed;
  // Guarded by mutex:
  Slots slots; // the last used first
  std::unordered_map<std::string_view, Slots::iterator> byKey;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights;
  ProgramCacheStats counts;
  // In a child of fork() nobody compiles what others wait for.
  ForkHooks fork{ForkHooks::Rank::Device, [this] { mutex.lock(); }, [this] { mutex.unlock(); },
                 [this] {
                   flights.clear();
                   new (&landed) std::condition_variable;
                   mutex.unlock();
                 }};
};

ProgramCache::ProgramCache(Settings settings) : impl(std::make_unique<Impl>(std::move(settings))) {}
ProgramCache::~ProgramCache() = default;

ProgramCache &ProgramCache::instance() {
  static auto *cache = [] {
    Settings settings;
    settings.directory = switches::cache();
    return new ProgramCache(std::move(settings));
  }();
  return *cache;
}

static std::string keyOf(std::string_view graph, const CompileOptions &options, const std::string &version) {
  std::string key = "program " + std::to_string(Program::kVersion) + "\ncompiler " + version + "\ncpu " + options.cpu +
                    "\nthreads " + std::to_string(options.threads) + "\nislands " +
                    (options.fallback == "error" ? "no" : "yes") + "\n";
  key += graph;
  return key;
}

CachedProgram ProgramCache::Impl::make(const std::string &key, std::string_view graph, const CompileOptions &options,
                                       bool look, Compiler &compiler) {
  if (look && disk) {
    if (auto entry = disk->read(key)) {
      std::optional<Program> program;
      try {
        program = Program::deserialize(entry->program);
      } catch (const std::runtime_error &) {
        disk->remove(key); // whole, but not a program: made again below
      }
      if (program)
        return {CachedProgram::Disk, Executable::load(std::move(*program)),
                std::make_shared<const std::string>(std::move(entry->report))};
    }
  }
  CompileResult result = compiler.compile(graph, options.json());
  auto executable = Executable::load(Program::deserialize(result.program));
  if (disk)
    disk->write(key, result.report, result.program);
  return {CachedProgram::Compiled, std::move(executable),
          std::make_shared<const std::string>(std::move(result.report))};
}

CachedProgram ProgramCache::Impl::obtain(const std::string &key, std::string_view graph, const CompileOptions &options,
                                         bool look, Compiler &compiler) {
  std::shared_ptr<Flight> flight;
  {
    std::unique_lock lock(mutex);
    if (look)
      if (auto program = findInMemory(key)) {
        ++counts.memoryHits;
        return *program;
      }
    auto &current = flights[key];
    if (current && look) {
      auto other = current;
      landed.wait(lock, [&] { return other->done; });
      if (other->error)
        std::rethrow_exception(other->error);
      ++counts.memoryHits;
      CachedProgram program = *other->program;
      program.origin = CachedProgram::Memory;
      return program;
    }
    flight = current = std::make_shared<Flight>();
  }

  try {
    flight->program = make(key, graph, options, look, compiler);
  } catch (...) {
    flight->error = std::current_exception();
  }
  Slots surplus;
  {
    std::lock_guard lock(mutex);
    flight->done = true;
    if (auto it = flights.find(key); it != flights.end() && it->second == flight)
      flights.erase(it);
    if (flight->program) {
      ++(flight->program->origin == CachedProgram::Disk ? counts.diskHits : counts.compiled);
      surplus = keepInMemory(key, *flight->program);
    }
  }
  landed.notify_all();
  if (flight->error)
    std::rethrow_exception(flight->error);
  return *flight->program;
}

CachedProgram ProgramCache::get(std::string_view graph, const CompileOptions &options, Compiler &compiler) {
  bool look = options.debug < 2 && options.dump.empty();
  return impl->obtain(keyOf(graph, options, impl->settings.version), graph, options, look, compiler);
}

ProgramCacheStats ProgramCache::stats() const {
  std::lock_guard lock(impl->mutex);
  ProgramCacheStats stats = impl->counts;
  if (impl->disk) {
    stats.written = impl->disk->written;
    stats.evicted = impl->disk->evicted;
    stats.damaged = impl->disk->damaged;
  }
  return stats;
}

void ProgramCache::clearMemory() {
  Impl::Slots dropped; // destroyed without the lock
  std::lock_guard lock(impl->mutex);
  impl->byKey.clear();
  dropped.swap(impl->slots);
}

} // namespace tilewright
