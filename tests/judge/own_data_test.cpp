// Checks datasets and streams that each rank lists, shuffles or splits itself.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/invariants.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::recorded {
namespace {

// Two ranks hold the same files, or other ones, in two orders.
TEST(OwnData, FindThatRanksListTheSameFilesInAnotherOrder) {
  for (const bool are_the_same : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (int pass = 0; pass < 2; ++pass) {
        const auto own = std::to_string(rank.number);
        nth<Fact>(rank, pass, "loader 0").values["numbered"] = {
            {"files", Json::array({own, are_the_same ? "all" : own})}};
      }
    const auto findings = datasets_are_the_same(run).findings;
    ASSERT_EQ(findings.size(), are_the_same ? 1u : 0u);
    if (!are_the_same) continue;
    EXPECT_EQ(findings.front().pattern, "other_numbering");
    EXPECT_TRUE(findings.front().diagnosis.starts_with("'files' of the dataset in pass 0"));
  }
}

// A stream whose epoch is set deals the same batches, or others.
TEST(OwnData, FindAStreamWhoseWorkersKeepTheFirstEpoch) {
  for (const bool is_stale : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      for (int pass = 0; pass < 2; ++pass)
        nth<Fact>(rank, pass, "loader 0").values = {{"iterable", true}, {"dataset_epoch", pass}};
      std::vector<Record> records;
      for (auto& record : rank.records) {
        records.push_back(record);
        const auto* drawn = std::get_if<Drawn>(&record.what);
        if (!drawn || drawn->name != "loader 0") continue;
        const auto number = is_stale ? record.at.step % 2 : record.at.step;
        const auto print = std::to_string(10 * number + rank.number);
        records.back().what = Fact{"batch", {{"loader", "loader 0"}, {"print", print}}};
      }
      rank.records = std::move(records);
    }
    const auto findings = orders_change(run).findings;
    ASSERT_EQ(findings.size(), is_stale ? 1u : 0u);
    if (is_stale) EXPECT_EQ(findings.front().pattern, "epoch_ignored");
  }
}

// A sampler of the program's own repeats samples on a rank, or on several ranks as it says; a
// DistributedSampler does neither.
TEST(OwnData, AllowASamplerThatRepeatsSamplesOnPurpose) {
  for (const std::string way : {"weighted", "repeated augmentation", "DistributedSampler"}) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (int pass = 0; pass < 2; ++pass) {
        auto& values = nth<Fact>(rank, pass, "loader 0").values;
        values["sampler"] = way;
        if (way == "repeated augmentation") values["repeats"] = 2;
        for (int step = 2 * pass; step < 2 * pass + 2; ++step)
          for (auto& index : nth<Drawn>(rank, step, "loader 0").indices)
            index = way == "weighted" ? (index + 2 * rank.number) / 4 : index / 2 * 2;
      }
    const auto judgement = passes_are_partitions(run);
    EXPECT_EQ(judgement.findings.empty(), way != "DistributedSampler") << way;
    if (judgement.findings.empty()) EXPECT_EQ(judgement.remarks.at(0).pattern, "repeats_samples");
  }
}

// A sampler that splits deals each sample to ranks side by side; one of a whole order that it
// repeats does not, and neither do orders of each rank's own.
TEST(OwnData, IsNoOrderOfASamplerThatRepeatsSamplesOverTheRanks) {
  constexpr int kTimes = 2, kDraws = 16;  // of each step
  const auto pattern = [&](auto sample_at) -> std::string {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      for (int pass = 0; pass < 2; ++pass)
        nth<Fact>(rank, pass, "loader 0")
            .values.update({{"repeats", kTimes}, {"length", 4 * kDraws}, {"replicas", 2}});
      for (int step = 0; step < kSteps; ++step) {
        auto& indices = nth<Drawn>(rank, step, "loader 0").indices;
        indices.clear();
        for (int at = 0; at < kDraws; ++at)
          indices.push_back(sample_at(rank.number, step % 2 * kDraws + at));
      }
    }
    const auto findings = passes_are_partitions(run).findings;
    return findings.empty() ? "" : findings.front().pattern;
  };
  EXPECT_EQ(pattern([](int, int at) { return at; }), "");
  EXPECT_EQ(pattern([](int rank, int at) { return rank == 0 ? at : (at + 7) % (2 * kDraws); }),
            "overlapping_draws");
  EXPECT_EQ(pattern([](int rank, int at) { return 2 * rank * kDraws + at; }), "");
}

