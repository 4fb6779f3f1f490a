#include "harness/base/read_file.h"

#include "harness/base/fields.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class ReadFile : public testing::Test {
 protected:
  ReadFile() { fs::create_directory(folder_); }
  ~ReadFile() override { fs::remove_all(folder_); }

  fs::path written(const std::string& text) const {
    const auto path = folder_ / "file";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("lockstep_read_file_" + std::to_string(::getpid()));
};

std::string refusal_to_read(const fs::path& path) {
  try {
    read_file(path);
  } catch (const FieldError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(ReadFile, GivesEveryByte) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{200'000}}) {
    std::string text(size, '\0');
    for (size_t at = 0; at < size; ++at) text[at] = static_cast<char>(at * 7);
    EXPECT_EQ(read_file(written(text)), text);
  }
}

TEST_F(ReadFile, SaysWhyItCannot) {
  EXPECT_EQ(refusal_to_read("/no/such/file"),
            "/no/such/file: cannot be read: No such file or directory");
  EXPECT_EQ(refusal_to_read("/"), "/: cannot be read: it is a folder; expected a regular file");
  EXPECT_EQ(refusal_to_read("/dev/zero"),
            "/dev/zero: cannot be read: it is a device; expected a regular file");
}

TEST_F(ReadFile, WaitsForNoPipe) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal_to_read(pipe),
            pipe.string() + ": cannot be read: it is a pipe; expected a regular file");
}

TEST_F(ReadFile, ReadsUpToItsLimitAndNoMore) {
  const auto path = written("");
  fs::resize_file(path, kFileBytesMost);
  EXPECT_EQ(read_file(path).size(), static_cast<size_t>(kFileBytesMost));
  fs::resize_file(path, kFileBytesMost + 1);
  EXPECT_EQ(refusal_to_read(path),
            path.string() +
                ": cannot be read: it has 67,108,865 bytes; at most 67,108,864 "
                "are read");
}

}  // namespace
}  // namespace lockstep
