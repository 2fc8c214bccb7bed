#include "tilewright/Runtime/ProgramCache.h"
#include "tilewright/Support/Switches.h"

#include "CompileC.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

using namespace tilewright;
using namespace tilewright::test;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

/// "Compiles" a graph's text to a program of that name, and counts.
class FakeCompiler : public Compiler {
public:
  CompileResult compile(std::string_view graph, std::string_view options) override {
    ++count;
    if (delay)
      std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    if (graph == "wrong")
      throw CompileError("unsupported", "aten.foo", "model.py:3", "no such thing", "do without");
    Program program;
    program.name = std::string(graph);
    program.constants = {{std::vector<uint8_t>(constantBytes, 7)}};
    return {program.serialize(), "report of " + std::string(graph)};
  }
  std::atomic<int> count{0};
  int delay = 0;
  size_t constantBytes = 1000;
};

struct Fixture : testing::Test {
  TemporaryDirectory folder;
  FakeCompiler compiler;
  std::vector<std::string> warnings;
  CompileOptions options{.cpu = "x86-64", .threads = 1, .debug = 0, .dump = "", .fallback = "warn"};

  ProgramCache::Settings settings() {
    ProgramCache::Settings s;
    s.directory = folder.path.string();
    s.version = "v1";
    s.warn = [this](const std::string &text) { warnings.push_back(text); };
    return s;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (auto &entry : fs::directory_iterator(folder.path / "programs"))
      found.push_back(entry.path());
    return found;
  }
};
using ProgramCacheTest = Fixture;

} // namespace

