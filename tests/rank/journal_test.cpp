#include "harness/rank/journal.h"

#include "harness/process/child_group.h"
#include "harness/process/shared_memory.h"
#include "tests/process/support.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>

namespace lockstep {
namespace {

using testing_support::eventually;

std::vector<std::byte> bytes_of(size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST(Journal, HoldsWhatWasAppendedInOrder) {
  const SharedMemory memory(1 << 16);
  JournalWriter writer(memory.bytes());
  writer.append(FrameKind::moment, {{"step", 3}, {"phase", "forward"}});
  writer.append(FrameKind::observation, {{"name", "x"}, {"dtype", "uint8"}, {"shape", {5}}},
                bytes_of(5, 7));
  const auto frames = JournalView(memory.bytes()).frames();
  ASSERT_EQ(frames.frames.size(), 2u);
  EXPECT_EQ(frames.frames[0].header["phase"], "forward");
  EXPECT_EQ(frames.frames[1].payload, bytes_of(5, 7));
  EXPECT_EQ(frames.tail, "");
}

TEST(Journal, ARecordThatIsNotCommittedIsNotThere) {
  const SharedMemory memory(1 << 16);
  JournalWriter writer(memory.bytes());
  writer.append(FrameKind::moment, {{"step", 0}, {"phase", "a"}});
  const auto committed = JournalView(memory.bytes()).bytes();
  write_frame(committed.data() + committed.size(), FrameKind::moment, "{}", nullptr, 0);
  const auto frames = JournalView(memory.bytes()).frames();
  EXPECT_EQ(frames.frames.size(), 1u);
  EXPECT_EQ(frames.tail, "");
}

// The records are long and nothing comes between them, so most kills strike inside one.
TEST(Journal, AWriterKilledInMidRecordLeavesEveryRecordItFinished) {
  const SharedMemory memory(size_t{256} << 20);
  for (size_t least = 1; least <= 40; ++least) {
    JournalView(memory.bytes()).clear();
    const pid_t writer = fork();
    if (writer == 0) {
      JournalWriter journal(memory.bytes());
      for (int i = 0;; ++i)
        journal.append(FrameKind::observation, {{"name", i}}, bytes_of(100'000, i));
    }
    const JournalView view(memory.bytes());
    ASSERT_TRUE(eventually([&] { return view.bytes().size() >= least * 100'000; }));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    const auto frames = view.frames();
    EXPECT_EQ(frames.tail, "");
    ASSERT_GE(frames.frames.size(), least - 1);
    for (size_t i = 0; i < frames.frames.size(); ++i) {
      ASSERT_EQ(frames.frames[i].header["name"], static_cast<int>(i));
      ASSERT_EQ(frames.frames[i].payload, bytes_of(100'000, static_cast<int>(i)));
    }
  }
}

TEST(Journal, ARecordThatDoesNotFitIsRefusedAndRemembered) {
  const SharedMemory memory(4096);
  JournalWriter writer(memory.bytes());
  writer.append(FrameKind::moment, {{"step", 0}, {"phase", "a"}});
  const JournalView view(memory.bytes());
  EXPECT_FALSE(view.overflowed());
  EXPECT_THROW(writer.append(FrameKind::observation, {{"name", "big"}}, bytes_of(5000, 0)),
               JournalFull);
  EXPECT_TRUE(view.overflowed());
  EXPECT_THROW(writer.append(FrameKind::moment, {{"step", 1}, {"phase", "a"}}), JournalFull)
      << "a history with a hole would be read as if it were whole";
  EXPECT_EQ(view.frames().frames.size(), 1u);
}

TEST(Journal, TheLastByteCanBeUsed) {
  const std::string header = Json{{"name", "x"}}.dump();
  const SharedMemory memory(sizeof(JournalHead) + framed_size(header.size(), 1000));
  JournalWriter writer(memory.bytes());
  writer.append(FrameKind::observation, {{"name", "x"}}, bytes_of(1000, 1));
  EXPECT_FALSE(JournalView(memory.bytes()).overflowed());
}

TEST(Journal, NothingFollowsTheEnding) {
  const SharedMemory memory(4096);
  JournalWriter writer(memory.bytes());
  writer.finish({Ending::Kind::threw, "no \xff text"});
  writer.append(FrameKind::done, {{"group", "world"}, {"sequence", 0}});
  const auto frames = JournalView(memory.bytes()).frames();
  ASSERT_EQ(frames.frames.size(), 1u);
  EXPECT_EQ(rank_history(frames, "here").ending.kind, Ending::Kind::threw);
}

TEST(Journal, AFileHoldsTheSameBytes) {
  const SharedMemory memory(4096);
  JournalWriter writer(memory.bytes());
  writer.append(FrameKind::observation, {{"name", "x"}, {"dtype", "uint8"}, {"shape", {3}}},
                bytes_of(3, 9));
  writer.finish({Ending::Kind::returned, ""});
  const auto file =
      std::filesystem::temp_directory_path() / ("journal_test." + std::to_string(getpid()));
  const JournalView view(memory.bytes());
  view.save(file);
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  std::filesystem::remove(file);
  EXPECT_EQ(text.str(), frames_of(rank_history(view.frames(), "here")));
}

}  // namespace
}  // namespace lockstep
