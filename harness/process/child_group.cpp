#include "harness/process/child_group.h"

#include "harness/base/tier_errors.h"
#include "harness/process/system_limit.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <poll.h>
#include <set>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKillLimit{10};

// The child's first action. The kernel sends the signal when the parent dies; the parent's changed
// number shows that it died before the request.
void die_with(pid_t parent, pid_t group) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGTERM, SIG_DFL);
  if (getppid() != parent) _exit(0);
  setpgid(0, group);
}

// An exception must not unwind into the parent's frames, which the child has a copy of.
[[noreturn]] void run_child(const std::function<int(int)>& run, int index) noexcept {
  _exit(run(index));
}

bool ended_badly(const ChildEnd& end, int good_status) {
  return end.kind != ChildEnd::Kind::exited || end.code != good_status;
}

// The parent of process `pid`, or -1 if it is gone. The name before it may hold spaces and
// brackets.
pid_t parent_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return -1;
  return static_cast<pid_t>(std::atoi(line.c_str() + name_end + 4));
}

void kill_children(std::set<pid_t>& killed) {
  DIR* proc = opendir("/proc");
  if (!proc)
    throw TierError(
        "/proc cannot be read, so what a world left running is not found; mount it (mount -t proc "
        "proc /proc)");
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid > 0 && parent_of(entry->d_name) == getpid() && kill(pid, SIGKILL) == 0)
      killed.insert(pid);
  }
  closedir(proc);
}

}  // namespace

ChildGroup::ChildGroup(const SingleThreaded& alone, int count, const std::function<int(int)>& run) {
  children_.resize(static_cast<size_t>(count));
  const pid_t parent = getpid();
  for (int index = 0; index < count; ++index) {
    Child& child = children_[static_cast<size_t>(index)];
    const pid_t group = index == 0 ? 0 : children_.front().pid;
    child.pid = alone.fork();
    if (child.pid == 0) {
      die_with(parent, group);
      run_child(run, index);
    }
    if (child.pid > 0) {
      ++alive_;
      setpgid(child.pid, group);  // in both processes: either may be first
      child.descriptor = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
    }
    if (child.pid < 0 || child.descriptor.number() < 0) {
      const std::string why = reason_of(errno);
      end_all(ChildEnd::Kind::cut_off, SIGKILL);
      for (auto& each : children_)
        if (each.pid > 0) waitpid(each.pid, nullptr, 0);
      throw TierError("child " + std::to_string(index) + " of " + std::to_string(count) +
                      " could not be forked: " + why);
    }
  }
}

ChildGroup::~ChildGroup() {
  if (alive_ == 0) return;
  end_all(ChildEnd::Kind::cut_off, SIGKILL);
  for (auto& child : children_)
    if (child.descriptor.number() >= 0) waitpid(child.pid, nullptr, 0);
}

// The group may hold more than the children, and a child may have left the group.
void ChildGroup::end_all(ChildEnd::Kind why, int signal) {
  end_reason_ = why;
  sent_ = signal;
  if (children_.front().pid > 0) kill(-children_.front().pid, signal);
  for (const auto& child : children_)
    if (child.pid > 0 && child.descriptor.number() >= 0) kill(child.pid, signal);
}

void ChildGroup::signal(int number) const {
  if (!children_.empty()) kill(-children_.front().pid, number);
}

// True if `child` is gone now. One that ended just before it was cut off keeps its own end; how a
// child ends that received SIGTERM at the deadline does not matter, nor whether it ended before
// SIGKILL.
bool ChildGroup::collect(Child& child) {
  int status = 0;
  if (waitpid(child.pid, &status, WNOHANG) != child.pid) return false;
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (sent_ != 0 && (end_reason_ == ChildEnd::Kind::stuck || was_killed))
    child.end = {end_reason_, sent_};
  else if (WIFEXITED(status))
    child.end = {ChildEnd::Kind::exited, WEXITSTATUS(status)};
  else
    child.end = {ChildEnd::Kind::signalled, WTERMSIG(status)};
  child.descriptor.close();
  --alive_;
  return true;
}

