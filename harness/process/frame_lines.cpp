// Looks up frames: functions, files and lines.
#include "harness/base/text.h"
#include "harness/process/descriptor.h"
#include "harness/process/stacks.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {

namespace {

// A line of addr2line: "function at /folder/of/file.cpp:12 (discriminator 6)", with "?" or 0 for a
// line that is not known.
StackFrame read_frame(std::string line) {
  using Origin = StackFrame::Origin;
  if (const auto behind = line.rfind(" (discriminator "); behind != std::string::npos)
    line.resize(behind);
  const std::string_view between = " at ";
  const auto at = line.rfind(between);
  StackFrame frame{.function = line.substr(0, at)};
  if (at == std::string::npos) return frame;
  const std::filesystem::path path(line.substr(at + between.size()));
  const auto name = path.filename().string();
  const auto colon = name.rfind(':');
  frame.file = name.substr(0, colon);
  const auto number =
      colon == std::string::npos ? std::nullopt : parsed_int(name.substr(colon + 1));
  frame.line = static_cast<int>(number.value_or(0));
  frame.origin = frame.line == 0                                     ? Origin::unknown
                 : line.find("/include/c++/") != std::string::npos   ? Origin::standard_library
                 : line.find("/torch/include/") != std::string::npos ? Origin::libtorch
                                                                     : Origin::program;
  return frame;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// LLVM's reads what it needs of a file, 0.2 s for a program of 100 MB; that of binutils reads all
// of its debug information, 20 s and 700 MB of memory. Both write the same lines.
constexpr std::array kPrograms{"llvm-addr2line", "addr2line"};

// The first of them that is installed, or -1.
pid_t start_addr2line(std::vector<char*>& arguments, const posix_spawn_file_actions_t& actions) {
  pid_t child = -1;
  for (const char* program : kPrograms)
    if (posix_spawnp(&child, program, &actions, nullptr, arguments.data(), environ) == 0)
      return child;
  return -1;
}

// The output of a child that has ended; nothing where it was killed because `is_stopped`.
std::string output_of(pid_t child, int descriptor, const std::function<bool()>& is_stopped) {
  constexpr int kPoll_ms = 20;
  std::string text;
  std::array<char, 4096> block{};
  bool is_open = true, is_killed = false;
  while (is_open) {
    pollfd readable{descriptor, POLLIN, 0};
    if (poll(&readable, 1, kPoll_ms) <= 0) {
      is_killed = is_killed || is_stopped();
      if (is_killed) kill(child, SIGKILL);
      continue;
    }
    const auto got = read(descriptor, block.data(), block.size());
    if (got > 0) text.append(block.data(), static_cast<size_t>(got));
    is_open = got > 0;
  }
  waitpid(child, nullptr, 0);
  return is_killed ? "" : text;
}

// The output of addr2line for each place in a file: "function at file:line", then the functions
// into which that was inlined; nothing where none is installed or it finds nothing.
std::vector<std::vector<std::string>> asked_of_addr2line(const std::string& file,
                                                         const std::vector<uint64_t>& places,
                                                         const std::function<bool()>& is_stopped) {
  std::vector<std::string> arguments{"addr2line", "-C", "-f", "-i", "-p", "-e", file};
  for (const auto place : places) {
    std::ostringstream text;
    text << "0x" << std::hex << place;
    arguments.push_back(text.str());
  }
  std::vector<char*> raw;
  for (auto& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  Descriptor ours(ends[0]), theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.number(), STDOUT_FILENO);
  // A file that it cannot read has no lines, and its errors are not for the terminal.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const pid_t child = start_addr2line(raw, actions);
  posix_spawn_file_actions_destroy(&actions);
  theirs.close();
  if (child < 0) return {};
  std::istringstream text(output_of(child, ours.number(), is_stopped));
  const std::string inlined = " (inlined by) ";
  std::vector<std::vector<std::string>> answers;
  for (std::string line; std::getline(text, line);) {
    const bool goes_on = line.starts_with(inlined) && !answers.empty();
    if (!goes_on) answers.emplace_back();
    if (line.find("??") == std::string::npos)
      answers.back().push_back(goes_on ? line.substr(inlined.size()) : line);
  }
  return answers.size() == places.size() ? answers : decltype(answers)();
}

}  // namespace

KnownFrames frames_at(const std::set<uint64_t>& addresses,
                      const std::function<bool()>& is_stopped) {
  KnownFrames frames;
  std::map<std::string, std::vector<std::pair<uint64_t, uint64_t>>> unknown;  // by file
  for (const auto address : addresses) {
    // A return address is after its call.
    const uint64_t call = address - 1;
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(call), &info) == 0 || !info.dli_fname) {
      frames[address] = {StackFrame{}};
      continue;
    }
    frames[address] = {{.function = info.dli_sname ? demangled(info.dli_sname) : "",
                        .library = std::filesystem::path(info.dli_fname).filename().string()}};
    if (!info.dli_sname)
      unknown[info.dli_fname].emplace_back(address,
                                           call - reinterpret_cast<uint64_t>(info.dli_fbase));
  }
  for (const auto& [file, all] : unknown) {
    std::vector<uint64_t> places;
    for (const auto& [address, place] : all) places.push_back(place);
    // The name of this program is the one it was started with, wherever that was.
    std::error_code none;
    const bool is_here = std::filesystem::exists(file, none);
    const auto answers = asked_of_addr2line(
        is_here ? file : std::filesystem::read_symlink("/proc/self/exe", none).string(), places,
        is_stopped);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].empty()) continue;
      auto& of_call = frames[all[i].first];
      of_call.clear();
      for (const auto& line : answers[i]) of_call.push_back(read_frame(line));
    }
  }
  return frames;
}

Stack frames_of(const ThreadStack& stack, const KnownFrames& known) {
  Stack frames;
  for (const auto address : stack.frames) {
    const auto& of_call = known.at(address);
    frames.insert(frames.end(), of_call.begin(), of_call.end());
  }
  return frames;
}

}  // namespace lockstep
