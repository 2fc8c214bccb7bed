#include "doors/ElfFile.h"

#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace tilewright::test {
namespace {

class Image {
public:
  explicit Image(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
    if (bytes.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0 ||
        bytes[EI_CLASS] != ELFCLASS64)
      throw std::runtime_error(path + ": not a 64-bit ELF file");
    auto header = at<Elf64_Ehdr>(0);
    for (size_t i = 0; i < header.e_shnum; ++i)
      sections.push_back(at<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize));
  }

  template <typename T> T at(size_t offset) const {
    if (offset + sizeof(T) > bytes.size())
      throw std::runtime_error("truncated ELF file");
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }

  /// Calls `visit(entry, strings)` for each entry of the sections of `type`; `strings` is the linked string table.
  template <typename Entry, typename Visit> void forEach(uint32_t type, Visit visit) const {
    for (const Elf64_Shdr &section : sections) {
      if (section.sh_type != type)
        continue;
      const Elf64_Shdr &strings = sections.at(section.sh_link);
      for (size_t offset = 0; offset + sizeof(Entry) <= section.sh_size; offset += sizeof(Entry))
        visit(at<Entry>(section.sh_offset + offset), bytes.data() + strings.sh_offset);
    }
  }

private:
  std::vector<char> bytes;
  std::vector<Elf64_Shdr> sections;
};

} // namespace

ElfFile ElfFile::read(const std::string &path) {
  Image image(path);
  ElfFile file;
  image.forEach<Elf64_Dyn>(SHT_DYNAMIC, [&](const Elf64_Dyn &entry, const char *strings) {
    if (entry.d_tag == DT_NEEDED)
      file.needed.insert(strings + entry.d_un.d_val);
  });
  image.forEach<Elf64_Sym>(SHT_DYNSYM, [&](const Elf64_Sym &symbol, const char *strings) {
    std::string name = strings + symbol.st_name;
    if (name.empty())
      return;
    if (symbol.st_shndx == SHN_UNDEF)
      file.undefined.insert(name);
    else if (ELF64_ST_BIND(symbol.st_info) != STB_LOCAL)
      file.exported.insert(name);
  });
  return file;
}

} // namespace tilewright::test
