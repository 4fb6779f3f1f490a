// The folder of a run of one process, which a stranger may have written.
#include "harness/invariants/against/against.h"
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/resumed.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <unistd.h>

namespace lockstep::recorded {
namespace {

namespace fs = std::filesystem;

class FolderOfOneProcess : public testing::Test {
 protected:
  FolderOfOneProcess() {
    std::string name = (fs::temp_directory_path() / "lockstep-against-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FolderOfOneProcess() override { fs::remove_all(folder_); }

  // A history that has a begin record of this text and one tensor, with values or without.
  void write(const fs::path& folder, const std::string& begin, bool has_values = true) const {
    fs::create_directories(folder);
    std::string out;
    uint64_t number = 0;
    const auto add = [&](uint32_t kind, const std::string& header, const std::string& payload) {
      const auto from = out.size();
      out.resize(from + framed_size(header.size(), payload.size()));
      auto* commit =
          write_frame(reinterpret_cast<std::byte*>(out.data()) + from, static_cast<FrameKind>(kind),
                      header, payload.data(), payload.size());
      const uint64_t word = kCommit ^ number++;
      std::memcpy(commit, &word, sizeof(word));
    };
    add(1, begin, "");
    add(11, R"({"list":0,"of":"m","role":"parameters","tensors":[["w","float32",[1]]]})", "");
    add(12, R"({"list":0})", std::string(16, '\0'));
    if (has_values) add(15, R"({"list":0})", "abcd");
    std::ofstream(folder / "rank0.history", std::ios::binary) << out;
  }
  std::string refusal() const {
    try {
      read_one_process(folder_);
    } catch (const FieldError& error) {
      return error.what();
    }
    return "it was read";
  }

  static constexpr char kOne[] = R"({"protocol":1,"rank":0,"world":1})";
  static constexpr char kMoved[] = R"({"protocol":1,"rank":0,"world":1,"perturbed":1})";
  fs::path folder_;
};

TEST_F(FolderOfOneProcess, HasTheMovedRunsWithinIt) {
  write(folder_, kOne);
  write(folder_ / "perturbed-1", kMoved);
  write(folder_ / "perturbed-3", kMoved);
  const auto one = read_one_process(folder_);
  EXPECT_EQ(one.moved.size(), 2u);
  const auto& digests = std::get<Digests>(one.run.ranks[0].records[0].what);
  EXPECT_EQ(digests.elements.at(0).bytes.size(), 4u);
}

TEST_F(FolderOfOneProcess, IsRefusedWithTheCureWhereSomethingIsMissing) {
  EXPECT_NE(refusal().find("nothing was recorded here"), std::string::npos);
  write(folder_, R"({"protocol":1,"rank":0,"world":2})");
  EXPECT_NE(refusal().find("is a run of 2 ranks; expected one process"), std::string::npos);
  write(folder_, kOne, false);
  EXPECT_NE(refusal().find("record it with LOCKSTEP_RECORD_VALUES=10"), std::string::npos);
  write(folder_, kMoved);
  EXPECT_NE(refusal().find("was recorded with LOCKSTEP_RECORD_PERTURB=1"), std::string::npos);
  write(folder_, kOne);
  EXPECT_NE(refusal().find("once more, with LOCKSTEP_RECORD_PERTURB=1"), std::string::npos);
  write(folder_ / "perturbed-0", kMoved);
  EXPECT_NE(refusal().find("holds no perturbed-1"), std::string::npos) << "numbers begin at 1";
  write(folder_ / "perturbed-1", kOne);
  EXPECT_NE(refusal().find("perturbed-1: was recorded without LOCKSTEP_RECORD_PERTURB=1"),
            std::string::npos);
  fs::remove_all(folder_ / "perturbed-1");
  fs::create_directory_symlink("/", folder_ / "perturbed-1");
  EXPECT_NE(refusal().find("perturbed-1: is a link; expected a folder"), std::string::npos);
}

// Sets the rates of a rank's updates; it makes as many, and records no state of its optimizer.
void set_rates(RecordedRun& run, const std::vector<double>& rates) {
  for (auto& rank : run.ranks) {
    std::erase_if(rank.records, [&](const Record& record) {
      return digests_in(record, "state") != nullptr || record.at.step >= int(rates.size());
    });
    for (size_t step = 0; step < rates.size(); ++step)
      nth<Fact>(rank, int(step), "optimizer 0").values["groups"][0]["lr"] = rates[step];
  }
}

TEST(RunsThatResume, HaveTheRatesOfTheUpdatesThatFollow) {
  const auto text_of = [](const std::vector<double>& then, int step, const std::vector<double>& now,
                          int world = 2) {
    auto before = right_run(), run = right_run(world);
    set_rates(before, then);
    set_rates(run, now);
    for (auto& rank : run.ranks)
      nth<Digests>(rank, 0, "parameters") = nth<Digests>(before.ranks[0], step + 1, "parameters");
    const auto findings = optimizers_continue(run, before).findings;
    return findings.empty() ? "" : findings.front().diagnosis;
  };
  const std::vector<double> then{0.5, 0.25, 0.125, 0.0625};
  EXPECT_EQ(text_of(then, 2, {0.0625}), "");
  EXPECT_EQ(text_of(then, 0, {0.25, 0.125, 0.0625}), "");
  EXPECT_EQ(
      text_of(then, 0, {0.25, 0.5}),
      "lr of group 0 of optimizer 0: it resumes with 0.5, the run before continued with 0.125 "
      "in update 2");
  EXPECT_EQ(text_of(then, 0, {0.25, 0.5}, 1), "");  // which has more updates in an epoch
  EXPECT_EQ(text_of({0.5, 0.25}, 1, {0.5, 0.25}),
            "lr of group 0 of optimizer 0: it resumes with 0.5, the run before ended with 0.25, "
            "having begun as this one does");
}

TEST(RunsThatResume, AreUnknownWhereNoParametersWereRecorded) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    std::erase_if(rank.records,
                  [](const Record& record) { return digests_in(record, "parameters") != nullptr; });
  for (const auto judge : {order_continues, optimizers_continue})
    EXPECT_EQ(judge(run, right_run()).why_not,
              "no parameters were recorded before the first update");
}

}  // namespace
}  // namespace lockstep::recorded