// A sampler of the program's own splits an order that each rank shuffled itself, of a dataset whose
// length is known or not, or PyTorch's draws at random.
TEST(OwnData, FindASplitOfAnOrderOfEachRanksOwn) {
  for (const auto& [sampler, length] : {std::pair<std::string, Json>{"ByLength", 40},
                                        {"ByLength", nullptr},
                                        {"RandomSampler", 40}}) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (int pass = 0; pass < 2; ++pass) {
        auto& values = nth<Fact>(rank, pass, "loader 0").values;
        values.erase("replicas");
        values.update({{"fingerprint", "f"}, {"length", length}, {"sampler", sampler}});
      }
    for (auto& rank : run.ranks)
      for (int step = 0; step < kSteps; ++step)
        for (int64_t batch = 0; batch < 2; ++batch) {
          Drawn drawn{"loader 0", {}};
          for (int64_t i = 0; i < 5; ++i)
            drawn.indices.push_back(i + 5 * batch + 10 * (step % 2) + 5 * rank.number);
          auto& records = rank.records;
          const auto is_old = [](const Record& record) {
            const auto* drawn_before = std::get_if<Drawn>(&record.what);
            return drawn_before && drawn_before->name == "loader 0" &&
                   drawn_before->indices.size() == 4;
          };
          const auto old = std::find_if(records.begin(), records.end(), is_old);
          if (batch == 0)
            records.insert(old, {old->at, drawn});
          else
            *old = {old->at, drawn};
        }
    const auto judgement = passes_are_partitions(run);
    const bool is_certain = sampler == "ByLength" && !length.is_null();
    const auto& found = is_certain ? judgement.findings : judgement.remarks;
    ASSERT_EQ(found.size(), 1u) << sampler << length;
    EXPECT_EQ(found.front().pattern, "overlapping_draws");
    const auto* order =
        length.is_null() ? "the first order of 25 was" : "the first order of 40 was";
    EXPECT_NE(found.front().diagnosis.find(order), std::string::npos) << found.front().diagnosis;
  }
}

// Two ranks stream the same samples, whose first ones are known, or each its own.
TEST(OwnData, FindThatStreamsOfRanksHoldTheSameSamples) {
  for (const bool is_split : {false, true}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      for (int pass = 0; pass < 2; ++pass)
        nth<Fact>(rank, pass, "loader 0").values = {{"length", nullptr}};
      std::vector<Record> records;
      int64_t handed = 0;
      for (auto& record : rank.records) {
        const auto* drawn = std::get_if<Drawn>(&record.what);
        if (!drawn || drawn->name != "loader 0") {
          records.push_back(record);
          continue;
        }
        auto rows = Json::array({20});
        for (int sample = 0; sample < 8; ++sample)
          rows.push_back(std::to_string(handed++) + (is_split ? rank.number ? "b" : "a" : ""));
        records.push_back({record.at, Fact{"batch", {{"loader", "loader 0"}, {"rows", rows}}}});
      }
      rank.records = std::move(records);
    }
    const auto findings = passes_are_partitions(run).findings;
    ASSERT_EQ(findings.size(), is_split ? 0u : 1u);
    if (!is_split) EXPECT_EQ(findings.front().pattern, "shared_samples");
  }
}

// Each of rank 1's two workers deals all that the rank has of a stream; or its own part.
TEST(OwnData, FindAStreamThatEachWorkerDealsWhole) {
  for (const bool is_split : {false, true}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 0, "loader 0").values.update({{"iterable", true}, {"workers", 2}});
      std::vector<Record> records;
      for (auto& record : rank.records) {
        records.push_back(record);
        const auto* drawn = std::get_if<Drawn>(&record.what);
        if (!drawn || drawn->name != "loader 0" || record.at.step > 1) continue;
        for (int worker = 0; worker < 2; ++worker) {
          const auto number = 2 * record.at.step + (is_split || rank.number == 0 ? worker : 0);
          records.push_back(
              {record.at, Fact{"batch",
                               {{"loader", "loader 0"},
                                {"print", std::to_string(10 * number + rank.number)}}}});
        }
      }
      rank.records = std::move(records);
    }
    const auto findings = passes_are_partitions(run).findings;
    ASSERT_EQ(findings.size(), is_split ? 0u : 1u);
    if (is_split) continue;
    EXPECT_EQ(findings.front().pattern, "repeated_by_workers");
    EXPECT_NE(findings.front().diagnosis.find("each of 2 workers of rank 1"), std::string::npos);
  }
}

// Two ranks list the same files in two orders; a sampler splits the numbers.
TEST(OwnData, FindThatRanksNumberTheSameSamplesOtherwise) {
  for (const int64_t shift : {0, 15}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      std::vector<Record> records;
      for (auto& record : rank.records) {
        records.push_back(record);
        const auto* drawn = std::get_if<Drawn>(&record.what);
        if (!drawn || drawn->name != "loader 0") continue;
        const auto index = drawn->indices.front();
        const auto sample = (index + shift * rank.number) % kLength;
        records.push_back(
            {record.at, Fact{"batch",
                             {{"loader", "loader 0"},
                              {"print", std::to_string(index)},
                              {"row", Json::array({index, std::to_string(sample)})}}}});
      }
      rank.records = std::move(records);
    }
    const auto findings = datasets_are_the_same(run).findings;
    ASSERT_EQ(findings.size(), shift == 0 ? 0u : 1u);
    if (shift == 0) continue;
    EXPECT_EQ(findings.front().pattern, "other_content");
    EXPECT_NE(findings.front().diagnosis.find("what rank 0 was handed as sample "),
              std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::recorded
