//===- ObjectLoader.cpp - machine code without a linker -------------------===//
#include "tilewright/Runtime/ObjectLoader.h"

#include "CodeRegistry.h"
#include "Fork.h"
#include "tilewright/Support/Hash.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <map>
#include <mutex>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace tilewright {

namespace {

/// PC-relative references reach 2 GiB; kernels are a few KiB. More than this is a damaged file.
constexpr size_t kMaxMapping = size_t(1) << 30;

class MappedObject final : public LoadedObject {
public:
  MappedObject() = default;
  ~MappedObject() override {
    if (region)
      unregisterCode(region);
    if (base)
      munmap(base, size);
  }

  KernelFunction function(const std::string &symbol) const override {
    auto it = functions.find(symbol);
    if (it == functions.end())
      throw std::runtime_error("object " + name + " defines no function " + symbol);
    return reinterpret_cast<KernelFunction>(base + it->second);
  }
  std::span<const uint8_t> code() const override { return {base, codeSize}; }

  std::string name;
  uint8_t *base = nullptr;
  size_t size = 0, codeSize = 0;
  std::map<std::string, size_t> functions; // offsets from base
  CodeRegion *region = nullptr;
};

class Loader {
public:
  Loader(std::span<const uint8_t> file, const std::string &name) : file(file), name(name) {}

  std::shared_ptr<MappedObject> run() {
    readHeaders();
    chooseSections();
    readSymbols();
    collectExternals();
    map();
    relocate();
    protect();
    return object;
  }

private:
  [[noreturn]] void refuse(const std::string &what) const {
    throw std::runtime_error("cannot load object " + name + ": " + what);
  }

  // The file is read through copies: nothing in it need be aligned, and every access is checked.
  template <class T> T read(uint64_t offset, const char *what) const {
    if (offset > file.size() || sizeof(T) > file.size() - offset)
      refuse(std::string("truncated in ") + what);
    T value;
    std::memcpy(&value, file.data() + offset, sizeof(T));
    return value;
  }
  std::string text(const Elf64_Shdr &table, uint64_t offset) const {
    if (offset >= table.sh_size)
      refuse("a name lies outside its string table");
    const char *begin = reinterpret_cast<const char *>(file.data() + table.sh_offset + offset);
    return std::string(begin, strnlen(begin, table.sh_size - offset));
  }

  void readHeaders();
  void chooseSections();
  void readSymbols();
  void collectExternals();
  void map();
  void relocate();
  void protect();

  bool isLoaded(size_t section) const { return section < sections.size() && placed[section]; }
  template <class Fn> void forEachRelocation(Fn &&fn);
  uint64_t addressOf(uint32_t symbol, bool call);
  void apply(size_t section, const Elf64_Rela &r);

  std::span<const uint8_t> file;
  const std::string &name;
  std::vector<Elf64_Shdr> sections;
  std::vector<std::string> sectionNames;
  std::vector<Elf64_Sym> symbols;
  std::vector<std::string> symbolNames;
  std::vector<bool> placed;
  std::vector<size_t> where;                     // offset of each placed section in the mapping
  std::map<std::string, const void *> externals; // by name, those referred to
  std::map<std::string, size_t> stubOf, slotOf;  // offsets of `jmp *slot` stubs and of GOT slots
  std::map<uint32_t, size_t> localSlotOf;        // GOT slots of the object's own symbols
  size_t codeEnd = 0, total = 0;
  std::shared_ptr<MappedObject> object;
};

void Loader::readHeaders() {
  auto header = read<Elf64_Ehdr>(0, "the header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    refuse("it is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64)
    refuse("it is not for x86-64");
  if (header.e_type != ET_REL)
    refuse("it is no relocatable object (type " + std::to_string(header.e_type) + ")");
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0)
    refuse("its section table is unknown");
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    auto section = read<Elf64_Shdr>(header.e_shoff + uint64_t(i) * sizeof(Elf64_Shdr), "the section table");
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
        (section.sh_offset > file.size() || section.sh_size > file.size() - section.sh_offset))
      refuse("section " + std::to_string(i) + " lies outside the file");
    sections.push_back(section);
  }
  if (header.e_shstrndx >= sections.size() || sections[header.e_shstrndx].sh_type != SHT_STRTAB)
    refuse("its section names are missing");
  for (const Elf64_Shdr &section : sections)
    sectionNames.push_back(section.sh_type == SHT_NULL ? "" : text(sections[header.e_shstrndx], section.sh_name));
}

