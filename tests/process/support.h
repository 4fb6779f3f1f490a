// Helpers with which tests of processes look from outside.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <dirent.h>
#include <fstream>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace lockstep::testing_support {

inline std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = opendir(folder.c_str());
  if (!open) return names;
  while (const dirent* entry = readdir(open))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  closedir(open);
  return names;
}

inline size_t descriptors_of(pid_t pid) {
  return entries("/proc/" + std::to_string(pid) + "/fd").size();
}

inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& name : entries("/proc")) {
    std::ifstream file("/proc/" + name + "/stat");
    std::string line;
    std::getline(file, line);
    const auto end = line.rfind(')');
    if (end != std::string::npos && std::atoi(line.c_str() + end + 4) == parent)
      children.push_back(std::atoi(name.c_str()));
  }
  return children;
}

// Looks again and again until it holds; false if it never does within half a minute.
inline bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

// No process of that number, or one that is dead and not yet waited for.
inline bool is_gone(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  const char state = line[line.rfind(')') + 2];
  return state == 'Z' || state == 'X';
}

// This process leaves as many descriptors and children behind as it had.
class LeavesNothing : public ::testing::Test {
 protected:
  void SetUp() override {
    descriptors_ = descriptors_of(getpid());
    ASSERT_EQ(children_of(getpid()).size(), 0u);
  }
  void TearDown() override {
    EXPECT_EQ(descriptors_of(getpid()), descriptors_);
    EXPECT_EQ(children_of(getpid()).size(), 0u);
  }

 private:
  size_t descriptors_ = 0;
};

}  // namespace lockstep::testing_support
