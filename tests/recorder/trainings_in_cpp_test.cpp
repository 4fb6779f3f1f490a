// Trainings run with the recorder of C++ as they do without it: to the last bit of a weight, with
// the same random numbers and ends; and `judge` can read what was recorded.
#include "tests/recorder/trainings_in_cpp.h"

#include "harness/base/read_file.h"
#include "harness/invariants/judge_run.h"
#include "harness/recorded/recorded_run.h"
#include "tests/ddp/forked_world.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string_view>
#include <unistd.h>

namespace lockstep::testing {

void Here::say(const std::string& name, const std::vector<at::Tensor>& tensors) {
  said << name;
  for (const auto& each : tensors) {
    const auto values = each.detach().contiguous();
    const std::string_view bytes(static_cast<const char*>(values.const_data_ptr()),
                                 values.nbytes());
    said << " " << std::hash<std::string_view>()(bytes);
  }
  said << "\n";
}

void Here::say(const std::string& name, const torch::nn::Module& module) {
  say(name, module.parameters());
}

namespace {

namespace fs = std::filesystem;

class TrainingsInCpp : public ::testing::TestWithParam<TrainingInCpp> {
 protected:
  TrainingsInCpp() {
    std::string name = (fs::temp_directory_path() / "lockstep-trainings-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TrainingsInCpp() override { fs::remove_all(folder_); }

  // Each rank's report, or how it ended.
  std::vector<std::string> run(const fs::path& record) const {
    return run_world(2, [&](const Group& group) {
      ::unsetenv("LOCKSTEP_RECORD");
      if (!record.empty()) ::setenv("LOCKSTEP_RECORD", record.c_str(), 1);
      torch::manual_seed(static_cast<std::uint64_t>(7 + group->getRank()));
      std::ostringstream said;
      {
        Recorder recorder(group);
        if (recorder.is_on() == record.empty()) return std::string("the recorder is not as asked");
        Here here{recorder, group->getRank(), {}};
        try {
          GetParam().run(here);
        } catch (int number) {
          here.said << "threw " << number;
        }
        said << here.said.str();
      }
      said << "random " << at::detail::getDefaultCPUGenerator().get_state().sum().item<int64_t>();
      return said.str();
    });
  }

  fs::path folder_;
};

std::vector<std::string> left_out_by(const recorded::Rank& rank) {
  std::vector<std::string> all;
  for (const auto& record : rank.records)
    if (const auto* fact = std::get_if<recorded::Fact>(&record.what);
        fact && fact->name == "not recorded")
      all.push_back(fact->text("what"));
  return all;
}

TEST_P(TrainingsInCpp, RunAsWithoutARecorder) {
  const auto plain = run({});
  EXPECT_EQ(run(folder_ / "run"), plain);
  const auto run = recorded::read_recorded_run(folder_ / "run");
  ASSERT_EQ(run.ranks.size(), 2u);
  for (const auto& rank : run.ranks) {
    EXPECT_TRUE(rank.is_there);
    EXPECT_EQ(left_out_by(rank), GetParam().left_out);
  }
  EXPECT_FALSE(recorded::judged(run).results.empty());
}

std::vector<TrainingInCpp> every_training() {
  std::vector<TrainingInCpp> all;
  for (const auto& some :
       {trainings_of_models(), trainings_of_loops(), trainings_of_data(), trainings_that_end()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, TrainingsInCpp, ::testing::ValuesIn(every_training()),
                         [](const auto& about) { return about.param.name; });

}  // namespace
}  // namespace lockstep::testing
