// The recorder in C++: its files byte by byte, and what it sees of a training.
#include "harness/base/read_file.h"
#include "harness/recorded/recorded_run.h"
#include "lockstep/recorder.h"
#include "recorder/cpp/backward_hooks.h"
#include "recorder/cpp/history_file.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include <filesystem>
#include <numeric>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class RecorderInCpp : public testing::Test {
 protected:
  RecorderInCpp() {
    std::string name = (fs::temp_directory_path() / "lockstep-recorder-XXXXXX").string();
    parent_ = ::mkdtemp(name.data());
    folder_ = parent_ / "recorded";
  }
  ~RecorderInCpp() override { fs::remove_all(parent_); }

  std::string bytes_of(int rank) const {
    return read_file(folder_ / ("rank" + std::to_string(rank) + ".history"));
  }
  std::string refusal(int rank) const {
    try {
      HistoryFile file(folder_, rank);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "it was made";
  }

  fs::path parent_, folder_;
};

mode_t mode_of(const fs::path& path) {
  struct stat is {};
  EXPECT_EQ(::stat(path.c_str(), &is), 0);
  return is.st_mode & 0777;
}

// Writes what vectors/rank1.history holds, which the recorder of Python writes too.
void write_vector(HistoryFile& file) {
  const auto append = [&](int kind, const Json& header, const std::vector<char>& payload = {}) {
    file.append(static_cast<FrameKind>(kind), header, std::as_bytes(std::span(payload)));
  };
  append(
      1,
      {{"protocol", 1}, {"rank", 1}, {"world", 2}, {"program", "train.py"}, {"torch", "2.11.0"}});
  file.append_text(FrameKind::moment, header_of(Moment{0, "update"}));
  append(4, {{"op", "allreduce"},
             {"group", "world"},
             {"dtype", "float32"},
             {"sequence", 0},
             {"elements", 6},
             {"root", -1},
             {"ns", 5}});
  file.append_text(FrameKind::done, done_header("world", 0, 6));
  append(11,
         {{"list", 0},
          {"of", "model 0"},
          {"role", "parameters"},
          {"tensors",
           {Json::array({"w", "float32", {2, 3}}), Json::array({"b", "float32", Json::array()})}}});
  std::vector<char> digests(32);
  std::iota(digests.begin(), digests.end(), char{0});
  append(12, {{"list", 0}}, digests);
  append(13, {{"name", "optimizer 0"},
              {"values", {{"kind", "SGD"}, {"groups", Json::array({{{"lr", 0.5}}})}}}});
  const std::vector<int64_t> drawn{3, 9};
  file.append_text(FrameKind::observation, header_of("loader 0", "int64", {2}),
                   std::as_bytes(std::span(drawn)));
  file.end({Ending::Kind::returned, "", {7}});
}

// A call with a sampler has one function to choose, or GCC finds it ambiguous.
template <class T>
constexpr bool kMayBeAModel = requires {
  static_cast<void (Recorder::*)(const T&)>(&Recorder::watch<T>);
};
static_assert(kMayBeAModel<torch::nn::Linear>);
static_assert(!kMayBeAModel<torch::data::samplers::SequentialSampler>);

TEST_F(RecorderInCpp, WritesTheHistoryOfTheVector) {
  HistoryFile file(folder_, 1);
  write_vector(file);
  EXPECT_EQ(bytes_of(1), read_file(fs::path(LOCKSTEP_VECTORS) / "rank1.history"));
}

TEST_F(RecorderInCpp, KeepsFolderAndFilePrivate) {
  const HistoryFile file(folder_, 0);
  EXPECT_EQ(mode_of(folder_), 0700u);
  EXPECT_EQ(mode_of(folder_ / "rank0.history"), 0600u);
}

TEST_F(RecorderInCpp, NeverOverwritesAFileAndFollowsNoLink) {
  {
    HistoryFile file(folder_, 0);
    write_vector(file);
  }
  const auto before = bytes_of(0);
  EXPECT_NE(refusal(0).find("rank0.history: is there already; record into a new folder"),
            std::string::npos);
  EXPECT_EQ(bytes_of(0), before);
  fs::create_symlink(parent_ / "elsewhere", folder_ / "rank1.history");
  EXPECT_NE(refusal(1).find("is there already"), std::string::npos);
  EXPECT_FALSE(fs::exists(parent_ / "elsewhere"));
}

TEST_F(RecorderInCpp, EndsAFullFileAndSaysSo) {
  constexpr size_t kMost = 6000;
  HistoryFile file(folder_, 0, kMost);
  file.append(FrameKind::begin, {{"protocol", 1}, {"rank", 0}, {"world", 1}});
  for (int number = 0; number < 100; ++number)
    file.append_text(FrameKind::moment, header_of(Moment{number, "update"}));
  EXPECT_TRUE(file.has_ended());
  EXPECT_LT(bytes_of(0).size(), kMost);
  const auto rank = recorded::read_rank(bytes_of(0), "f");
  EXPECT_EQ(rank.history.ending.kind, Ending::Kind::overflowed);
  EXPECT_EQ(rank.history.ending.why, "a history has at most 6000 bytes");
}

