#include "harness/process/stacks.h"

#include "harness/process/descriptor.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

StackBoard* answered_board = nullptr;

int stack_signal() {
  return SIGRTMIN + 7;
}

// In the thread that was told. Nothing here allocates or locks: backtrace has been used before.
void write_own_stack(int) {
  const int saved = errno;
  StackBoard& board = *answered_board;
  const uint32_t place = board.used.fetch_add(1);
  if (place < StackBoard::kThreadsMost) {
    auto& slot = board.slots[place];
    void* frames[StackBoard::kFramesMost];
    const int count = backtrace(frames, static_cast<int>(StackBoard::kFramesMost));
    for (int i = 0; i < count; ++i) slot.frames[i] = reinterpret_cast<uint64_t>(frames[i]);
    slot.thread.store(static_cast<int>(syscall(SYS_gettid)));
    slot.count.store(count);
  }
  errno = saved;
}

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<int> threads_of(pid_t pid) {
  std::vector<int> threads;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone))
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  std::sort(threads.begin(), threads.end());
  return threads;
}

// "stopped"; "sleeping in futex_wait_queue".
std::string kernels_word(const std::string& task) {
  const std::string stat = first_line(task + "/stat");
  const auto end = stat.rfind(')');
  const char state = end == std::string::npos ? '?' : stat[end + 2];
  static const std::map<char, std::string> kStates{{'R', "running"},
                                                   {'S', "sleeping"},
                                                   {'D', "waiting for a device"},
                                                   {'T', "stopped"},
                                                   {'t', "stopped by a debugger"},
                                                   {'Z', "dead"}};
  const auto found = kStates.find(state);
  const std::string word = found == kStates.end() ? "gone" : found->second;
  const std::string where = first_line(task + "/wchan");
  return where.empty() || where == "0" ? word : word + " in " + where;
}

// The handler itself, and the frame by which the kernel called it. The next one was interrupted:
// its address is the instruction it was about to do, where all others are behind a call.
constexpr size_t kFramesOfHandler = 2;

std::vector<uint64_t> frames_in(const StackBoard::Slot& slot) {
  const auto count = static_cast<size_t>(std::max(0, slot.count.load()));
  std::vector<uint64_t> frames(slot.frames, slot.frames + count);
  frames.erase(frames.begin(),
               frames.begin() + static_cast<long>(std::min(kFramesOfHandler, count)));
  if (!frames.empty()) ++frames.front();
  return frames;
}

// "function at /folder/of/file.cpp:12 (discriminator 6)" without the folder and what is behind.
FrameLine shortened(std::string line) {
  if (const auto behind = line.rfind(" (discriminator "); behind != std::string::npos)
    line.resize(behind);
  const auto at = line.rfind(" at ");
  const auto slash = line.rfind('/');
  const bool is_librarys =
      line.find("/torch/include/") != std::string::npos || line.ends_with(":?");
  if (at == std::string::npos || slash == std::string::npos || slash < at)
    return {line, is_librarys};
  return {line.substr(0, at + 4) + line.substr(slash + 1), is_librarys};
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> block{};
  for (ssize_t got = 0; (got = read(descriptor, block.data(), block.size())) > 0;)
    text.append(block.data(), static_cast<size_t>(got));
  return text;
}

// What addr2line says of each place in a file: "function at file:line", and behind it the functions
// into which that was inlined; nothing where it is not installed or knows nothing.
std::vector<std::vector<std::string>> asked_of_addr2line(const std::string& file,
                                                         const std::vector<uint64_t>& places) {
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
  pid_t child = -1;
  const int failed = posix_spawnp(&child, "addr2line", &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  theirs.close();
  if (failed != 0) return {};
  std::istringstream text(read_all(ours.number()));
  waitpid(child, nullptr, 0);
  const std::string inlined = " (inlined by) ";
  std::vector<std::vector<std::string>> told;
  for (std::string line; std::getline(text, line);) {
    const bool goes_on = line.starts_with(inlined) && !told.empty();
    if (!goes_on) told.emplace_back();
    if (line.find("??") == std::string::npos)
      told.back().push_back(goes_on ? line.substr(inlined.size()) : line);
  }
  return told.size() == places.size() ? told : decltype(told)();
}

}  // namespace

