#include "harness/process/stacks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/wait.h>

namespace lockstep {
namespace {

using From = StackFrame::Origin;

[[gnu::noinline]] void is_looked_up() {
  asm volatile("");
}

// A folder of programs which is all of PATH while it lives. Each has lines of a shell.
class ProgramsInPath {
 public:
  explicit ProgramsInPath(const std::map<std::string, std::string>& lines_by_name) {
    for (const auto& [name, lines] : lines_by_name) {
      const auto file = folder_ / name;
      std::ofstream(file) << "#!/bin/sh\n" << lines << "\n";
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    setenv("PATH", folder_.c_str(), 1);
  }
  ~ProgramsInPath() {
    setenv("PATH", before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  ProgramsInPath(const ProgramsInPath&) = delete;
  ProgramsInPath& operator=(const ProgramsInPath&) = delete;

 private:
  static std::filesystem::path made() {
    auto name = (std::filesystem::temp_directory_path() / "lockstep-path-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no folder for programs could be made");
    return name;
  }
  const std::string before_ = getenv("PATH");
  const std::filesystem::path folder_ = made();
};

// The first frame of a function of this file, which only addr2line can name.
StackFrame frame_found(const std::function<bool()>& is_stopped) {
  const auto address = reinterpret_cast<uint64_t>(&is_looked_up) + 1;
  return frames_at({address}, is_stopped).at(address).at(0);
}
std::string line_found(const std::function<bool()>& is_stopped) {
  return frame_found(is_stopped).text();
}

constexpr bool (*kNever)() = [] { return false; };

TEST(FrameLines, AreThoseOfLlvmWhereItIsInstalled) {
  const std::string gnu = "echo found_by_gnu at /folder/file.cpp:7";
  const std::string llvm = "echo found_by_llvm at /folder/file.cpp:7";
  {
    const ProgramsInPath both({{"addr2line", gnu}, {"llvm-addr2line", llvm}});
    EXPECT_EQ(line_found(kNever), "found_by_llvm at file.cpp:7");
  }
  {
    const ProgramsInPath one({{"addr2line", gnu}});
    EXPECT_EQ(line_found(kNever), "found_by_gnu at file.cpp:7");
  }
  const ProgramsInPath none({});
  EXPECT_TRUE(line_found(kNever).starts_with("a function in ")) << line_found(kNever);
}

TEST(FrameLines, AreNotAwaitedOnceTheRunIsStopped) {
  const ProgramsInPath slow(
      {{"llvm-addr2line", "echo half of it\nwhile true; do read -r nothing <&1; done"}});
  int polls = 0;
  EXPECT_TRUE(line_found([&] { return ++polls > 2; }).starts_with("a function in "));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
}

StackFrame read_of(const std::string& line) {
  const ProgramsInPath one({{"addr2line", "echo '" + line + "'"}});
  return frame_found(kNever);
}

TEST(FrameLines, AreReadAsValues) {
  EXPECT_EQ(read_of("void f<int>(int) at /home/me/train.cpp:12 (discriminator 6)"),
            (StackFrame{.function = "void f<int>(int)",
                        .file = "train.cpp",
                        .line = 12,
                        .origin = From::program}));
  EXPECT_EQ(read_of("make_shared<int> at /usr/include/c++/12/bits/shared_ptr.h:712").origin,
            From::standard_library);
  EXPECT_EQ(read_of("at::add at /opt/torch/include/ATen/ops/add.h:30").origin, From::libtorch);
  for (const char* unknown : {"?", "0"}) {
    const auto frame = read_of(std::string("abort at /build/stdlib/abort.c:") + unknown);
    EXPECT_EQ(frame, (StackFrame{.function = "abort", .file = "abort.c"}));
  }
}

}  // namespace
}  // namespace lockstep