namespace {

// True if there is something to read besides the hang-up of the other end.
bool has_said_something(int socket) {
  char byte = 0;
  return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

}  // namespace

std::vector<size_t> ChildGroup::awaited(const GroupWatch& watch) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].descriptor.number() < 0) continue;
    const bool reported =
        sent_ == 0 && !watch.reports.empty() && has_said_something(watch.reports[i]);
    if (!reported) out.push_back(i);
  }
  return out;
}

GroupReport ChildGroup::wait(const GroupWatch& watch) {
  GroupReport report;
  auto limit = watch.deadline;
  bool bad_end = false;
  const auto collect_all = [&] {
    for (auto& child : children_)
      if (child.descriptor.number() >= 0 && collect(child) && !bad_end && sent_ == 0 &&
          ended_badly(child.end, watch.good_status)) {
        bad_end = true;
        report.first_bad = static_cast<int>(&child - children_.data());
        limit = std::min(limit, Clock::now() + watch.grace);
        if (watch.on_bad_end) watch.on_bad_end();
      }
  };
  for (auto pending = awaited(watch); !pending.empty(); pending = awaited(watch)) {
    std::vector<pollfd> waited;
    for (const size_t i : pending) {
      waited.push_back({children_[i].descriptor.number(), POLLIN, 0});
      if (!watch.reports.empty()) waited.push_back({watch.reports[i], POLLIN, 0});
    }
    // One that has reported may still die while others are awaited.
    if (!watch.reports.empty())
      for (const auto& child : children_)
        if (child.descriptor.number() >= 0)
          waited.push_back({child.descriptor.number(), POLLIN, 0});
    if (sent_ == 0) waited.push_back({watch.stop_descriptor, POLLIN, 0});
    poll(waited.data(), waited.size(), milliseconds_until(limit));
    collect_all();
    if (awaited(watch).empty()) break;
    const bool late = Clock::now() >= limit;
    if (sent_ == SIGKILL && late)
      throw TierError("a rank outlived SIGKILL by " + std::to_string(kKillLimit.count()) + " s");
    if (sent_ == SIGKILL || (sent_ == SIGTERM && !late)) continue;
    if (sent_ == 0) {
      report.stopped = waited.back().revents != 0;
      if (!report.stopped && !late) continue;
    }
    const bool at_deadline = sent_ == 0 && !report.stopped && limit == watch.deadline;
    if (at_deadline && watch.on_deadline) {
      std::vector<std::pair<int, pid_t>> late_ones;
      for (const size_t i : awaited(watch))
        late_ones.emplace_back(static_cast<int>(i), children_[i].pid);
      watch.on_deadline(late_ones);
    }
    if (at_deadline) {
      end_all(ChildEnd::Kind::stuck, SIGTERM);
      limit = Clock::now() + watch.last_words;
    } else {
      end_all(sent_ == SIGTERM ? ChildEnd::Kind::stuck : ChildEnd::Kind::cut_off, SIGKILL);
      limit = Clock::now() + kKillLimit;
    }
  }
  for (const auto& child : children_) report.ends.push_back(child.end);
  return report;
}

void adopt_orphans() {
  checked(prctl(PR_SET_CHILD_SUBREAPER, 1), "adopting orphans");
}

int end_descendants() {
  std::set<pid_t> killed;
  const auto limit = Clock::now() + kKillLimit;
  for (;;) {
    const pid_t gone = waitpid(-1, nullptr, WNOHANG);
    if (gone == -1 && errno == ECHILD) return static_cast<int>(killed.size());
    if (gone != 0) continue;
    if (Clock::now() >= limit)
      throw TierError("a process that a rank left behind outlived SIGKILL by " +
                      std::to_string(kKillLimit.count()) + " s");
    kill_children(killed);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace lockstep
