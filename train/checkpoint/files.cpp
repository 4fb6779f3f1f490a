#include "train/checkpoint/files.h"

#include "ddp/base/characters.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

[[noreturn]] void fail(const std::string& what, const std::string& why) {
  throw std::runtime_error("cannot " + printable(what) + ": " + why);
}

[[noreturn]] void fail(const std::string& what, int error) {
  fail(what, std::strerror(error));
}

void check(bool is_well, const std::string& what) {
  if (!is_well) fail(what, errno);
}

const std::string kPartial = ".partial", kBest = ".best";

// The name of the file that was `path` so many saves ago.
std::string older(const std::string& path, int age) {
  return path + "." + std::to_string(age);
}

const std::string kNoRegularFile = "it is no regular file";

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666)) {}
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Holds the file of this name for this process alone, as long as it is open.
void hold_alone(const Descriptor& file, const std::string& path) {
  struct stat is {
  }, named{};
  const bool is_held = ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
  check(is_held, "write " + path + ", which another process writes");
  const bool is_named = ::fstat(file.number(), &is) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                        is_same_file(is, named);
  if (!is_named) fail("write " + path + ", which another process writes", EWOULDBLOCK);
}

// Removes the file that a killed process left. Something else may be a trap that another user laid:
// a link to a file of this user's, or a pipe that nobody reads.
void remove_left_over(const std::string& path) {
  const Descriptor file(path, O_WRONLY | O_NOFOLLOW);
  if (!file.is_open() && errno == ENOENT) return;
  struct stat status {};
  const bool is_regular =
      file.is_open() && ::fstat(file.number(), &status) == 0 && S_ISREG(status.st_mode);
  if (!file.is_open() && errno != ELOOP && errno != ENXIO) fail("open " + path, errno);
  if (!is_regular) fail("write " + path, kNoRegularFile);
  hold_alone(file, path);
  check(::unlink(path.c_str()) == 0, "remove " + path);
}

// A new file, which nobody else has opened before.
Descriptor new_file(const std::string& path) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  Descriptor file(path, kNew);
  if (!file.is_open() && errno == EEXIST) {
    remove_left_over(path);
    file = Descriptor(path, kNew);
  }
  check(file.is_open(), "open " + path);
  hold_alone(file, path);
  return file;
}

// Renames are on the disk when their folder is.
void flush_folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const Descriptor folder(parent.empty() ? "." : parent.string(), O_RDONLY | O_DIRECTORY);
  check(folder.is_open(), "open its folder");
  check(::fsync(folder.number()) == 0, "write its folder to disk");
}

void rename_file(const std::string& from, const std::string& to) {
  check(std::rename(from.c_str(), to.c_str()) == 0, "rename " + from + " to " + to);
}

// Gives the file a second name, in place of a file that has it.
void name_too(const std::string& path, const std::string& second) {
  const std::string beside = second + kPartial;
  ::unlink(beside.c_str());
  check(::link(path.c_str(), beside.c_str()) == 0, "link " + path + " to " + beside);
  rename_file(beside, second);
}

// A rename would put a file in the place of a device or a pipe, which others use. It replaces a
// link, and not the file that the link names.
void require_replaceable(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) fail("write " + path, kNoRegularFile);
}

void require_replaceable(const std::string& path, int keep_last, bool is_best) {
  const auto with_what_is_beside = [](const std::string& second) {
    require_replaceable(second);
    require_replaceable(second + kPartial);
  };
  require_replaceable(path);
  for (int age = 1; age < keep_last; ++age) with_what_is_beside(older(path, age));
  if (is_best) with_what_is_beside(path + kBest);
}

// `path` itself stays until the new file takes its name.
void shift_older(const std::string& path, int keep_last) {
  for (int age = keep_last - 1; age > 1; --age)
    if (std::filesystem::exists(older(path, age - 1)))
      rename_file(older(path, age - 1), older(path, age));
  if (keep_last > 1 && std::filesystem::exists(path)) name_too(path, older(path, 1));
}

}  // namespace

void replace_file(const std::string& path, const std::function<void(const Write& write)>& produce,
                  int keep_last, bool is_best) {
  require_replaceable(path, keep_last, is_best);
  const std::string partial = path + kPartial;
  const Descriptor file = new_file(partial);
  int error = 0;  // the first one; the rest is not written
  produce([&](const void* bytes, std::size_t size) {
    const auto* at = static_cast<const char*>(bytes);
    while (size > 0 && error == 0) {
      const ssize_t written = ::write(file.number(), at, size);
      if (written < 0 && errno != EINTR) error = errno;
      if (written <= 0) continue;
      at += written;
      size -= static_cast<std::size_t>(written);
    }
  });
  if (error != 0) fail("write " + partial, error);
  check(::fsync(file.number()) == 0, "write " + partial + " to disk");
  shift_older(path, keep_last);
  rename_file(partial, path);
  if (is_best) name_too(path, path + kBest);
  flush_folder_of(path);
}

}  // namespace lockstep