void answer_on(StackBoard& board) {
  answered_board = &board;
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs
  struct sigaction action {};
  action.sa_handler = write_own_stack;
  action.sa_flags = SA_RESTART;
  sigaction(stack_signal(), &action, nullptr);
}

std::vector<ThreadStack> stacks_of(pid_t pid, StackBoard& board,
                                   std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (auto& slot : board.slots) {
    slot.thread.store(0);
    slot.count.store(0);
  }
  board.used.store(0);
  const std::string process = "/proc/" + std::to_string(pid) + "/task/";
  std::map<int, ThreadStack> stacks;
  size_t told = 0;
  for (const int thread : threads_of(pid)) {
    const std::string task = process + std::to_string(thread);
    stacks[thread] = {.thread = thread,
                      .name = first_line(task + "/comm"),
                      .frames = {},
                      .instead = kernels_word(task)};
    const bool can_answer =
        !stacks[thread].instead.starts_with("stopped") && told < StackBoard::kThreadsMost;
    if (can_answer && syscall(SYS_tgkill, pid, thread, stack_signal()) == 0) ++told;
  }
  const auto answers = [&] {
    return static_cast<size_t>(std::count_if(std::begin(board.slots), std::end(board.slots),
                                             [](const auto& slot) { return slot.count > 0; }));
  };
  while (answers() < told && Clock::now() < deadline) poll(nullptr, 0, 1);
  for (const auto& slot : board.slots) {
    const auto found = stacks.find(slot.thread.load());
    if (slot.count.load() == 0 || found == stacks.end()) continue;
    found->second.frames = frames_in(slot);
    found->second.instead.clear();
  }
  std::vector<ThreadStack> out;
  for (auto& [thread, stack] : stacks) out.push_back(std::move(stack));
  return out;
}

std::vector<uint64_t> own_stack() {
  constexpr int kFramesMost = 32;
  void* frames[kFramesMost];
  const int count = backtrace(frames, kFramesMost);
  std::vector<uint64_t> out;
  for (int i = 1; i < count; ++i) out.push_back(reinterpret_cast<uint64_t>(frames[i]));
  return out;
}

KnownFrames lines_at(const std::set<uint64_t>& addresses) {
  KnownFrames lines;
  std::map<std::string, std::vector<std::pair<uint64_t, uint64_t>>> unknown;  // by file
  for (const auto address : addresses) {
    // A return address is behind its call.
    const uint64_t call = address - 1;
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(call), &info) == 0 || !info.dli_fname) {
      lines[address] = {{"at an address of no file", true}};
      continue;
    }
    const auto file = std::filesystem::path(info.dli_fname).filename().string();
    const auto name = info.dli_sname ? demangled(info.dli_sname) : "a function";
    lines[address] = {{name + " in " + file, true}};
    if (!info.dli_sname)
      unknown[info.dli_fname].emplace_back(address,
                                           call - reinterpret_cast<uint64_t>(info.dli_fbase));
  }
  for (const auto& [file, all] : unknown) {
    std::vector<uint64_t> places;
    for (const auto& [address, place] : all) places.push_back(place);
    // This program goes by the name it was started with, wherever that was.
    std::error_code none;
    const bool is_here = std::filesystem::exists(file, none);
    const auto told = asked_of_addr2line(
        is_here ? file : std::filesystem::read_symlink("/proc/self/exe", none).string(), places);
    for (size_t i = 0; i < told.size(); ++i) {
      if (told[i].empty()) continue;
      auto& of_frame = lines[all[i].first];
      of_frame.clear();
      for (const auto& line : told[i]) of_frame.push_back(shortened(line));
    }
  }
  return lines;
}

std::vector<std::string> lines_of(const ThreadStack& stack, const KnownFrames& known) {
  if (stack.frames.empty()) return {stack.instead};
  std::vector<std::string> lines;
  for (const auto frame : stack.frames)
    for (const auto& line : known.at(frame)) lines.push_back(line.text);
  return lines;
}

}  // namespace lockstep
