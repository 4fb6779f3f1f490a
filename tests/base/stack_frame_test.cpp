#include "harness/base/stack_frame.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using From = StackFrame::Origin;

StackFrame at(std::string function, std::string file, int line, From origin = From::program) {
  return {.function = std::move(function), .file = std::move(file), .line = line, .origin = origin};
}
StackFrame in(std::string function, std::string library) {
  return {.function = std::move(function), .library = std::move(library)};
}

TEST(StackFrame, ItsTextIsItsFunctionAndItsPlace) {
  EXPECT_EQ(at("f(int)", "a.cpp", 3).text(), "f(int) at a.cpp:3");
  EXPECT_EQ(at("f(int)", "a.cpp", 0).text(), "f(int) at a.cpp");
  EXPECT_EQ(in("f(int)", "libc.so.6").text(), "f(int) in libc.so.6");
  EXPECT_EQ(in("", "libc.so.6").text(), "a function in libc.so.6");
  EXPECT_EQ(StackFrame{}.text(), "at an address of no file");
}

TEST(StackFrame, ItsShortTextHasTheFunctionsNameAlone) {
  const std::vector<std::pair<StackFrame, std::string>> frames{
      {at("main", "train.cpp", 12), "main at train.cpp:12"},
      {at("lockstep::(anonymous namespace)::spins(std::atomic<int>&)", "toys.cpp", 7),
       "lockstep::spins at toys.cpp:7"},
      {at("void lockstep::Bucket<float, (Kind)2>::pack<at::Tensor>(at::Tensor const&) const",
          "bucket.h", 40),
       "lockstep::Bucket::pack at bucket.h:40"},
      {at("lockstep::run(std::function<void (int)>)::{lambda(int)#1}::operator()(int) const",
          "a.cpp", 3),
       "lockstep::run::{lambda#1}::operator() at a.cpp:3"},
      {at("bool lockstep::operator<(lockstep::Key const&, lockstep::Key const&)", "key.h", 9),
       "lockstep::operator< at key.h:9"},
      {at("std::ostream& lockstep::operator<< <char>(std::ostream&, char)", "out.h", 2),
       "lockstep::operator<< at out.h:2"},
      {in("operator new(unsigned long)", "libstdc++.so.6"), "operator new in libstdc++.so.6"},
      {in("c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >)",
          "libtorch_cpu.so"),
       "c10d::Work::wait in libtorch_cpu.so"},
      {in("", "libc.so.6"), "a function in libc.so.6"},
      {StackFrame{}, "at an address of no file"},
      {at("f(int) [clone .cold]", "a.cpp", 0), "f at a.cpp"},
      {at("(unknown)", "a.cpp", 4), "(unknown) at a.cpp:4"}};
  for (const auto& [frame, text] : frames) EXPECT_EQ(frame.short_text(), text);
}

TEST(StackFrame, AStoryHasTheInnermostFrameAndThoseWithLinesOfTheProgram) {
  EXPECT_EQ(
      story_of({at("__pthread_kill_implementation", "pthread_kill.c", 44),
                in("gsignal", "libc.so.6"), in("abort", "libc.so.6"),
                at("lockstep::act(int)", "toys.cpp", 80),
                at("void std::__invoke_impl<void>()", "invoke.h", 61),
                at("make_shared<Toy>", "shared_ptr.h", 9, From::standard_library),
                in("torch::autograd::Engine::go()", "libtorch_cpu.so"),
                at("lockstep::program(Toy const&)", "toys.cpp", 99),
                at("lockstep::scenario<Toy>(Spec<Toy>)::{lambda()#1}::operator()() const",
                   "scenario_inl.h", 41),
                at("lockstep::RankRun::run()", "rank_run.cpp", 77), at("main", "main.cpp", 3)}),
      (std::vector<std::string>{"lockstep::act at toys.cpp:80",
                                "lockstep::program at toys.cpp:99"}));
}

TEST(StackFrame, AStoryOfAHangBeginsWithWhatItWaitsIn) {
  EXPECT_EQ(
      story_of(
          {in("__futex_abstimed_wait_common", "libc.so.6"), in("pthread_cond_wait", "libc.so.6"),
           in("std::condition_variable::wait(std::unique_lock<std::mutex>&)", "libstdc++.so.6"),
           in("c10d::Store::wait(int)", "libtorch_cpu.so"), at("f()", "a.cpp", 1)}),
      (std::vector<std::string>{"pthread_cond_wait in libc.so.6", "f at a.cpp:1"}));
}

TEST(StackFrame, AStoryEndsAtMain) {
  EXPECT_EQ(story_of({at("f()", "a.cpp", 1), at("main", "a.cpp", 2), at("_start", "start.S", 3)}),
            (std::vector<std::string>{"f at a.cpp:1", "main at a.cpp:2"}));
}

TEST(StackFrame, AStoryOfNoFunctionOfTheProgramIsTheFirstName) {
  EXPECT_EQ(story_of({in("", "libc.so.6"), in("raise", "libc.so.6"),
                      at("std::_Function_handler<void ()>::_M_invoke()", "std_function.h", 290),
                      at("lockstep::RankRun::run()", "rank_run.cpp", 77)}),
            (std::vector<std::string>{"raise in libc.so.6"}));
}

TEST(StackFrame, AStoryWithoutNamesIsTheFirstFrame) {
  EXPECT_EQ(story_of({in("", "libc.so.6"), in("", "libc.so.6")}),
            (std::vector<std::string>{"a function in libc.so.6"}));
}

}  // namespace
}  // namespace lockstep