TEST_F(RecorderInCpp, WritesNothingInAForkedProcess) {
  HistoryFile file(folder_, 0);
  write_vector(file);
  const auto before = bytes_of(0);
  const pid_t child = ::fork();
  if (child == 0) {
    file.append_text(FrameKind::moment, header_of(Moment{1, "update"}));
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(bytes_of(0), before);
}

TEST(BackwardHooks, SeeTheEndBehindWhatIsQueuedThere) {
  const auto weight = at::ones({2}).requires_grad_();
  std::string order;
  auto& engine = torch::autograd::Engine::get_default_engine();
  const BackwardHooks hooks({weight}, {[&] { order += "begin "; }, [&] { order += "end "; }});
  const auto backward = [&] {
    auto loss = (weight * 2).sum();
    loss.register_hook([&](const at::Tensor&) {
      engine.queue_callback([&] {
        engine.queue_callback([&] { engine.queue_callback([&] { order += "averaged "; }); });
      });
    });
    loss.backward();
  };
  backward();
  backward();
  EXPECT_EQ(order, "begin averaged end begin averaged end ");
}

TEST(BackwardHooks, BeginAnewAfterAPassThatThrew) {
  const auto weight = at::ones({2}).requires_grad_(), early = at::ones({2}).requires_grad_();
  int begins = 0, ends = 0;
  const BackwardHooks hooks({weight}, {[&] { ++begins; }, [&] { ++ends; }});
  auto middle = early * 2;
  middle.register_hook([](const at::Tensor&) { throw std::runtime_error("no"); });
  EXPECT_THROW((middle.sum() + (weight * 2).sum()).backward(), std::runtime_error);
  const int before = begins;
  weight.sum().backward();
  EXPECT_EQ(begins, before + 1);
  EXPECT_EQ(ends, 1);
}

TEST(RecorderThatIsOff, PassesEverythingThrough) {
  ::unsetenv("LOCKSTEP_RECORD");
  Recorder recorder(nullptr);
  EXPECT_FALSE(recorder.is_on());
  EXPECT_FALSE(recorder.group());
  const auto weight = at::ones({2}).requires_grad_();
  weight.mutable_grad() = at::ones({2});
  torch::optim::SGD sgd({weight}, 0.5);
  recorder.step(sgd);
  EXPECT_EQ(weight[0].item<float>(), 0.5f);
  auto sampler = recorder.watch(torch::data::samplers::SequentialSampler(3));
  EXPECT_EQ(sampler.next(2), (std::vector<size_t>{0, 1}));
  sampler.reset();
  EXPECT_EQ(sampler.next(4), (std::vector<size_t>{0, 1, 2}));
}

// Must not be asked for a sample that its program does not ask for.
struct Unasked : torch::data::datasets::Dataset<Unasked> {
  torch::data::Example<> get(size_t) override { throw 42; }
  std::optional<size_t> size() const override { return 12; }
};

TEST_F(RecorderInCpp, SaysOfWhichDatasetASamplerDealsAndLooksIntoNoneButTensors) {
  using torch::data::datasets::TensorDataset;
  using torch::data::samplers::SequentialSampler;
  const auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 1);
  {
    Recorder recorder(group, folder_);
    TensorDataset tensors(torch::ones({12, 2})), empty(torch::ones({0, 2}));
    Unasked unasked;
    recorder.watch(SequentialSampler(12), tensors).next(5);
    recorder.watch(SequentialSampler(0), empty).next(5);
    recorder.watch(SequentialSampler(12), unasked).next(5);
  }
  const auto rank = recorded::read_rank(bytes_of(0), "f");
  std::vector<std::pair<int64_t, bool>> seen;  // the length, and whether there is a fingerprint
  for (const auto& record : rank.records)
    if (const auto* fact = std::get_if<recorded::Fact>(&record.what);
        fact && fact->values.contains("batch_size"))
      seen.emplace_back(fact->whole("length").value_or(-1), !fact->text("fingerprint").empty());
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, bool>>{{12, true}, {0, false}, {12, false}}));
}

TEST_F(RecorderInCpp, EndsARecordingAtTheLimitOfAFilesSizeAndNotTheProgram) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::close(STDERR_FILENO);
    HistoryFile file(folder_, 0);
    for (int number = 0; number < 1000; ++number)
      file.append_text(FrameKind::moment, header_of(Moment{number, "update"}));
    ::_exit(file.has_ended() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(RecorderInCpp, IsOffAndSaysWhyWhereItCannotRecord) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Recorder(nullptr, folder_).is_on());
  const auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 1);
  const Recorder first(group, folder_);
  EXPECT_TRUE(first.is_on());
  const Recorder second(group, folder_);  // its file is there
  EXPECT_FALSE(second.is_on());
  EXPECT_EQ(second.group(), group);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "lockstep::Recorder: the process group is null; this process is not recorded\n"
            "lockstep::Recorder: " +
                (folder_ / "rank0.history").string() +
                ": is there already; record into a new folder; this process is not recorded\n");
}

}  // namespace
}  // namespace lockstep
