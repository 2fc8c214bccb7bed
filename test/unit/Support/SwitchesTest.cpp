#include "tilewright/Support/Switches.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tilewright;
namespace fs = std::filesystem;

namespace {

const fs::path root = fs::path(TILEWRIGHT_TEST_DATA_DIR) / "../..";

std::string read(const fs::path &path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Sets a switch for the life of the object.
struct With {
  const char *name;
  With(const char *name, const char *value) : name(name) { setSwitch(name, value); }
  ~With() { setSwitch(name, std::nullopt); }
};

} // namespace

TEST(Switches, PageEqualsTable) {
  std::string wanted = switchesMarkdown();
  if (read(root / "docs/switches.md") == wanted)
    return;
  std::string path = ::testing::TempDir() + "switches.md";
  std::ofstream(path) << wanted;
  FAIL() << "docs/switches.md differs from lib/Support/Switches.cpp: cp " << path << " docs/switches.md";
}

TEST(Switches, SortedByName) {
  auto all = allSwitches();
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_LT(std::string_view(all[i - 1].name), std::string_view(all[i].name));
}

TEST(Switches, NobodyElseReadsTheEnvironment) {
  size_t seen = 0;
  for (const char *folder : {"lib", "tools", "include"})
    for (auto &entry : fs::recursive_directory_iterator(root / folder)) {
      auto ext = entry.path().extension();
      if ((ext != ".cpp" && ext != ".h") || entry.path().filename() == "Switches.cpp")
        continue;
      ++seen;
      std::string text = read(entry.path());
      if (text.find("getenv(") == std::string::npos)
        continue;
      // The command line looks for Python as a shell does (PATH, VIRTUAL_ENV); that is no switch.
      EXPECT_STREQ(folder, "tools") << entry.path() << " reads the environment; add a switch to Switches.cpp";
      for (const char *call : {"getenv(\"TILEWRIGHT_", "environmentText(\"TILEWRIGHT_"})
        EXPECT_EQ(text.find(call), std::string::npos) << entry.path() << " reads a switch by itself";
    }
  EXPECT_GT(seen, 5u);
}

TEST(Switches, OverrideBeatsEnvironment) {
  ::setenv("TILEWRIGHT_DUMP", "/from/environment", 1);
  EXPECT_EQ(switches::dump(), "/from/environment");
  {
    With with("TILEWRIGHT_DUMP", "/from/override");
    EXPECT_EQ(switches::dump(), "/from/override");
  }
  EXPECT_EQ(switches::dump(), "/from/environment");
  ::unsetenv("TILEWRIGHT_DUMP");
  EXPECT_EQ(switches::dump(), std::nullopt);
}

TEST(Switches, UnknownNameIsALogicError) {
  EXPECT_THROW(switchText("TILEWRIGHT_THREAD"), std::logic_error);
  EXPECT_THROW(setSwitch("TILEWRIGHT_THREAD", "1"), std::logic_error);
  ::setenv("TILEWRIGHT_THREAD", "1", 1);
  auto unknown = unknownSwitches();
  ::unsetenv("TILEWRIGHT_THREAD");
  EXPECT_NE(std::find(unknown.begin(), unknown.end(), "TILEWRIGHT_THREAD"), unknown.end());
}

TEST(Switches, WrongValueNamesSwitchAndChoices) {
  With with("TILEWRIGHT_ALLOC", "arena");
  try {
    switches::alloc();
    FAIL();
  } catch (const std::invalid_argument &error) {
    std::string text = error.what();
    EXPECT_NE(text.find("TILEWRIGHT_ALLOC=arena"), std::string::npos) << text;
    EXPECT_NE(text.find("guard"), std::string::npos) << text;
  }
}

TEST(Switches, Numbers) {
  {
    With with("TILEWRIGHT_THREADS", "3");
    EXPECT_EQ(switches::threads(), 3u);
  }
  for (const char *wrong : {"0", "1025", "-1", "two", "2x"}) {
    With with("TILEWRIGHT_THREADS", wrong);
    EXPECT_THROW(switches::threads(), std::invalid_argument) << wrong;
  }
  With with("TILEWRIGHT_DEBUG", "2");
  EXPECT_EQ(switches::debugLevel(), 2);
  setSwitch("TILEWRIGHT_DEBUG", "5");
  EXPECT_THROW(switches::debugLevel(), std::invalid_argument);
}

TEST(Switches, MemoryLimit) {
  auto parse = [](const char *text) {
    With with("TILEWRIGHT_MEMORY_LIMIT", text);
    return switches::memoryLimit();
  };
  EXPECT_EQ(parse("123").bytes, 123u);
  EXPECT_EQ(parse("64K").bytes, 64u << 10);
  EXPECT_EQ(parse("1.5M").bytes, 3u << 19);
  EXPECT_EQ(parse("2G").bytes, size_t(2) << 30);
  EXPECT_EQ(parse("60%").bytes, 0u);
  EXPECT_EQ(parse("60%").percent, 60);
  for (const char *wrong : {"0", "-1", "G", "10T", "101%", "nan", "1G x", "0.5"})
    EXPECT_THROW(parse(wrong), std::invalid_argument) << wrong;
}

TEST(Switches, Cache) {
  {
    With with("TILEWRIGHT_CACHE", "off");
    EXPECT_EQ(switches::cache(), std::nullopt);
  }
  With with("TILEWRIGHT_CACHE", "/somewhere");
  EXPECT_EQ(switches::cache(), "/somewhere");
}