TEST_F(ProgramCacheTest, CompilesOnceThenMemoryThenDisk) {
  ProgramCache first(settings());
  auto a = first.get("graph", options, compiler);
  EXPECT_EQ(a.origin, CachedProgram::Compiled);
  EXPECT_EQ(a.executable->program().name, "graph");
  EXPECT_EQ(*a.report, "report of graph");
  auto b = first.get("graph", options, compiler);
  EXPECT_EQ(b.origin, CachedProgram::Memory);
  EXPECT_EQ(b.executable, a.executable);
  first.clearMemory();
  EXPECT_EQ(first.get("graph", options, compiler).origin, CachedProgram::Disk);

  ProgramCache second(settings()); // another process
  auto c = second.get("graph", options, compiler);
  EXPECT_EQ(c.origin, CachedProgram::Disk);
  EXPECT_EQ(c.executable->program().name, "graph");
  EXPECT_EQ(*c.report, "report of graph");
  EXPECT_EQ(compiler.count, 1);
  EXPECT_EQ(second.stats().diskHits, 1u);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(fs::status(folder.path / "programs").permissions(), fs::perms::owner_all);
  for (auto &file : files())
    EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(ProgramCacheTest, WhatDecidesTheCodeIsInTheKey) {
  ProgramCache cache(settings());
  auto changed = [&](auto change) {
    CompileOptions other = options;
    change(other);
    return cache.get("graph", other, compiler).origin;
  };
  cache.get("graph", options, compiler);
  EXPECT_EQ(changed([](auto &o) { o.cpu = "avx2"; }), CachedProgram::Compiled);
  EXPECT_EQ(changed([](auto &o) { o.threads = 2; }), CachedProgram::Compiled);
  EXPECT_EQ(changed([](auto &o) { o.fallback = "error"; }), CachedProgram::Compiled);
  EXPECT_EQ(changed([](auto &o) { o.fallback = "silent"; }), CachedProgram::Memory);
  EXPECT_EQ(changed([](auto &o) { o.debug = 1; }), CachedProgram::Memory);
  EXPECT_EQ(changed([](auto &o) { o.debug = 2; }), CachedProgram::Compiled) << "one wants to see it compile";
  EXPECT_EQ(changed([](auto &o) { o.debug = 2; }), CachedProgram::Compiled);
  EXPECT_EQ(changed([](auto &o) { o.dump = "/tmp/x"; }), CachedProgram::Compiled);
  EXPECT_EQ(cache.get("graph2", options, compiler).origin, CachedProgram::Compiled);
  auto newer = settings();
  newer.version = "v2";
  EXPECT_EQ(ProgramCache(newer).get("graph", options, compiler).origin, CachedProgram::Compiled);
}

TEST_F(ProgramCacheTest, ErrorsAreHandedOnAndNotKept) {
  ProgramCache cache(settings());
  for (int i = 0; i < 2; ++i)
    try {
      cache.get("wrong", options, compiler);
      FAIL();
    } catch (const CompileError &error) {
      EXPECT_EQ(error.kind, "unsupported");
      EXPECT_STREQ(error.what(), "aten.foo: no such thing\n  at model.py:3\n  do without");
    }
  EXPECT_EQ(compiler.count, 2);
}

TEST_F(ProgramCacheTest, DamagedEntriesAreMadeAgain) {
  std::mt19937_64 rng(1);
  ProgramCache(settings()).get("graph", options, compiler);
  ASSERT_EQ(files().size(), 1u);
  fs::path file = files()[0];
  auto good = readFile(file);
  for (int round = 0; round < 300; ++round) {
    auto bad = good;
    switch (round % 4) {
    case 0:
      bad.resize(rng() % bad.size());
      break;
    case 1:
      bad.insert(bad.end(), 1 + rng() % 9, 0);
      break;
    default:
      bad[rng() % bad.size()] ^= 1 << (rng() % 8);
    }
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<char *>(bad.data()), bad.size());
    ProgramCache cache(settings());
    int before = compiler.count;
    EXPECT_EQ(cache.get("graph", options, compiler).executable->program().name, "graph");
    EXPECT_EQ(compiler.count, before + 1);
    EXPECT_EQ(cache.stats().damaged, 1u);
    EXPECT_EQ(readFile(file), good);
  }
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ProgramCacheTest, ForeignLinksAndLooseFilesAreNotRead) {
  ProgramCache(settings()).get("graph", options, compiler);
  fs::path file = files()[0];
  fs::permissions(file, fs::perms::all);
  EXPECT_EQ(ProgramCache(settings()).get("graph", options, compiler).origin, CachedProgram::Compiled)
      << "others could have written it";
  fs::path elsewhere = folder.path / "elsewhere";
  fs::rename(file, elsewhere);
  fs::permissions(elsewhere, fs::perms::owner_read);
  fs::create_symlink(elsewhere, file);
  EXPECT_EQ(ProgramCache(settings()).get("graph", options, compiler).origin, CachedProgram::Compiled);
  EXPECT_EQ(ProgramCache(settings()).get("graph", options, compiler).origin, CachedProgram::Disk)
      << "the link was replaced by a file";

  fs::permissions(folder.path / "programs", fs::perms::all);
  ProgramCache loose(settings());
  EXPECT_EQ(loose.get("graph", options, compiler).origin, CachedProgram::Compiled);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("writable by others"));
}

TEST_F(ProgramCacheTest, AnUnusableDirectoryIsOneWarning) {
  auto s = settings();
  std::ofstream(folder.path / "file") << "not a folder";
  s.directory = (folder.path / "file" / "below").string();
  ProgramCache cache(s);
  for (const char *graph : {"a", "b", "c"})
    EXPECT_EQ(cache.get(graph, options, compiler).origin, CachedProgram::Compiled);
  EXPECT_EQ(cache.get("a", options, compiler).origin, CachedProgram::Memory);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("TILEWRIGHT_CACHE"));
}