void Loader::chooseSections() {
  placed.assign(sections.size(), false);
  where.assign(sections.size(), 0);
  for (size_t i = 0; i < sections.size(); ++i) {
    const Elf64_Shdr &s = sections[i];
    const std::string &label = sectionNames[i];
    if (!(s.sh_flags & SHF_ALLOC) || s.sh_size == 0 || label == ".eh_frame" || s.sh_type == SHT_NOTE)
      continue;
    if (s.sh_flags & SHF_TLS)
      refuse("section " + label + " is thread-local; kernels keep no state");
    if (s.sh_type != SHT_PROGBITS && s.sh_type != SHT_X86_64_UNWIND)
      refuse("section " + label + " is zero-initialised or an initialiser; kernels keep no state");
    bool relocatedOnly = label == ".data.rel.ro" || label.starts_with(".data.rel.ro.");
    if ((s.sh_flags & SHF_WRITE) && (!relocatedOnly || (s.sh_flags & SHF_EXECINSTR)))
      refuse("section " + label + " is writable; kernels keep no state");
    size_t align = std::max<size_t>(s.sh_addralign, 1);
    if ((align & (align - 1)) || align > 4096)
      refuse("section " + label + " asks for an alignment of " + std::to_string(align));
    if (s.sh_size > kMaxMapping)
      refuse("section " + label + " is too large");
    placed[i] = true;
  }
}

void Loader::readSymbols() {
  for (const Elf64_Shdr &s : sections) {
    if (s.sh_type != SHT_SYMTAB)
      continue;
    if (s.sh_link >= sections.size() || sections[s.sh_link].sh_type != SHT_STRTAB || !symbols.empty())
      refuse("its symbol table is damaged");
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= s.sh_size; at += sizeof(Elf64_Sym)) {
      symbols.push_back(read<Elf64_Sym>(s.sh_offset + at, "the symbol table"));
      symbolNames.push_back(text(sections[s.sh_link], symbols.back().st_name));
    }
  }
}

/// fn(section that is changed, relocation) for all relocations of loaded sections.
template <class Fn> void Loader::forEachRelocation(Fn &&fn) {
  for (const Elf64_Shdr &s : sections) {
    if ((s.sh_type != SHT_RELA && s.sh_type != SHT_REL) || !isLoaded(s.sh_info))
      continue;
    if (s.sh_type == SHT_REL)
      refuse("relocations without addends are not those of x86-64");
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s.sh_size; at += sizeof(Elf64_Rela)) {
      auto r = read<Elf64_Rela>(s.sh_offset + at, "the relocations");
      if (ELF64_R_SYM(r.r_info) >= symbols.size())
        refuse("a relocation refers to symbol " + std::to_string(ELF64_R_SYM(r.r_info)) + " of " +
               std::to_string(symbols.size()));
      fn(s.sh_info, r);
    }
  }
}

static bool isGot(uint32_t type) {
  return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
}

void Loader::collectExternals() {
  auto table = externalSymbols();
  forEachRelocation([&](size_t, const Elf64_Rela &r) {
    uint32_t id = ELF64_R_SYM(r.r_info);
    const Elf64_Sym &symbol = symbols[id];
    if (symbol.st_shndx == SHN_UNDEF && id != 0) {
      const std::string &label = symbolNames[id];
      auto it = std::lower_bound(table.begin(), table.end(), label,
                                 [](const ExternalSymbol &s, const std::string &n) { return s.name < n; });
      if (it == table.end() || it->name != label)
        refuse("it refers to the symbol " + label +
               ", which is not among those that compiled code may use "
               "(Runtime/ObjectLoader.h)");
      externals[label] = it->address;
    } else if (isGot(ELF64_R_TYPE(r.r_info))) {
      localSlotOf[id] = 0;
    }
  });
}

