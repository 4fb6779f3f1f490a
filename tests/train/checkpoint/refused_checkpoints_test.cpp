// Files that are refused, on every rank and before anything is changed.
#include "ddp/distributed_sampler.h"
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "tests/train/checkpoint/zip_files.h"
#include "train/checkpoint.h"
#include "train/checkpoint/archive.h"
#include "train/checkpoint/model_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <tuple>

namespace lockstep {
namespace {

using testing::Group;
using testing::make_net;
using testing::make_optimizer;
using testing::numbers;
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
std::string refusal(const TemporaryFolder& folder, const std::string& kind = "adam") {
  const auto reports = run_world(2, [&](const Group& group) {
    auto net = make_net();
    const auto optimizer = make_optimizer(kind, net->parameters());
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
  Refused() {
    fs::copy_file(LOCKSTEP_RECORDED "/adam.pt", folder_ / "good.pt");
    good_ = writable(read_archive(folder_ / "good.pt").value).toGenericDict();
  }

  // The file of rank 1 is the good one after a change of a copy.
  void change(
      const std::function<void(StateDict& whole, StateDict& model, StateDict& group)>& edit) {
    StateDict whole = good_.copy();
    StateDict model = whole.at("model").toGenericDict().copy();
    StateDict optimizer = whole.at("optimizer").toGenericDict().copy();
    StateDict group = optimizer.at("param_groups").toList().get(0).toGenericDict().copy();
    c10::List<c10::IValue> groups(c10::AnyType::get());
    whole.insert_or_assign("model", model);
    edit(whole, model, group);
    groups.push_back(group);
    optimizer.insert_or_assign("param_groups", groups);
    if (whole.contains("optimizer")) whole.insert_or_assign("optimizer", optimizer);
    write_file(folder_ / "bad.pt", whole);
  }

  void expect(const std::string& sentence, const std::string& kind = "adam") {
    EXPECT_EQ(refusal(folder_, kind),
              "rank 1 of 2 cannot take part: load_checkpoint: bad.pt: " + sentence);
  }

  TemporaryFolder folder_;
  StateDict good_ = empty_dict();
};

TEST_F(Refused, AFileThatIsMissingOrOfAnotherKind) {
  expect("No such file or directory");
  write_bytes(folder_ / "bad.pt", "");
  expect("it is no file of torch.save or save_checkpoint, which are zip archives");
  torch::save(make_net(), folder_ / "bad.pt");
  expect(
      "it is no file of torch.save or save_checkpoint (one of torch::save, perhaps, which "
      "torch::load reads)");
}

TEST_F(Refused, AModelThatDoesNotFit) {
  change([](StateDict&, StateDict& model, StateDict&) { std::ignore = model.erase("0.bias"); });
  expect("'model' of the file lacks '0.bias' of the model");
  change([](StateDict&, StateDict& model, StateDict&) { model.insert("3.weight", at::ones({2})); });
  expect("'model' of the file has '3.weight', which the model lacks");
  change([](StateDict&, StateDict& model, StateDict&) {
    model.insert_or_assign("2.bias", at::ones({3}));
  });
  expect("'2.bias' is Float [3] in it, and Float [2] in the model");
  change([](StateDict&, StateDict& model, StateDict&) {
    model.insert_or_assign("2.bias", at::ones({2}, at::kDouble));
  });
  expect("'2.bias' is Double [2] in it, and Float [2] in the model");
  change([](StateDict&, StateDict& model, StateDict&) { model.insert_or_assign("2.bias", 5.0); });
  expect("'2.bias' is a Double, expected a tensor");
}

TEST_F(Refused, AnOptimizerThatDoesNotFit) {
  fs::copy_file(LOCKSTEP_RECORDED "/adamw.pt", folder_ / "bad.pt");
  expect("its optimizer is AdamW, expected Adam");
  change([](StateDict& whole, StateDict&, StateDict&) { std::ignore = whole.erase("optimizer"); });
  expect("it lacks 'optimizer' of the file");
  change(
      [](StateDict&, StateDict&, StateDict& group) { group.insert_or_assign("maximize", true); });
  expect("'maximize' of param group 0 is True, which LibTorch's optimizers cannot");
  change([](StateDict&, StateDict&, StateDict& group) {
    group.insert_or_assign("params", c10::List<c10::IValue>(c10::AnyType::get()));
  });
  expect("param group 0 has 0 parameters, expected 6");
  change([](StateDict&, StateDict&, StateDict& group) { std::ignore = group.erase("eps"); });
  expect("it lacks 'eps' of param group 0");
}

TEST_F(Refused, AFileOfANewerLockstepOrWithoutWhatIsAskedFor) {
  change([](StateDict& whole, StateDict&, StateDict&) {
    StateDict lockstep = empty_dict();
    lockstep.insert("format", std::int64_t{2});
    whole.insert("lockstep", lockstep);
  });
  expect("a newer Lockstep wrote it: its format is 2, and this one reads up to 1");
  change([](StateDict& whole, StateDict&, StateDict&) { std::ignore = whole.erase("epoch"); });
  expect("it lacks 'epoch' of the file");
}

TEST_F(Refused, FilesThatDiffer) {
  change([](StateDict&, StateDict& model, StateDict&) {
    model.insert_or_assign("2.bias", at::ones({2}));
  });
  EXPECT_TRUE(refusal(folder_).starts_with(
      "ranks disagree on the checksum of the file of load_checkpoint: rank 0 has "))
      << refusal(folder_);
}

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
  change([](StateDict&, StateDict&, StateDict&) {});
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
