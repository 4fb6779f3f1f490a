#include "harness/base/stack_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(StackText, AFrameIsItsFunctionAndItsPlace) {
  const std::vector<std::pair<std::string, std::string>> frames{
      {"main at train.cpp:12", "main at train.cpp:12"},
      {"lockstep::(anonymous namespace)::spins(std::atomic<int>&) at toys.cpp:7",
       "lockstep::spins at toys.cpp:7"},
      {"void lockstep::Bucket<float, (Kind)2>::pack<at::Tensor>(at::Tensor const&) const at "
       "bucket.h:40",
       "lockstep::Bucket::pack at bucket.h:40"},
      {"lockstep::run(std::function<void (int)>)::{lambda(int)#1}::operator()(int) const at "
       "a.cpp:3",
       "lockstep::run::{lambda#1}::operator() at a.cpp:3"},
      {"bool lockstep::operator<(lockstep::Key const&, lockstep::Key const&) at key.h:9",
       "lockstep::operator< at key.h:9"},
      {"std::ostream& lockstep::operator<< <char>(std::ostream&, char) at out.h:2",
       "lockstep::operator<< at out.h:2"},
      {"operator new(unsigned long) in libstdc++.so.6", "operator new in libstdc++.so.6"},
      {"c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >) in libtorch_cpu.so",
       "c10d::Work::wait in libtorch_cpu.so"},
      {"a function in libc.so.6", "a function in libc.so.6"},
      {"sleeping in futex_wait_queue", "sleeping in futex_wait_queue"},
      {"at an address of no file", "at an address of no file"},
      {"f(int) [clone .cold] at a.cpp:?", "f at a.cpp:?"},
      {"void toys::crashes(lockstep::RankContext&) at toys.cpp", "toys::crashes at toys.cpp"}};
  for (const auto& [line, text] : frames) EXPECT_EQ(short_frame(line), text);
}

TEST(StackText, AStoryHasTheInnermostFrameAndThoseWithLinesOfTheProgram) {
  EXPECT_EQ(
      story_of_stack({"__pthread_kill_implementation at pthread_kill.c:44", "gsignal in libc.so.6",
                      "abort in libc.so.6", "lockstep::act(int) at toys.cpp:80",
                      "void std::__invoke_impl<void>() at invoke.h:61",
                      "torch::autograd::Engine::go() in libtorch_cpu.so",
                      "lockstep::program(Toy const&) at toys.cpp:99",
                      "lockstep::scenario<Toy>(Spec<Toy>)::{lambda()#1}::operator()() const "
                      "at scenario_inl.h:41",
                      "lockstep::RankRun::run() at rank_run.cpp:77", "main at main.cpp:3"}),
      (std::vector<std::string>{"lockstep::act at toys.cpp:80",
                                "lockstep::program at toys.cpp:99"}));
}

TEST(StackText, AStoryOfAHangBeginsWithWhatItWaitsIn) {
  EXPECT_EQ(
      story_of_stack({"__futex_abstimed_wait_common in libc.so.6", "pthread_cond_wait in libc.so.6",
                      "std::condition_variable::wait(std::unique_lock<std::mutex>&) in "
                      "libstdc++.so.6",
                      "c10d::Store::wait(int) in libtorch_cpu.so", "f() at a.cpp:1"}),
      (std::vector<std::string>{"pthread_cond_wait in libc.so.6", "f at a.cpp:1"}));
}

TEST(StackText, AStoryEndsAtMain) {
  EXPECT_EQ(story_of_stack({"f() at a.cpp:1", "main at a.cpp:2", "_start at start.S:3"}),
            (std::vector<std::string>{"f at a.cpp:1", "main at a.cpp:2"}));
}

TEST(StackText, AStackWithoutTheProgramsFunctionsIsItsFirstName) {
  EXPECT_EQ(story_of_stack({"a function in libc.so.6", "raise in libc.so.6",
                            "std::_Function_handler<void ()>::_M_invoke() at std_function.h:290",
                            "lockstep::RankRun::run() at rank_run.cpp:77"}),
            (std::vector<std::string>{"raise in libc.so.6"}));
}

TEST(StackText, AStackWithoutNamesIsItsFirstLine) {
  EXPECT_EQ(story_of_stack({"a function in libc.so.6", "a function in libc.so.6"}),
            (std::vector<std::string>{"a function in libc.so.6"}));
}

}  // namespace
}  // namespace lockstep
