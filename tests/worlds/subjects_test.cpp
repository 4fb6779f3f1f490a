#include "harness/worlds/subjects.h"

#include "harness/process/shared_memory.h"
#include "harness/rank/injector.h"
#include "harness/rank/journal.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Subjects, AreFoundByNameInTheOrderGiven) {
  const Subjects subjects{Subject{.name = "b"}, Subject{.name = "a"}};
  EXPECT_EQ(subjects.names(), (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(subjects.contains("a"));
  EXPECT_FALSE(subjects.contains("c"));
  EXPECT_EQ(subjects.at("a").name, "a");
  EXPECT_EQ(Subjects().names(), std::vector<std::string>{});
}

TEST(Subjects, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const Subjects subjects{Subject{.name = "lockstep"}, Subject{.name = "c10d"}};
  try {
    subjects.at("lockstpe");
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(),
                 "no subject 'lockstpe' (did you mean 'lockstep'?); there are: lockstep, c10d");
  }
}

TEST(Subjects, MustHaveNamesOfTheirOwn) {
  EXPECT_THROW(Subjects({Subject{}}), std::invalid_argument);
  EXPECT_THROW(Subjects({Subject{.name = "a"}, Subject{.name = "a"}}), std::invalid_argument);
}

TEST(Subject, APartThatReturnsNullIsNamed) {
  const SharedMemory memory(4096);
  JournalWriter journal(memory.bytes());
  Injector injector({}, 0, journal);
  const Subject subject{
      .name = "empty",
      .wrap = [](std::shared_ptr<Model>, const Group&, const WrapOptions&) { return nullptr; },
      .shard = [](const ShardOptions&, RankContext&) { return nullptr; },
      .sync_batch_norm = [](const NormOptions&, const Group&) { return nullptr; }};
  RankContext here({.subject = subject, .journal = journal, .injector = injector});
  const auto sentence_of = [](const auto& call) -> std::string {
    try {
      call();
      return "";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  const std::string begins = "the subject 'empty' returned null from its part ";
  EXPECT_EQ(sentence_of([&] { wrap(here, nullptr, {}, Group()); }), begins + "wrap");
  EXPECT_EQ(sentence_of([&] { shard(here, {}); }), begins + "shard");
  EXPECT_EQ(sentence_of([&] { sync_batch_norm(here, {}, Group()); }), begins + "sync_batch_norm");
}

TEST(Subject, AnEmptyPartIsUnsupported) {
  const SharedMemory memory(4096);
  JournalWriter journal(memory.bytes());
  Injector injector({}, 0, journal);
  const Subject subject{.name = "bare"};
  RankContext here({.subject = subject, .journal = journal, .injector = injector});
  try {
    shard(here, {});
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "the subject 'bare' does not shard datasets");
  }
  EXPECT_THROW(wrap(here, nullptr, {}), Unsupported);
  EXPECT_THROW(sync_batch_norm(here, {}), Unsupported);
}

}  // namespace
}  // namespace lockstep
