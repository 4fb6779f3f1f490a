#include "harness/base/read_file.h"

#include "harness/base/characters.h"
#include "harness/base/fields.h"
#include "harness/base/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {

namespace {

constexpr size_t kBlockBytes = 1 << 16;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw FieldError(one_line(path.string()) + ": " + why);
}

[[noreturn]] void cannot_be_read(const std::filesystem::path& path, int error) {
  refuse(path, std::string("cannot be read: ") + std::strerror(error));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_readable(const std::filesystem::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode))
    refuse(path, "cannot be read: it is " + std::string(kind_of(status.st_mode)) +
                     "; expected a regular file");
  if (status.st_size > kFileBytesMost)
    refuse(path, "cannot be read: it has " + with_commas(status.st_size) + " bytes; at most " +
                     with_commas(kFileBytesMost) + " are read");
}

// Closes itself.
struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path)
      : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  const int number;
};

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) cannot_be_read(path, errno);
  require_readable(path, status);  // Opening a pipe would already affect its other end.
  const OpenFile file(path);
  if (file.number < 0 || ::fstat(file.number, &status) != 0) cannot_be_read(path, errno);
  require_readable(path, status);  // Another file may have replaced it since.
  std::string text;
  text.reserve(static_cast<size_t>(status.st_size) + kBlockBytes);
  for (;;) {
    const size_t had = text.size();
    text.resize(had + kBlockBytes);
    const ssize_t got = ::read(file.number, text.data() + had, kBlockBytes);
    const int error = errno;
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) cannot_be_read(path, error);
    status.st_size = static_cast<off_t>(text.size());
    require_readable(path, status);  // It may grow while it is read.
  }
}

}  // namespace lockstep
