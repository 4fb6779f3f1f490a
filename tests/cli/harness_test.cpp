#include "lockstep/harness.h"

#include "cli/exit_codes.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Ended {
  int status = 0;
  std::string err;
};

Ended main_with(std::vector<Subject> subjects) {
  std::string program = "judged", command = "list";
  std::vector<char*> arguments{program.data(), command.data(), nullptr};
  testing::internal::CaptureStderr();
  const int status = main(2, arguments.data(), std::move(subjects));
  return {status, testing::internal::GetCapturedStderr()};
}

Subject sampler(const std::string& name) {
  return {.name = name, .shard = [](const ShardOptions&, RankContext&) -> std::unique_ptr<Shard> {
            throw Unsupported("never called");
          }};
}

void expect_refused(std::vector<Subject> subjects, const std::string& sentence) {
  const auto ended = main_with(std::move(subjects));
  EXPECT_EQ(ended.status, cli::kUsage);
  EXPECT_EQ(ended.err, "lockstep: " + sentence + "\n");
}

TEST(Harness, IsGivenASubject) {
  expect_refused({},
                 "lockstep::main was given no subject: call lockstep::main(argc, argv, "
                 "{my_subject()})");
}

TEST(Harness, IsGivenSubjectsWithNamesOfTheirOwn) {
  expect_refused({sampler("")}, "lockstep::main was given a subject without a name");
  expect_refused({sampler("a"), sampler("b"), sampler("a")},
                 "lockstep::main was given two subjects that are named 'a'");
  expect_refused({sampler("a,b")},
                 "the subject 'a,b' has a comma in its name, which separates names in --subject");
}

TEST(Harness, IsGivenSubjectsWithParts) {
  expect_refused({sampler("a"), {.name = "b"}},
                 "the subject 'b' has no part: give it one, such as wrap or shard");
}

}  // namespace
}  // namespace lockstep
