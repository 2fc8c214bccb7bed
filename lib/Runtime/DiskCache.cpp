//===- DiskCache.cpp - checksummed files by key ---------------------------===//
#include "DiskCache.h"

#include "tilewright/Support/Hash.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace tilewright {

namespace {

constexpr char kMagic[8] = {'T', 'W', 'C', 'A', 'C', 'H', 'E', '1'};
/// Left behind by a process that died while writing.
constexpr time_t kAbandonedSeconds = 3600;
/// The time of last use is kept in the file's mtime, no finer than this: a hit should not write to disk each time.
constexpr time_t kUseGranularity = 3600;

struct Header {
  char magic[8];
  uint64_t keySize, reportSize, programSize;
  uint64_t checksum; // of the sizes and all that follows
};

class File {
public:
  explicit File(int fd) : fd(fd) {}
  ~File() {
    if (fd >= 0)
      close(fd);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  const int fd;
};

std::string fileName(std::string_view key) {
  Digest digest = digestOf(key.data(), key.size());
  char name[64];
  std::snprintf(name, sizeof(name), "%016llx%016llx.twp", static_cast<unsigned long long>(digest.high),
                static_cast<unsigned long long>(digest.low));
  return name;
}

uint64_t checksumOf(const Header &header, const void *body, size_t size) {
  uint64_t sizes[3] = {header.keySize, header.reportSize, header.programSize};
  return hash64(body, size, hash64(sizes, sizeof(sizes)));
}

bool writeAll(int fd, const void *data, size_t size) {
  const char *p = static_cast<const char *>(data);
  while (size) {
    ssize_t n = ::write(fd, p, size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    p += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool readAll(int fd, void *data, size_t size) {
  char *p = static_cast<char *>(data);
  while (size) {
    ssize_t n = ::read(fd, p, size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    p += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

/// Code from a file that others may write would be code of theirs run as us.
bool isPrivate(const struct stat &s) { return s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

bool makeFolders(const std::string &path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (mkdir(path.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
      return false; // those that exist may refuse in these ways too; the last mkdir tells
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

} // namespace

DiskCache::DiskCache(std::string directory, uint64_t limitBytes, std::function<void(const std::string &)> warn)
    : directory(std::move(directory)), limitBytes(limitBytes), warn(std::move(warn)) {}

void DiskCache::giveUp(const std::string &why) {
  writable.store(false, std::memory_order_relaxed);
  if (!warned.exchange(true))
    warn("compiled programs are not kept in " + directory + ": " + why +
         " (TILEWRIGHT_CACHE chooses another directory, TILEWRIGHT_CACHE=off silences this)");
}

int DiskCache::openFolder() {
  std::string path = directory + "/programs";
  if (directory.empty() || directory[0] != '/') {
    giveUp("the path is not absolute");
    return -1;
  }
  if (!makeFolders(path)) {
    giveUp(std::strerror(errno));
    return -1;
  }
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    giveUp(std::strerror(errno));
    return -1;
  }
  struct stat s;
  if (fstat(fd, &s) != 0 || !isPrivate(s)) {
    close(fd);
    giveUp("the folder programs in it belongs to somebody else or is writable by others");
    return -1;
  }
  return fd;
}

int DiskCache::folder() {
  std::call_once(opened, [&] { folderFd = openFolder(); });
  return folderFd;
}

std::optional<DiskCache::Entry> DiskCache::read(std::string_view key) {
  int dir = folder();
  if (dir < 0)
    return std::nullopt;
  std::string name = fileName(key);
  File file(openat(dir, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat s;
  if (file.fd < 0 || fstat(file.fd, &s) != 0 || !S_ISREG(s.st_mode) || !isPrivate(s))
    return std::nullopt;

  auto drop = [&]() -> std::optional<Entry> {
    damaged.fetch_add(1, std::memory_order_relaxed);
    unlinkat(dir, name.c_str(), 0);
    return std::nullopt;
  };
  Header header;
  auto size = static_cast<uint64_t>(s.st_size);
  if (size < sizeof(header) || !readAll(file.fd, &header, sizeof(header)) ||
      std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0)
    return drop();
  uint64_t rest = size - sizeof(header);
  if (header.keySize > rest || header.reportSize > rest - header.keySize ||
      header.programSize != rest - header.keySize - header.reportSize)
    return drop();
  std::vector<uint8_t> body(rest);
  if (!readAll(file.fd, body.data(), body.size()) || checksumOf(header, body.data(), body.size()) != header.checksum)
    return drop();
  const char *text = reinterpret_cast<const char *>(body.data());
  if (std::string_view(text, header.keySize) != key)
    return std::nullopt; // another program with this hash
  if (time(nullptr) - s.st_mtime > kUseGranularity)
    futimens(file.fd, nullptr);
  Entry entry;
  entry.report.assign(text + header.keySize, header.reportSize);
  body.erase(body.begin(), body.begin() + header.keySize + header.reportSize);
  entry.program = std::move(body);
  return entry;
}

void DiskCache::write(std::string_view key, std::string_view report, const std::vector<uint8_t> &program) {
  int dir = folder();
  uint64_t size = sizeof(Header) + key.size() + report.size() + program.size();
  if (dir < 0 || !writable.load(std::memory_order_relaxed) || size > limitBytes)
    return;
  std::vector<uint8_t> body;
  body.reserve(size);
  body.insert(body.end(), key.begin(), key.end());
  body.insert(body.end(), report.begin(), report.end());
  body.insert(body.end(), program.begin(), program.end());
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.keySize = key.size();
  header.reportSize = report.size();
  header.programSize = program.size();
  header.checksum = checksumOf(header, body.data(), body.size());

  // A name that no other writer uses: process, count, and time against a recycled process number.
  static std::atomic<uint64_t> counter{0};
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  std::string temporary = ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(counter++) + "-" +
                          std::to_string(now.tv_sec) + std::to_string(now.tv_nsec);
  File file(openat(dir, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.fd < 0)
    return giveUp(std::strerror(errno));
  // No fsync: after a crash of the machine the checksum tells.
  if (!writeAll(file.fd, &header, sizeof(header)) || !writeAll(file.fd, body.data(), body.size()) ||
      renameat(dir, temporary.c_str(), dir, fileName(key).c_str()) != 0) {
    int error = errno;
    unlinkat(dir, temporary.c_str(), 0);
    return giveUp(std::strerror(error));
  }
  written.fetch_add(1, std::memory_order_relaxed);
  // Looking at all entries costs a stat each, so it is done for every 1/16 of the limit that was written.
  uint64_t before = sinceEviction.load(std::memory_order_relaxed);
  if (before == UINT64_MAX || before + size > limitBytes / 16)
    evict();
  else
    sinceEviction.fetch_add(size, std::memory_order_relaxed);
}

void DiskCache::remove(std::string_view key) {
  if (int dir = folder(); dir >= 0) {
    damaged.fetch_add(1, std::memory_order_relaxed);
    unlinkat(dir, fileName(key).c_str(), 0);
  }
}

void DiskCache::evict() {
  sinceEviction.store(0, std::memory_order_relaxed);
  int copy = openat(folder(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy < 0 ? nullptr : fdopendir(copy);
  if (!list) {
    if (copy >= 0)
      close(copy);
    return;
  }
  struct Item {
    std::string name;
    uint64_t bytes;
    struct timespec used;
  };
  std::vector<Item> items;
  uint64_t total = 0;
  while (const dirent *entry = readdir(list)) {
    std::string name = entry->d_name;
    struct stat s;
    bool temporary = name.starts_with(".tmp-");
    if ((!temporary && !name.ends_with(".twp")) || fstatat(dirfd(list), name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (temporary) {
      if (time(nullptr) - s.st_mtime > kAbandonedSeconds)
        unlinkat(dirfd(list), name.c_str(), 0);
      continue;
    }
    auto bytes = static_cast<uint64_t>(s.st_size);
    total += bytes;
    items.push_back({std::move(name), bytes, s.st_mtim});
  }
  if (total > limitBytes) {
    std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
      return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
    });
    for (const Item &item : items) {
      if (total <= limitBytes / 5 * 4) // some room, so that this is not done again at once
        break;
      if (unlinkat(dirfd(list), item.name.c_str(), 0) == 0)
        evicted.fetch_add(1, std::memory_order_relaxed);
      total -= item.bytes;
    }
  }
  closedir(list);
}

} // namespace tilewright
