#include "ddp/checkpoint/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/file.h>
#include <unistd.h>

namespace lockstep {

namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error("cannot " + what + ": " + std::strerror(error));
}

void check(bool is_well, const std::string& what) {
  if (!is_well) fail(what, errno);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    check(number_ >= 0, "open " + path);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

// Renames are on the disk when their folder is.
void flush_folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const Descriptor folder(parent.empty() ? "." : parent.string(), O_RDONLY | O_DIRECTORY);
  check(::fsync(folder.number()) == 0, "write its folder to disk");
}

void rename_file(const std::string& from, const std::string& to) {
  check(std::rename(from.c_str(), to.c_str()) == 0, "rename " + from + " to " + to);
}

// Gives the file a second name, in place of a file that has it.
void name_too(const std::string& path, const std::string& second) {
  const std::string beside = second + ".partial";
  ::unlink(beside.c_str());
  check(::link(path.c_str(), beside.c_str()) == 0, "link " + path + " to " + beside);
  rename_file(beside, second);
}

// `path` itself stays until the new file takes its name.
void shift_older(const std::string& path, int keep_last) {
  const auto older = [&](int age) { return path + "." + std::to_string(age); };
  for (int age = keep_last - 1; age > 1; --age)
    if (std::filesystem::exists(older(age - 1))) rename_file(older(age - 1), older(age));
  if (keep_last > 1 && std::filesystem::exists(path)) name_too(path, older(1));
}

}  // namespace

void replace_file(const std::string& path, const std::function<void(const Write& write)>& produce,
                  int keep_last, bool is_best) {
  const std::string partial = path + ".partial";
  const Descriptor file(partial, O_WRONLY | O_CREAT);
  check(::flock(file.number(), LOCK_EX | LOCK_NB) == 0,
        "write " + partial + ", which another process writes");
  check(::ftruncate(file.number(), 0) == 0, "empty " + partial);
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
  if (is_best) name_too(path, path + ".best");
  flush_folder_of(path);
}

}  // namespace lockstep
