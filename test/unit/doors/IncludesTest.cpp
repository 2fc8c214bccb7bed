//===- IncludesTest.cpp - what the rooms' sources include ---------------------------------------------------------===//
//
// Static rooms leave no ELF dependencies behind, so their doors are read from their sources.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

namespace fs = std::filesystem;

namespace {

struct Room {
  std::string folder;
  std::vector<std::string> rooms;     // of our own, that it may include
  std::vector<std::string> libraries; // others', by the first component of the path
};

void PrintTo(const Room &room, std::ostream *out) { *out << room.folder; }

const std::vector<Room> rooms = {
    {"Support", {}, {}},
    {"Runtime", {"Support", "Compiler/CompilerApi.h", "Compiler/CompilerVersion.h"}, {}},
    {"Graph", {"Support"}, {"nlohmann"}},
    {"Import", {"Graph", "Support"}, {"nlohmann"}},
    // How matrix products and attention are cut into blocks: plain C++, to become an interface of capabilities with the
    // second target.
    {"Transforms",
     {"Import", "Graph", "Dialect", "Support", "Target/Host/ContractPlan.h", "Target/Host/AttentionPlan.h"},
     {"mlir", "llvm", "nlohmann"}},
    {"Dialect", {"Support"}, {"mlir", "llvm"}},
    {"Interpret", {"Dialect", "Support", "Target/Host/ContractPlan.h", "Runtime/KernelContext.h"}, {"mlir", "llvm"}},
    {"Target", {"Dialect", "Transforms", "Support", "Runtime/KernelContext.h", "Runtime/Program.h"}, {"mlir", "llvm"}},
    {"Compiler",
     {"Graph", "Import", "Transforms", "Dialect", "Target", "Interpret", "Support", "Runtime/KernelContext.h",
      "Runtime/ObjectLoader.h", "Runtime/Program.h"},
     {"mlir", "llvm", "nlohmann"}},
    {"Kernel", {"Runtime", "Support"}, {}},
    {"Ops", {"Runtime", "Graph", "Support", "Compiler/CompilerApi.h"}, {"nlohmann"}},
    {"Torch",
     {"Ops", "Runtime", "Graph", "Support", "Compiler/CompilerApi.h"},
     {"ATen", "c10", "torch", "nanobind", "nlohmann", "Python.h"}},
};

/// Folders of others that a door may be about; anything else (the C++ library, the system) is free.
const std::vector<std::string> guarded = {"mlir",     "llvm",     "ATen",     "c10", "torch",
                                          "nanobind", "pybind11", "nlohmann", "CLI", "Python.h"};

bool begins(const std::string &path, const std::string &prefix) {
  return path == prefix || (path.starts_with(prefix) && path[prefix.size()] == '/');
}

bool allowed(const Room &room, const std::string &include) {
  const std::string own = "tilewright/";
  if (include.starts_with(own)) {
    std::string rest = include.substr(own.size());
    if (begins(rest, room.folder))
      return true;
    for (const std::string &other : room.rooms)
      if (begins(rest, other))
        return true;
    return false;
  }
  for (const std::string &library : guarded)
    if (begins(include, library))
      return std::find(room.libraries.begin(), room.libraries.end(), library) != room.libraries.end();
  return true;
}

std::vector<std::string> forbiddenIncludes(const Room &room) {
  static const std::regex directive("\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"].*");
  const fs::path root = TILEWRIGHT_SOURCE_DIR;
  std::vector<std::string> found;
  for (const fs::path &folder : {root / "include/tilewright" / room.folder, root / "lib" / room.folder}) {
    if (!fs::exists(folder))
      continue;
    for (const auto &entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp")
        continue;
      std::ifstream in(entry.path());
      std::smatch match;
      for (std::string line; std::getline(in, line);)
        if (std::regex_match(line, match, directive) && !allowed(room, match[1]))
          found.push_back(fs::relative(entry.path(), root).string() + ": " + match[1].str());
    }
  }
  return found;
}

class Includes : public testing::TestWithParam<Room> {};

TEST_P(Includes, StayWithinTheRoomsDoors) { EXPECT_THAT(forbiddenIncludes(GetParam()), testing::IsEmpty()); }

INSTANTIATE_TEST_SUITE_P(Rooms, Includes, testing::ValuesIn(rooms), [](const auto &info) { return info.param.folder; });

TEST(Includes, EveryRoomIsListed) {
  for (const auto &entry : fs::directory_iterator(fs::path(TILEWRIGHT_SOURCE_DIR) / "lib")) {
    std::string name = entry.path().filename();
    EXPECT_TRUE(std::any_of(rooms.begin(), rooms.end(), [&](const Room &room) { return room.folder == name; })) << name;
  }
}

TEST(Includes, ForbiddenOnesAreSeen) {
  Room runtime = rooms[1];
  EXPECT_FALSE(allowed(runtime, "mlir/IR/Builders.h"));
  EXPECT_FALSE(allowed(runtime, "Python.h"));
  EXPECT_FALSE(allowed(runtime, "tilewright/Ops/Ops.h"));
  EXPECT_TRUE(allowed(runtime, "tilewright/Support/DType.h"));
  EXPECT_TRUE(allowed(runtime, "vector"));
}

} // namespace
