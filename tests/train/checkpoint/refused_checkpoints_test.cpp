// Files that are refused, on every rank and before anything is changed.
#include "ddp/distributed_sampler.h"
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "tests/train/checkpoint/zip_files.h"
#include "train/checkpoint.h"
#include "train/checkpoint/archive.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

using testing::Group;
using testing::make_net;
using testing::make_optimizer;
using testing::run_world;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::text_of;
using testing::train;
using testing::writable;
using testing::write_file;
namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The error of load_checkpoint on both ranks for a file that only rank 1 reads, if it changes
// nothing.
std::string refusal(const TemporaryFolder& folder) {
  const auto reports = run_world(2, [&](const Group& group) {
    auto net = make_net();
    const auto optimizer = make_optimizer("adam", net->parameters());
    train(net, *optimizer, 1);
    const std::string before = text_of(*net);
    std::int64_t epoch = 77;
    const std::string mine = group->getRank() == 0 ? "good.pt" : "bad.pt";
    const std::string sentence = sentence_of([&] {
      load_checkpoint(folder / mine, group,
                      {.model = &*net, .optimizer = optimizer.get(), .epoch = &epoch});
    });
    const bool is_same = text_of(*net) == before && epoch == 77;
    return sentence + (is_same ? "" : ", and something was changed");
  });
  EXPECT_EQ(reports[0], reports[1]);
  const std::string path = folder / "";
  std::string text = reports[1];
  for (std::size_t at; (at = text.find(path)) != std::string::npos;) text.erase(at, path.size());
  return text;
}

class Refused : public ::testing::Test {
 protected:
  Refused() { fs::copy_file(LOCKSTEP_RECORDED "/adam.pt", folder_ / "good.pt"); }

  TemporaryFolder folder_;
};

TEST_F(Refused, APositionInAWorldOfAnotherSize) {
  const std::string path = folder_ / "two.pt";
  run_world(2, [&](const Group& group) {
    DistributedSampler sampler(23, *group);
    save_checkpoint(path, group, {.sampler = &sampler});
    return std::string();
  });
  const auto reports = run_world(3, [&](const Group& group) {
    DistributedSampler sampler(23, *group);
    return sentence_of([&] { load_checkpoint(path, group, {.sampler = &sampler}); });
  });
  EXPECT_EQ(reports,
            testing::same(3, "ranks 0, 1 and 2 of 3 cannot take part: load_checkpoint: " + path +
                                 ": DistributedSampler: the archive's num_replicas is 2, "
                                 "expected 3"));
}

TEST_F(Refused, AnArchiveWhoseDirectoryIsMissingOrPointsBesideARecord) {
  const auto sentence_on = [&](const std::string& bytes) {
    write_bytes(folder_ / "bad.pt", bytes);
    try {
      read_archive(folder_ / "bad.pt");
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("it was read");
  };
  EXPECT_EQ(sentence_on("PK\3\4" + std::string(100, 'x')),
            "it is torn or damaged (the end of its directory is missing)");
  EXPECT_EQ(sentence_on(testing::zip_of({{.name = "data.pkl", .bytes = "\x80\2N.", .says_at = 1}})),
            "it is torn or damaged (a record is not where its directory says)");
}

// Every byte of a file of ours counts, and every length; 64 of each.
TEST_F(Refused, AFileThatIsTornOrDamaged) {
  write_file(folder_ / "bad.pt", writable(read_archive(folder_ / "good.pt").value));
  const std::string bytes = bytes_of(folder_ / "bad.pt");
  const auto expected = read_archive(folder_ / "bad.pt").checksum;
  int unseen = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    write_bytes(folder_ / "torn.pt", bytes.substr(0, bytes.size() * i / 64));
    EXPECT_THROW(read_archive(folder_ / "torn.pt"), std::runtime_error) << i;
    std::string damaged = bytes;
    damaged[bytes.size() * i / 64] ^= 16;
    write_bytes(folder_ / "torn.pt", damaged);
    try {  // a byte between records, or of a local header, may be without meaning
      if (read_archive(folder_ / "torn.pt").checksum != expected) ++unseen;
    } catch (const std::runtime_error&) {
    }
  }
  EXPECT_EQ(unseen, 0);
  write_bytes(folder_ / "bad.pt", bytes.substr(0, bytes.size() / 2));
  EXPECT_TRUE(refusal(folder_).starts_with(
      "rank 1 of 2 cannot take part: load_checkpoint: bad.pt: it is torn or damaged ("))
      << refusal(folder_);
}

}  // namespace
}  // namespace lockstep
