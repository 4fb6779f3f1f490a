#include "harness/process/stacks.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

StackBoard* answered_board = nullptr;

int stack_signal() {
  return SIGRTMIN + 7;
}

int own_thread() {
  return static_cast<int>(syscall(SYS_gettid));
}

// In a handler, which returns to the kernel's frame; behind that is what the signal interrupted,
// and before it the handler, and a sanitizer's own frames. Nothing here allocates or locks:
// backtrace was called before. Inlined, so that the return address is the handler's.
[[gnu::always_inline]] inline void write_frames(StackBoard::Slot& slot) {
  void* frames[StackBoard::kFramesMost];
  const int count = backtrace(frames, static_cast<int>(StackBoard::kFramesMost));
  void** const end = frames + count;
  void** const kernels = std::find(frames, end, __builtin_return_address(0));
  void** const first = kernels == end ? frames : kernels + 1;
  std::transform(first, end, slot.frames,
                 [](void* frame) { return reinterpret_cast<uint64_t>(frame); });
  slot.count.store(static_cast<int>(end - first));
}

// In the thread that received the signal.
void write_own_stack(int) {
  const int saved = errno;
  StackBoard& board = *answered_board;
  const uint32_t place = board.used.fetch_add(1);
  if (place < StackBoard::kThreadsMost) {
    board.slots[place].thread.store(own_thread());
    write_frames(board.slots[place]);
  }
  errno = saved;
}

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

// More than the handler and the kernel's frame with all registers need on any processor.
constexpr size_t kSignalStackBytes = size_t{64} << 10;

StackBoard::Slot* crash_slot = nullptr;
pid_t crash_process = 0;  // processes that it forks do not use the slot

// Raised again, the signal ends the process when this handler returns.
void write_crash(int signal) {
  int first = 0;
  const int self = own_thread();
  if (getpid() == crash_process) {
    if (crash_slot->thread.compare_exchange_strong(first, self)) {
      prctl(PR_GET_NAME, crash_slot->name);
      write_frames(*crash_slot);
    } else if (first != self) {
      for (;;) pause();  // the other thread writes, and ends the process
    }
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
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

// The letter of a thread's state: 'S' of one that sleeps.
char state_of(const std::string& task) {
  const std::string stat = first_line(task + "/stat");
  const auto end = stat.rfind(')');
  return end == std::string::npos ? '?' : stat[end + 2];
}

// "stopped"; "sleeping in futex_wait_queue".
std::string kernels_word(const std::string& task, char state) {
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

// The first function was interrupted: its address is the instruction it was about to execute, where
// all others are after a call.
std::vector<uint64_t> frames_in(const StackBoard::Slot& slot) {
  const auto count = static_cast<size_t>(std::max(0, slot.count.load()));
  std::vector<uint64_t> frames(slot.frames, slot.frames + count);
  if (!frames.empty()) ++frames.front();
  return frames;
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
  for (auto& slot : board.slots) clear(slot);
  board.used.store(0);
  const std::string process = "/proc/" + std::to_string(pid) + "/task/";
  std::map<int, ThreadStack> stacks;
  size_t signalled = 0;
  for (const int thread : threads_of(pid)) {
    const std::string task = process + std::to_string(thread);
    const char state = state_of(task);
    const bool is_stopped = state == 'T' || state == 't';
    stacks[thread] = {.thread = thread,
                      .name = first_line(task + "/comm"),
                      .frames = {},
                      .instead = kernels_word(task, state),
                      .is_stopped = is_stopped};
    const bool can_answer = !is_stopped && signalled < StackBoard::kThreadsMost;
    if (can_answer && syscall(SYS_tgkill, pid, thread, stack_signal()) == 0) ++signalled;
  }
  const auto answers = [&] {
    return static_cast<size_t>(std::count_if(std::begin(board.slots), std::end(board.slots),
                                             [](const auto& slot) { return slot.count > 0; }));
  };
  while (answers() < signalled && Clock::now() < deadline) poll(nullptr, 0, 1);
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

void record_crash_in(StackBoard::Slot& slot) {
  crash_slot = &slot;
  crash_process = getpid();
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs
  thread_local const SignalStack stack;
  for (const int signal : kCrashes) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = write_crash;
    action.sa_flags = SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
}

SignalStack::SignalStack() : memory_(new std::byte[kSignalStackBytes]) {
  const stack_t stack{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = kSignalStackBytes};
  sigaltstack(&stack, nullptr);
}

SignalStack::~SignalStack() {
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
}

std::optional<ThreadStack> crash_in(const StackBoard::Slot& slot) {
  if (slot.count.load() == 0) return {};
  return ThreadStack{.thread = slot.thread.load(),
                     .name = std::string(slot.name, strnlen(slot.name, sizeof(slot.name))),
                     .frames = frames_in(slot),
                     .instead = {}};
}

void clear(StackBoard::Slot& slot) {
  slot.thread.store(0);
  slot.count.store(0);
}

std::vector<uint64_t> own_stack() {
  constexpr int kFramesMost = 32;
  void* frames[kFramesMost];
  const int count = backtrace(frames, kFramesMost);
  std::vector<uint64_t> out;
  for (int i = 1; i < count; ++i) out.push_back(reinterpret_cast<uint64_t>(frames[i]));
  return out;
}

}  // namespace lockstep
