//===- CodeRegistry.cpp - which code lies where ---------------------------===//
#include "CodeRegistry.h"

#include "Fork.h"
#include "tilewright/Support/Switches.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <ucontext.h>
#include <unistd.h>

//===----------------------------------------------------------------------===//
// GDB's JIT interface (https://sourceware.org/gdb/current/onlinedocs/gdb/JIT-Interface.html). The names are GDB's.
//===----------------------------------------------------------------------===//

extern "C" {
struct jit_code_entry {
  jit_code_entry *next_entry, *prev_entry;
  const char *symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {
  uint32_t version, action_flag;
  jit_code_entry *relevant_entry, *first_entry;
};
[[gnu::visibility("default"), gnu::used]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
[[gnu::visibility("default"), gnu::used, gnu::noinline]] void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
}

namespace tilewright {

/// Regions stay linked for ever and are used again, so that the fault handler can walk the list without a lock.
struct CodeRegion {
  std::atomic<uintptr_t> begin{0}, end{0}; // equal: unused
  char name[128] = {};
  std::vector<uint8_t> object; // for debuggers
  jit_code_entry debug = {};
  CodeRegion *next = nullptr;
};

static std::atomic<CodeRegion *> regions{nullptr};

/// Held by writers only. Nothing else is locked inside, hence the last rank.
struct RegistryLock {
  std::mutex mutex;
  ForkHooks fork{ForkHooks::Rank::Pool, [this] { mutex.lock(); }, [this] { mutex.unlock(); },
                 [this] { mutex.unlock(); }};
};
static std::mutex &registryMutex() {
  static auto *lock = new RegistryLock;
  return lock->mutex;
}

static void tellDebugger(CodeRegion &region, bool add) {
  jit_code_entry &entry = region.debug;
  if (add) {
    entry = {__jit_debug_descriptor.first_entry, nullptr, reinterpret_cast<const char *>(region.object.data()),
             region.object.size()};
    if (entry.next_entry)
      entry.next_entry->prev_entry = &entry;
    __jit_debug_descriptor.first_entry = &entry;
  } else {
    (entry.prev_entry ? entry.prev_entry->next_entry : __jit_debug_descriptor.first_entry) = entry.next_entry;
    if (entry.next_entry)
      entry.next_entry->prev_entry = entry.prev_entry;
  }
  __jit_debug_descriptor.relevant_entry = &entry;
  __jit_debug_descriptor.action_flag = add ? 1 : 2; // JIT_REGISTER_FN, JIT_UNREGISTER_FN
  __jit_debug_register_code();
}

/// The format is perf's (tools/perf/Documentation/jit-interface.txt): START SIZE NAME, in hexadecimal.
static void tellPerf(const std::string &name, std::span<const uint8_t> code) {
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  if (std::FILE *map = std::fopen(path.c_str(), "a")) {
    std::fprintf(map, "%lx %zx tilewright:%s\n", reinterpret_cast<unsigned long>(code.data()), code.size(),
                 name.c_str());
    std::fclose(map);
  } else {
    std::perror(("tilewright: cannot write " + path).c_str());
  }
}

CodeRegion *registerCode(const std::string &name, std::span<const uint8_t> code, std::span<const uint8_t> object) {
  std::lock_guard lock(registryMutex());
  CodeRegion *region = regions.load(std::memory_order_acquire);
  while (region && region->begin.load(std::memory_order_relaxed) != region->end.load(std::memory_order_relaxed))
    region = region->next;
  bool fresh = region == nullptr;
  if (fresh)
    region = new CodeRegion;
  std::snprintf(region->name, sizeof(region->name), "%s", name.c_str());
  auto begin = reinterpret_cast<uintptr_t>(code.data());
  region->end.store(begin + std::max<size_t>(code.size(), 1), std::memory_order_relaxed);
  region->begin.store(begin, std::memory_order_release);
  if (fresh) {
    region->next = regions.load(std::memory_order_relaxed);
    regions.store(region, std::memory_order_release);
  }
  if (switches::perf())
    tellPerf(name, code);
  if (switches::gdb()) {
    region->object.assign(object.begin(), object.end());
    tellDebugger(*region, true);
  }
  return region;
}

void unregisterCode(CodeRegion *region) {
  std::lock_guard lock(registryMutex());
  if (!region->object.empty()) {
    tellDebugger(*region, false);
    region->object = {};
  }
  region->end.store(0, std::memory_order_relaxed);
  region->begin.store(0, std::memory_order_release);
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

static thread_local constinit const RunningKernel *running = nullptr;

RunningKernel::RunningKernel(const char *program, const char *kernel, const char *source)
    : program(program), kernel(kernel), source(source), outer(running) {
  running = this;
}
RunningKernel::~RunningKernel() { running = outer; }

namespace {

/// A line put together without anything that a signal handler may not call.
struct Line {
  char text[1024];
  size_t size = 0;
  Line &operator<<(const char *s) {
    for (; s && *s && size < sizeof(text) - 1; ++s)
      text[size++] = *s;
    return *this;
  }
  Line &operator<<(uintptr_t value) {
    char digits[16];
    int n = 0;
    do
      digits[n++] = "0123456789abcdef"[value & 15];
    while (value >>= 4);
    *this << "0x";
    while (n && size < sizeof(text) - 1)
      text[size++] = digits[--n];
    return *this;
  }
  void print() {
    text[size++] = '\n';
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, size);
  }
};

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
struct sigaction previous[std::size(kSignals)];

const char *nameOfSignal(int signal) {
  return signal == SIGSEGV ? "SIGSEGV" : signal == SIGBUS ? "SIGBUS" : signal == SIGILL ? "SIGILL" : "SIGFPE";
}

const CodeRegion *regionOf(uintptr_t pc) {
  for (const CodeRegion *r = regions.load(std::memory_order_acquire); r; r = r->next)
    if (pc >= r->begin.load(std::memory_order_acquire) && pc < r->end.load(std::memory_order_relaxed))
      return r;
  return nullptr;
}

void onFault(int signal, siginfo_t *info, void *context) {
  auto pc = static_cast<uintptr_t>(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
  const CodeRegion *region = regionOf(pc);
  // memset and libm are called from kernels too: then the thread still says what it runs.
  if (region || running) {
    Line line;
    line << "tilewright: " << nameOfSignal(signal) << " at address " << reinterpret_cast<uintptr_t>(info->si_addr);
    if (region)
      line << " in compiled code " << region->name << "+" << pc - region->begin.load(std::memory_order_relaxed);
    else
      line << " in a function called by compiled code";
    line.print();
    if (const RunningKernel *kernel = running) {
      Line where;
      where << "tilewright: kernel " << kernel->kernel << " of program " << kernel->program
            << ", source: " << (kernel->source && *kernel->source ? kernel->source : "unknown");
      where.print();
    }
  }
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] != signal)
      continue;
    const struct sigaction &old = previous[i];
    if (old.sa_flags & SA_SIGINFO) {
      old.sa_sigaction(signal, info, context);
    } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
      old.sa_handler(signal);
    } else {
      // Back to the default; on return the instruction faults again and the process ends with this signal.
      struct sigaction standard = {};
      standard.sa_handler = SIG_DFL;
      sigaction(signal, &standard, nullptr);
      if (info->si_code <= 0) // sent by somebody: it will not come again by itself
        raise(signal);
    }
  }
}

} // namespace

void prepareCodeRegistry() {
  registryMutex();
  static std::once_flag once;
  bool wanted = switches::debugLevel() >= 1 || switches::alloc() == switches::AllocatorKind::Guard ||
                switches::perf() || switches::gdb();
  if (!wanted)
    return;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = onFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &action, &previous[i]);
  });
}

} // namespace tilewright