TEST_F(ProgramCacheTest, AFullDiskIsOneWarning) {
  // A process that may write no file beyond 1 KiB sees what a full disk shows: a write that fails midway.
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit{1024, 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
    compiler.constantBytes = 10000;
    ProgramCache cache(settings());
    bool right = cache.get("a", options, compiler).origin == CachedProgram::Compiled &&
                 cache.get("b", options, compiler).origin == CachedProgram::Compiled && warnings.size() == 1 &&
                 files().empty();
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(ProgramCacheTest, BeyondTheLimitTheLeastUsedGo) {
  auto s = settings();
  s.limitBytes = 100000;
  compiler.constantBytes = 9000;
  ProgramCache cache(s);
  for (int i = 0; i < 40; ++i) {
    cache.get("graph" + std::to_string(i), options, compiler);
    // Writes of one millisecond have the same time stamp on coarse clocks.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  uint64_t total = 0;
  for (auto &file : files())
    total += fs::file_size(file);
  EXPECT_LE(total, s.limitBytes + 10000);
  EXPECT_GT(cache.stats().evicted, 20u);
  ProgramCache again(s);
  EXPECT_EQ(again.get("graph39", options, compiler).origin, CachedProgram::Disk);
  EXPECT_EQ(again.get("graph0", options, compiler).origin, CachedProgram::Compiled);
}

TEST_F(ProgramCacheTest, MemoryHoldsSoManyPrograms) {
  auto s = settings();
  s.directory = std::nullopt;
  s.limitPrograms = 3;
  ProgramCache cache(s);
  for (const char *graph : {"a", "b", "c", "a", "d"})
    cache.get(graph, options, compiler);
  EXPECT_EQ(cache.get("a", options, compiler).origin, CachedProgram::Memory);
  EXPECT_EQ(cache.get("b", options, compiler).origin, CachedProgram::Compiled) << "the least used went";
}

TEST_F(ProgramCacheTest, ThreadsThatAskTogetherCompileOnce) {
  compiler.delay = 50;
  ProgramCache cache(settings());
  std::vector<std::thread> threads;
  std::atomic<int> compiled{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] { compiled += cache.get("graph", options, compiler).origin == CachedProgram::Compiled; });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(compiler.count, 1);
  EXPECT_EQ(compiled, 1);
}

TEST_F(ProgramCacheTest, ProcessesThatWriteAndDamageTogetherAlwaysGetRightPrograms) {
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    pid_t child = fork();
    if (child == 0) {
      std::mt19937_64 rng(c);
      auto s = settings();
      s.limitBytes = 60000; // evicting all the time
      for (int round = 0; round < 150; ++round) {
        ProgramCache cache(s);
        std::string graph = "graph" + std::to_string(rng() % 12);
        if (cache.get(graph, options, compiler).executable->program().name != graph)
          _exit(1);
        if (round % 10 == 0)
          for (auto &entry : fs::directory_iterator(folder.path / "programs")) {
            std::error_code ignored;
            if (rng() % 3 == 0 && entry.path().extension() == ".twp")
              fs::resize_file(entry.path(), rng() % 500, ignored);
          }
      }
      _exit(warnings.empty() ? 0 : 2);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (auto &file : files())
    EXPECT_EQ(file.extension(), ".twp") << "no temporary file is left";
}

//===----------------------------------------------------------------------===//
// The compiler's library
//===----------------------------------------------------------------------===//

namespace {

/// A library with the compiler's four functions, from C.
fs::path compilerLibrary(const TemporaryDirectory &folder, unsigned abi, const std::string &version) {
  fs::path source = folder.path / "compiler.c", library = folder.path / "libcompiler.so";
  std::ofstream(source) << R"(
#include <stdlib.h>
#include <string.h>
#include "tilewright/Compiler/CompilerApi.h"
static void fill(tw_buffer *b, const char *text) { b->size = strlen(text); b->data = malloc(b->size); memcpy(b->data, text, b->size); }
int tw_compiler_compile(const char *graph, size_t n, const char *options, size_t m, tw_buffer *program, tw_buffer *report, tw_buffer *error) {
  *program = *report = *error = (tw_buffer){0, 0};
  if (n && graph[0] == '{') { fill(program, "bytes"); fill(report, options); return 0; }
  if (n && graph[0] == '?') { fill(error, "no JSON"); return 1; }
  fill(error, "{\"kind\": \"invalid\", \"op\": null, \"source\": \"a \\\"b\\\"\\n\\u00e9\", \"message\": \"m\", \"hint\": \"h\"}");
  return 1;
}
void tw_compiler_free(tw_buffer *b) { free(b->data); *b = (tw_buffer){0, 0}; }
uint32_t tw_compiler_abi(void) { return )"
                        << abi << "; }\nconst char *tw_compiler_version(void) { return \"" << version << "\"; }\n";
  std::string command = "clang-19 -shared -fPIC -I" + (fs::path(TILEWRIGHT_TEST_DATA_DIR) / "../../include").string() +
                        " -o " + library.string() + " " + source.string();
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error("clang-19 failed");
  return library;
}

std::string openError(const std::string &path) {
  // Each in a process of its own, as a loaded library stays.
  int pipes[2];
  if (pipe(pipes) != 0)
    return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    setSwitch("TILEWRIGHT_COMPILER", path);
    std::string text = "none";
    try {
      nativeCompiler().compile("{}", "options");
    } catch (const std::exception &e) {
      text = e.what();
    }
    [[maybe_unused]] auto n = write(pipes[1], text.data(), text.size());
    _exit(0);
  }
  close(pipes[1]);
  std::string text(2000, 0);
  text.resize(std::max<ssize_t>(read(pipes[0], text.data(), text.size()), 0));
  close(pipes[0]);
  waitpid(child, nullptr, 0);
  return text;
}

} // namespace

TEST(CompilerLoader, OpensTheLibraryAtTheFirstCompile) {
  TemporaryDirectory folder;
  std::string version(compilerVersion());
  EXPECT_GT(version.size(), 10u);
  fs::path good = compilerLibrary(folder, 2, version);
  EXPECT_EQ(openError(good), "none");

  EXPECT_THAT(openError("/nowhere/lib.so"), HasSubstr("cannot open the compiler: /nowhere/lib.so"));
  EXPECT_THAT(openError(compilerLibrary(folder, 7, version)), HasSubstr("has ABI 7, this runtime needs 2"));
  EXPECT_THAT(openError(compilerLibrary(folder, 2, "0.0-old")), HasSubstr("is version 0.0-old, this runtime"));
}

TEST(CompilerLoader, ErrorsKeepTheirParts) {
  TemporaryDirectory folder;
  fs::path library = compilerLibrary(folder, 2, std::string(compilerVersion()));
  pid_t child = fork();
  if (child == 0) {
    setSwitch("TILEWRIGHT_COMPILER", library.string());
    bool right = !compilerIsLoaded();
    CompileResult result = nativeCompiler().compile("{}", "options");
    right &= std::string(result.program.begin(), result.program.end()) == "bytes" && result.report == "options";
    right &= compilerIsLoaded();
    try {
      nativeCompiler().compile("x", "");
    } catch (const CompileError &e) {
      right &=
          e.kind == "invalid" && e.op.empty() && e.source == "a \"b\"\n\u00e9" && e.message == "m" && e.hint == "h";
      right &= std::string(e.what()) == "m\n  at a \"b\"\n\u00e9\n  h";
    }
    try {
      nativeCompiler().compile("?", "");
      right = false;
    } catch (const CompileError &e) {
      right &= e.kind == "internal" && std::string(e.what()).find("no JSON") != std::string::npos;
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(CompilerLoader, OptionsAreJson) {
  CompileOptions options{.cpu = "avx2", .threads = 3, .debug = 4, .dump = "/tmp/a \"b\"\n", .fallback = "error"};
  EXPECT_EQ(options.json(), "{\"cpu\": \"avx2\", \"threads\": 3, \"debug\": 4, \"dump\": \"/tmp/a \\\"b\\\"\\u000a\", "
                            "\"fallback\": \"error\"}");
}
