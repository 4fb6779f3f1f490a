// Saving: what is refused, and what is left where saving fails or is killed.
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint.h"
#include "train/checkpoint/archive.h"
#include "train/checkpoint/model_state.h"
#include "train/checkpoint/stored_records.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::make_net;
using testing::run_world;
using testing::same;
using testing::sentence_of;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

TEST(SavedCheckpoints, StayWholeWhereTheNextCannotBeWritten) {
  const TemporaryFolder folder;
  const auto reports = run_world(2, [&](const Group& group) {
    std::int64_t step = 1;
    auto net = make_net();
    const std::string path = folder / "a.pt";
    save_checkpoint(path, group, {.model = &*net, .step = &step});
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 1000;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    step = 2;
    std::string report =
        sentence_of([&] { save_checkpoint(path, group, {.model = &*net, .step = &step}); });
    load_checkpoint(path, group, {.step = &step});
    return report + " | " + std::to_string(step) + " | " +
           sentence_of([&] { save_checkpoint(folder / "none/a.pt", group, {.step = &step}); });
  });
  const std::string path = folder / "a.pt";
  EXPECT_EQ(reports, same(2, "rank 0 of 2 cannot take part: save_checkpoint: " + path +
                                 ": cannot write " + path +
                                 ".partial: File too large | 1 | rank 0 of 2 cannot take part: "
                                 "save_checkpoint: " +
                                 (folder / "none/a.pt") + ": cannot open " +
                                 (folder / "none/a.pt.partial") + ": No such file or directory"));
}

// torch::pickle_load refuses another beginning.
TEST(SavedCheckpoints, BeginWithTheProtocolOfTheirPickle) {
  const TemporaryFolder folder;
  const auto reports = run_world(1, [&](const Group& group) {
    std::int64_t step = 1;
    save_checkpoint(folder / "a.pt", group, {.step = &step});
    return StoredRecords(folder / "a.pt").text("data.pkl").substr(0, 2);
  });
  EXPECT_EQ(reports, same(1, "\x80\x02"));
}

TEST(SavedCheckpoints, AreRefusedWhereWhatIsGivenCannotBeSaved) {
  const TemporaryFolder folder;
  const auto reports = run_world(2, [&](const Group& group) {
    const std::string path = folder / "a.pt";
    const Checkpoint undefined{.generators = {at::Generator()}};
    std::int64_t step = 1;
    const Checkpoint used{.samples_used = 9, .step = &step};
    std::string report;
    for (const auto& act :
         std::vector<std::function<void()>>{[&] { save_checkpoint(path, group, undefined); },
                                            [&] { load_checkpoint(path, group, undefined); },
                                            [&] { save_checkpoint(path, group, used); },
                                            [&] { save_checkpoint("", group, {.step = &step}); },
                                            [&] { load_checkpoint("", group, {.step = &step}); }}) {
      std::string sentence = sentence_of(act);
      const std::string all = "ranks 0 and 1 of 2 cannot take part: ";
      if (sentence.starts_with(all)) sentence.erase(0, all.size());
      report += sentence + " | ";
    }
    return report + (fs::exists(path) || fs::exists(".partial") ? "exists" : "");
  });
  EXPECT_EQ(reports, same(2,
                          "save_checkpoint: generator 0 is undefined | load_checkpoint: generator "
                          "0 is undefined | save_checkpoint: samples_used is 9, and there is no "
                          "sampler | save_checkpoint: the path is empty | load_checkpoint: the "
                          "path is empty | "));
}

[[noreturn]] void save_without_end(const std::string& path, std::atomic<std::int64_t>& saved) {
  ::alarm(60);
  const auto group = init_process_group({.store = c10::make_intrusive<c10d::HashStore>(),
                                         .rank = 0,
                                         .world_size = 1,
                                         .backend = "cpu:gloo"});
  const at::Tensor weight = at::empty({20'000});
  torch::nn::Module net("net");
  net.register_buffer("weight", weight);
  for (std::int64_t step = saved + 1;; ++step) {
    weight.fill_(step);
    save_checkpoint(path, group, {.model = &net, .step = &step}, {.keep_last = 2});
    saved = step;
  }
}

// A process saves without end, and is killed at moments that differ; the file is always whole, and
// that of the last save that returned, or the next.
TEST(SavedCheckpoints, AreLostInNoPartWhereTheWriterIsKilled) {
  const TemporaryFolder folder;
  auto* const saved = static_cast<std::atomic<std::int64_t>*>(
      ::mmap(nullptr, sizeof(std::atomic<std::int64_t>), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::mt19937 draw(1);
  for (int round = 0; round < 20; ++round) {
    const std::int64_t before = *saved;
    const pid_t writer = ::fork();
    if (writer == 0) save_without_end(folder / "a.pt", *saved);
    const std::int64_t until = before + 1 + static_cast<std::int64_t>(draw() % 3);
    while (*saved < until) std::this_thread::yield();
    for (volatile unsigned spin = draw() % 4'000'000; spin > 0;) spin = spin - 1;
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    const std::int64_t last = *saved;
    const StateDict file = testing::writable(read_archive(folder / "a.pt").value).toGenericDict();
    const std::int64_t step = file.at("step").toInt();
    EXPECT_GE(step, last);
    EXPECT_LE(step, last + 1);
    const at::Tensor weight = file.at("model").toGenericDict().at("weight").toTensor();
    EXPECT_TRUE(weight.eq(static_cast<double>(step)).all().item<bool>());
  }
  ::munmap(saved, sizeof(std::atomic<std::int64_t>));
}

}  // namespace
}  // namespace lockstep