static size_t alignUp(size_t value, size_t align) { return (value + align - 1) & ~(align - 1); }

/// Code first, then stubs that jump through the table of addresses; a page boundary; read-only data and the table.
void Loader::map() {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto place = [&](bool executable) {
    for (size_t i = 0; i < sections.size(); ++i)
      if (placed[i] && bool(sections[i].sh_flags & SHF_EXECINSTR) == executable) {
        total = alignUp(total, std::max<size_t>(sections[i].sh_addralign, 1));
        where[i] = total;
        total += sections[i].sh_size;
        if (total > kMaxMapping)
          refuse("it is too large");
      }
  };
  place(true);
  total = alignUp(total, 16);
  for (const auto &[label, address] : externals) {
    stubOf[label] = total;
    total += 8;
  }
  codeEnd = total;
  total = alignUp(total, page);
  place(false);
  total = alignUp(total, 8);
  for (const auto &[label, address] : externals) {
    slotOf[label] = total;
    total += 8;
  }
  for (auto &[id, slot] : localSlotOf) {
    slot = total;
    total += 8;
  }
  total = alignUp(std::max<size_t>(total, 1), page);

  object = std::make_shared<MappedObject>();
  object->name = name;
  void *memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    refuse(std::string("no memory for it: ") + std::strerror(errno));
  object->base = static_cast<uint8_t *>(memory);
  object->size = total;
  object->codeSize = codeEnd;

  for (size_t i = 0; i < sections.size(); ++i)
    if (placed[i])
      std::memcpy(object->base + where[i], file.data() + sections[i].sh_offset, sections[i].sh_size);
  for (const auto &[label, address] : externals) {
    std::memcpy(object->base + slotOf[label], &address, 8);
    // jmp *disp32(%rip)
    uint8_t stub[8] = {0xff, 0x25, 0, 0, 0, 0, 0xcc, 0xcc};
    int32_t distance = static_cast<int32_t>(slotOf[label] - (stubOf[label] + 6));
    std::memcpy(stub + 2, &distance, 4);
    std::memcpy(object->base + stubOf[label], stub, 8);
  }
}

/// `call`: an address within reach of the code (the stub of an external function).
uint64_t Loader::addressOf(uint32_t id, bool call) {
  if (id == 0)
    return 0;
  const Elf64_Sym &symbol = symbols[id];
  const std::string &label = symbolNames[id];
  if (symbol.st_shndx == SHN_UNDEF)
    return call ? reinterpret_cast<uint64_t>(object->base) + stubOf.at(label)
                : reinterpret_cast<uint64_t>(externals.at(label));
  if (!isLoaded(symbol.st_shndx))
    refuse("it refers to " + (label.empty() ? "a symbol" : label) + " in a section that is not loaded");
  if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC || ELF64_ST_TYPE(symbol.st_info) == STT_TLS)
    refuse("the symbol " + label + " is thread-local or chosen at run time");
  if (symbol.st_value > sections[symbol.st_shndx].sh_size)
    refuse("the symbol " + label + " lies outside its section");
  return reinterpret_cast<uint64_t>(object->base) + where[symbol.st_shndx] + symbol.st_value;
}

static std::string relocationName(uint32_t type) {
  switch (type) {
  case R_X86_64_32:
    return "R_X86_64_32 (compile as position-independent code)";
  case R_X86_64_32S:
    return "R_X86_64_32S (compile as position-independent code)";
  case R_X86_64_GOTPC32:
    return "R_X86_64_GOTPC32";
  case R_X86_64_GOTOFF64:
    return "R_X86_64_GOTOFF64 (large code model)";
  case R_X86_64_TPOFF32:
  case R_X86_64_TLSGD:
  case R_X86_64_TLSLD:
  case R_X86_64_GOTTPOFF:
    return "of thread-local data";
  default:
    return "of type " + std::to_string(type);
  }
}

