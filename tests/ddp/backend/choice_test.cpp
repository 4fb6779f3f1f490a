#include "ddp/backend/choice.h"

#include "ddp/errors.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string read_words(const std::string& text) {
  return words_of(read_backend(text));
}

std::string refusal_of_words(const std::string& text) {
  try {
    return "accepted: " + read_words(text);
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Choice, ReadsPyTorchsWordsForBackends) {
  EXPECT_TRUE(read_backend("").is_default);
  EXPECT_FALSE(read_backend("gloo").is_default);
  EXPECT_EQ(read_words("gloo"), "cpu:gloo,cuda:gloo");
  EXPECT_EQ(read_words("nccl"), "cuda:nccl");
  EXPECT_EQ(read_words("cpu:gloo,cuda:nccl"), "cpu:gloo,cuda:nccl");
  EXPECT_EQ(read_words("cuda:nccl,cpu:gloo"), "cpu:gloo,cuda:nccl");
  EXPECT_EQ(read_words("cpu:gloo"), "cpu:gloo");
  EXPECT_EQ(read_words("cuda:gloo"), "cuda:gloo");
}

TEST(Choice, AnUnknownBackendIsRefusedWithWhatThereIs) {
  for (const char* text :
       {"mpi", "tcp", "ucc", "Gloo", " gloo", "gloo,nccl", "cpu:nccl", "cpu:mpi", "cuda:mpi",
        "xpu:gloo", "cpu:gloo,cpu:gloo", "cpu:gloo,", "cpu:", ":", "cpu:gloo:nccl", ","}) {
    const std::string sentence = refusal_of_words(text);
    EXPECT_EQ(sentence.find(std::string("init_process_group: backend is '") + text + "', "), 0u)
        << sentence;
    EXPECT_NE(sentence.find("There is: gloo (CPU and CUDA tensors), nccl (CUDA tensors)"),
              std::string::npos)
        << sentence;
    EXPECT_NE(sentence.find("mpi and tcp of old tutorials do not exist"), std::string::npos);
  }
  EXPECT_NE(refusal_of_words("cpu:nccl").find("nccl carries no cpu tensors"), std::string::npos);
  EXPECT_NE(refusal_of_words("xpu:gloo").find("there is no device xpu"), std::string::npos);
  EXPECT_NE(refusal_of_words("cpu:gloo,cpu:gloo").find("names cpu twice"), std::string::npos);
}

TEST(Choice, WhereNothingIsAskedForNcclIsTakenUnlessThereIsAProblem) {
  EXPECT_EQ(words_of(default_backend("")), "cpu:gloo,cuda:nccl");
  EXPECT_EQ(words_of(default_backend("no GPU")), "cpu:gloo");
}

TEST(Choice, APlaceSurvivesItsText) {
  const RankPlace full{.host = "a", .gpus = {"x", "y"}, .local_rank = 3, .device_index = 1};
  const RankPlace read = place_from(text_of(full));
  EXPECT_EQ(read.host, "a");
  EXPECT_EQ(read.gpus, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(read.local_rank, 3);
  EXPECT_EQ(read.device_index, 1);
  const RankPlace bare = place_from(text_of({.host = "b"}));
  EXPECT_TRUE(bare.gpus.empty());
  EXPECT_FALSE(bare.local_rank || bare.device_index);
}

const std::vector<std::string> kTwo = {"a0", "a1"};
const std::vector<std::string> kThree = {"b0", "b1", "b2"};

// Ranks 0 and 1 on a host of two GPUs, 2 to 4 on one of three.
std::vector<RankPlace> two_hosts() {
  std::vector<RankPlace> places(2, RankPlace{.host = "a", .gpus = kTwo});
  places.resize(5, RankPlace{.host = "b", .gpus = kThree});
  return places;
}

TEST(Choice, TheDeviceIsThatOfTheLocalRankAndNeverOfTheGlobalOne) {
  const Placement placement = place_ranks(two_hosts(), 1);
  EXPECT_EQ(placement.problem, "");
  EXPECT_EQ(placement.device_indices, (std::vector<int>{0, 1, 0, 1, 2}));
}

TEST(Choice, TheLocalRankCountsWhereRanksOfHostsAlternate) {
  const auto two = two_hosts();
  const Placement placement = place_ranks({two[2], two[0], two[2], two[0], two[2]}, 1);
  EXPECT_EQ(placement.problem, "");
  EXPECT_EQ(placement.device_indices, (std::vector<int>{0, 0, 1, 1, 2}));
}

TEST(Choice, TheLaunchersLocalRankDecidesWhereItIsKnown) {
  auto places = two_hosts();
  places[0].local_rank = 1;
  places[1].local_rank = 0;
  EXPECT_EQ(place_ranks(places, 1).device_indices, (std::vector<int>{1, 0, 0, 1, 2}));
}

TEST(Choice, ARankThatIsShownItsOwnGpuAloneHasDeviceZero) {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < 3; ++rank)
    places.push_back({.host = "a", .gpus = {"a" + std::to_string(rank)}, .local_rank = rank});
  const Placement placement = place_ranks(places, 1);
  EXPECT_EQ(placement.problem, "");
  EXPECT_EQ(placement.device_indices, (std::vector<int>{0, 0, 0}));
}

TEST(Choice, MoreLocalRanksThanGpusAreAnErrorThatSaysHowManyThereAre) {
  auto places = two_hosts();
  places.push_back({.host = "a", .gpus = kTwo});
  EXPECT_EQ(place_ranks(places, 1).problem,
            "host a has 2 GPUs for 3 ranks, and NCCL takes one rank a GPU: start fewer ranks "
            "there, take the backend gloo, or ask for several ranks a GPU (ranks_per_device; "
            "docs/gpu.md)");
}

TEST(Choice, SeveralRanksAGpuAreNeighboursAndHaveALimitToo) {
  const std::vector<RankPlace> four(4, RankPlace{.host = "a", .gpus = kTwo});
  EXPECT_EQ(place_ranks(four, 2).device_indices, (std::vector<int>{0, 0, 1, 1}));
  const std::vector<RankPlace> on_one(3, RankPlace{.host = "a", .gpus = {"a0"}});
  EXPECT_EQ(place_ranks(on_one, 3).device_indices, (std::vector<int>{0, 0, 0}));
  EXPECT_NE(place_ranks(on_one, 2).problem.find(
                "host a has 1 GPU for 3 ranks, and ranks_per_device is 2"),
            std::string::npos);
}

TEST(Choice, ADeviceThatIsAskedForIsTaken) {
  auto places = two_hosts();
  places[0].device_index = 1;
  places[1].device_index = 0;
  EXPECT_EQ(place_ranks(places, 1).device_indices, (std::vector<int>{1, 0, 0, 1, 2}));
  places[1].device_index = 2;
  EXPECT_EQ(place_ranks(places, 1).problem,
            "rank 1 asks for device_index 2, and sees 2 GPUs on host a");
  places[1].device_index = -1;
  EXPECT_NE(place_ranks(places, 1).problem.find("device_index -1"), std::string::npos);
}

TEST(Choice, TwoRanksOnOneGpuAreNamed) {
  auto places = two_hosts();
  places[0].device_index = 1;
  EXPECT_EQ(place_ranks(places, 1).problem,
            "ranks 0 and 1 are all to use one GPU of host a, which is device 1 of rank 0: give "
            "each its own device_index, or say how many ranks a GPU is to take "
            "(ranks_per_device; docs/gpu.md)");
  // Seen under different indices.
  const std::vector<RankPlace> turned = {{.host = "a", .gpus = {"x", "y"}, .device_index = 1},
                                         {.host = "a", .gpus = {"y", "x"}, .device_index = 0}};
  EXPECT_NE(place_ranks(turned, 1).problem, "");
  EXPECT_EQ(place_ranks(turned, 2).problem, "");
  // GPUs of different hosts are different, whatever they are called.
  EXPECT_EQ(place_ranks({{.host = "a", .gpus = {"x"}}, {.host = "b", .gpus = {"x"}}}, 1).problem,
            "");
}

}  // namespace
}  // namespace lockstep
