#include "harness/rank/rank_context.h"

#include "harness/process/shared_memory.h"
#include "harness/rank/injector.h"
#include "harness/rank/journal.h"
#include "harness/worlds/subject.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

class RankContextTest : public ::testing::Test {
 protected:
  RankHistory seen() const { return rank_history(JournalView(memory_.bytes()).frames(), "here"); }
  TensorValue recorded(const at::Tensor& value) {
    here_.record("x", value);
    return std::get<Observation>(seen().events.back().what).value;
  }

  SharedMemory memory_{1 << 16};
  JournalWriter journal_{memory_.bytes()};
  Injector injector_{
      {{.kind = InjectionKind::throw_, .rank = 1, .at = {2, "forward"}}}, 1, journal_};
  Subject subject_{.name = "bare"};
  RankContext here_{
      {.rank = 1, .size = 3, .subject = subject_, .journal = journal_, .injector = injector_}};
};

TEST_F(RankContextTest, RecordsInOrderUnderTheMomentEnteredLast) {
  here_.record("early", std::vector<int64_t>{1});
  here_.enter(0, "forward");
  here_.record("x", std::vector<int64_t>{1, 2});
  here_.record("y", torch::tensor({1.5F}));
  here_.enter(1, "forward");
  const auto history = seen();
  ASSERT_EQ(history.events.size(), 3u);
  EXPECT_EQ(history.events[0].at, Moment{});
  EXPECT_EQ(history.events[1], (Event{{0, "forward"}, Observation{"x", int64_values({1, 2})}}));
  EXPECT_EQ(std::get<Observation>(history.events[2].what).name, "y");
  EXPECT_EQ(history.last, (Moment{1, "forward"}));
}

TEST_F(RankContextTest, ATensorIsRecordedInRowMajorOrderWhateverItsLayout) {
  const auto value = recorded(torch::arange(6, at::kFloat).view({2, 3}).t());
  EXPECT_EQ(shape_text(value), "float32[3, 2]");
  EXPECT_EQ(as_doubles(value), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST_F(RankContextTest, DtypesGoByTorchsOwnWords) {
  const std::vector<std::pair<at::ScalarType, std::string>> words{
      {at::kFloat, "float32"}, {at::kDouble, "float64"},   {at::kLong, "int64"},
      {at::kInt, "int32"},     {at::kByte, "uint8"},       {at::kBool, "bool"},
      {at::kHalf, "float16"},  {at::kBFloat16, "bfloat16"}};
  for (const auto& [type, word] : words) EXPECT_EQ(recorded(torch::zeros({2}, type)).dtype, word);
}

TEST_F(RankContextTest, AScalarAndAnEmptyTensorKeepTheirShapes) {
  EXPECT_EQ(shape_text(recorded(torch::tensor(3.0))), "float32[]");
  EXPECT_EQ(shape_text(recorded(torch::zeros({0, 4}))), "float32[0, 4]");
}

TEST_F(RankContextTest, AParameterIsRecordedAsItsValues) {
  EXPECT_EQ(as_doubles(recorded(torch::ones({2}, at::requires_grad()))),
            (std::vector<double>{1, 1}));
}

TEST_F(RankContextTest, AnUndefinedTensorIsRefusedByName) {
  try {
    here_.record("weight.grad", at::Tensor());
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "rank 1 of 3 was to record 'weight.grad', which is an undefined tensor");
  }
}

TEST_F(RankContextTest, AnInjectionAtAMomentStrikesOnceTheMomentIsOnRecord) {
  EXPECT_THROW(here_.enter(2, "forward"), InjectedError);
  EXPECT_EQ(seen().last, (Moment{2, "forward"}));
  EXPECT_EQ(std::get<Injection>(seen().events.back().what).kind, InjectionKind::throw_);
}

TEST_F(RankContextTest, GroupAndScratchAreMadeOnce) {
  int made = 0;
  RankContext here({.subject = subject_,
                    .journal = journal_,
                    .injector = injector_,
                    .make_group =
                        [&](const std::vector<int>&) {
                          ++made;
                          return c10::make_intrusive<c10d::ProcessGroup>(0, 1);
                        },
                    .make_scratch =
                        [&] {
                          ++made;
                          return std::filesystem::path("/tmp");
                        }});
  EXPECT_EQ(here.group(), here.group());
  EXPECT_EQ(here.group(), here.group_of({0}));
  EXPECT_EQ(here.scratch(), here.scratch());
  EXPECT_EQ(made, 2);
}

TEST_F(RankContextTest, AGroupIsOfRanksInOrderAndOfThisOneAmongThem) {
  RankContext here({.rank = 1,
                    .size = 4,
                    .subject = subject_,
                    .journal = journal_,
                    .injector = injector_,
                    .make_group = [](const std::vector<int>& ranks) {
                      return c10::make_intrusive<c10d::ProcessGroup>(
                          0, static_cast<int>(ranks.size()));
                    }});
  EXPECT_EQ(here.group_of({1, 3})->getSize(), 2);
  for (const auto& ranks :
       std::vector<std::vector<int>>{{}, {0, 2}, {3, 1}, {1, 1}, {1, 4}, {-1, 1}})
    EXPECT_THROW(here.group_of(ranks), std::invalid_argument) << ranks.size();
}

}  // namespace
}  // namespace lockstep