void Loader::apply(size_t section, const Elf64_Rela &r) {
  uint32_t type = ELF64_R_TYPE(r.r_info), id = ELF64_R_SYM(r.r_info);
  if (type == R_X86_64_NONE)
    return;
  bool wide = type == R_X86_64_64 || type == R_X86_64_PC64;
  size_t width = wide ? 8 : 4;
  if (r.r_offset > sections[section].sh_size || width > sections[section].sh_size - r.r_offset)
    refuse("a relocation lies outside section " + sectionNames[section]);
  uint8_t *place = object->base + where[section] + r.r_offset;
  uint64_t here = reinterpret_cast<uint64_t>(place), value = 0;
  switch (type) {
  case R_X86_64_64:
    value = addressOf(id, false) + r.r_addend;
    break;
  case R_X86_64_PC64:
    value = addressOf(id, false) + r.r_addend - here;
    break;
  case R_X86_64_PC32:
  case R_X86_64_PLT32:
    value = addressOf(id, true) + r.r_addend - here;
    break;
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX: {
    bool own = symbols[id].st_shndx != SHN_UNDEF;
    if (!own && id == 0)
      refuse("a relocation through the table of addresses has no symbol");
    size_t slot = own ? localSlotOf.at(id) : slotOf.at(symbolNames[id]);
    if (own) {
      uint64_t address = addressOf(id, false);
      std::memcpy(object->base + slot, &address, 8);
    }
    value = reinterpret_cast<uint64_t>(object->base) + slot + r.r_addend - here;
    break;
  }
  default:
    refuse("a relocation " + relocationName(type) + " in section " + sectionNames[section] +
           (symbolNames[id].empty() ? "" : " to " + symbolNames[id]) + " is not supported");
  }
  if (!wide && static_cast<int64_t>(value) != static_cast<int32_t>(value))
    refuse("a relocation in section " + sectionNames[section] + " does not reach its target");
  std::memcpy(place, &value, width);
}

void Loader::relocate() {
  forEachRelocation([&](size_t section, const Elf64_Rela &r) { apply(section, r); });
  for (size_t id = 1; id < symbols.size(); ++id)
    if (ELF64_ST_TYPE(symbols[id].st_info) == STT_FUNC && isLoaded(symbols[id].st_shndx) &&
        (sections[symbols[id].st_shndx].sh_flags & SHF_EXECINSTR))
      object->functions[symbolNames[id]] = addressOf(id, false) - reinterpret_cast<uint64_t>(object->base);
}

void Loader::protect() {
  size_t boundary = alignUp(codeEnd, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  if ((boundary && mprotect(object->base, boundary, PROT_READ | PROT_EXEC) != 0) ||
      (total > boundary && mprotect(object->base + boundary, total - boundary, PROT_READ) != 0))
    refuse(std::string("the system refuses executable memory: ") + std::strerror(errno));
  // Debuggers want the file with the address of each section.
  std::vector<uint8_t> annotated(file.begin(), file.end());
  auto header = read<Elf64_Ehdr>(0, "the header");
  for (size_t i = 0; i < sections.size(); ++i)
    if (placed[i]) {
      Elf64_Shdr section = sections[i];
      section.sh_addr = reinterpret_cast<uint64_t>(object->base) + where[i];
      std::memcpy(annotated.data() + header.e_shoff + i * sizeof(Elf64_Shdr), &section, sizeof(section));
    }
  object->region = registerCode(name, object->code(), annotated);
}

/// Objects by contents. Never destroyed: executables may outlive static destructors.
struct Shared {
  std::mutex mutex;
  std::unordered_map<Digest, std::weak_ptr<const LoadedObject>, DigestHash> objects;
  ForkHooks fork{ForkHooks::Rank::Device, [this] { mutex.lock(); }, [this] { mutex.unlock(); },
                 [this] { mutex.unlock(); }};
};
Shared &shared() {
  static Shared *table = new Shared;
  return *table;
}

} // namespace

std::shared_ptr<const LoadedObject> loadObject(std::span<const uint8_t> object, const std::string &name) {
  Digest key = digestOf(object.data(), object.size());
  prepareCodeRegistry();
  std::lock_guard lock(shared().mutex);
  std::weak_ptr<const LoadedObject> &entry = shared().objects[key];
  if (auto loaded = entry.lock())
    return loaded;
  std::shared_ptr<const LoadedObject> loaded = Loader(object, name).run();
  entry = loaded;
  return loaded;
}

} // namespace tilewright
